"""The link of a question: its token opens one approval for one person, and is nowhere but in what they were sent.

Tokens, sessions and form seals are HMAC-SHA256 under a key made of the owner's token: a copy of the database opens
nothing, and another owner's token ends them all. A link goes only where nobody else reads: never into a room.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from uuid import UUID

import structlog
from sqlalchemy import Connection

from gateway.asking import texts
from identity import rooms
from workspace_store import approvals
from workspace_store import principal as principals
from workspace_store.approvals import Approval
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.outbox import Reply, Said

log = structlog.get_logger()

TOKEN_CHARACTERS = 40
SESSION_SECONDS = 12 * 3600


@dataclass(frozen=True)
class Seals:
    """Makes and checks what proves somebody on the page. ``token``: the owner's."""

    key: bytes

    @classmethod
    def of(cls, token: str) -> Seals:
        return cls(hmac.digest(token.encode(), b"nightporter approvals page 1", "sha256"))

    def _mac(self, *parts: str) -> str:
        return hmac.new(self.key, "\0".join(parts).encode(), sha256).hexdigest()[:TOKEN_CHARACTERS]

    def link(self, found: Approval, person: UUID) -> str:
        """What opens exactly this question, as it is asked now, for this person."""
        return self._mac("link", found.id.hex, found.code, person.hex)

    def person(self, token: str, found: Approval, may_be: Sequence[UUID]) -> UUID | None:
        """Which of these a link's token belongs to."""
        given = token.encode()
        return next((one for one in may_be if hmac.compare_digest(given, self.link(found, one).encode())), None)

    def form(self, visit: str, found: Approval, person: UUID) -> str:
        """What a form has to bring back: it was shown in this visit, to this person, about this request."""
        return self._mac("form", visit, found.id.hex, found.code, found.request_hash, person.hex)

    def session(self, now: float) -> str:
        """A signed-in owner's cookie."""
        until, nonce = str(int(now) + SESSION_SECONDS), secrets.token_hex(16)
        return f"{until}.{nonce}.{self._mac('session', until, nonce)}"

    def is_session(self, cookie: str, now: float) -> bool:
        until, _, rest = cookie.partition(".")
        nonce, _, mac = rest.partition(".")
        true = hmac.compare_digest(mac.encode(), self._mac("session", until, nonce).encode())
        return true and until.isdigit() and int(until) > now


@dataclass(frozen=True)
class Links:
    """Puts a question's link below its words. ``public_url``: where the page is reached."""

    database: Database
    seals: Seals
    public_url: str

    async def added(self, reply: Reply) -> Reply:
        """A reply as it is sent: a question with its link."""
        if not reply.content.get("buttons"):
            return reply
        (text,) = await self._with_links([(reply.id, str(reply.content["text"]))])
        return replace(reply, content={**reply.content, "text": text})

    async def added_to_said(self, said: Sequence[Said]) -> list[Said]:
        """Replies as whoever reads them over HTTP sees them."""
        if not any(one.question for one in said):
            return list(said)
        words = await self._with_links([(one.question, one.text) for one in said])
        return [replace(one, text=text) for one, text in zip(said, words, strict=True)]

    async def _with_links(self, questions: Sequence[tuple[UUID | None, str]]) -> list[str]:
        def linked(connection: Connection) -> list[str]:
            return [self._linked(connection, reply, text) for reply, text in questions]

        try:
            return await self.database.read(linked)
        except DatabaseUnavailable as error:
            # It can be answered without.
            log.warning("a question goes without its link", reason=str(error))
            return [text for _, text in questions]

    def _linked(self, connection: Connection, reply: UUID | None, text: str) -> str:
        found = approvals.of_question(connection, reply) if reply is not None else None
        if found is None or not _is_private(connection, found):
            return text
        token = self.seals.link(found, found.asked)
        return f"{text}\n\n{texts.look(f'{self.public_url}/actions/{found.code}?t={token}')}"


def _is_private(connection: Connection, found: Approval) -> bool:
    """Whether only who is asked reads the question."""
    at = found.place.address
    if principals.kind(connection, found.principal) != "user":
        return False
    return rooms.at(connection, at.channel, at.account, at.conversation) is None

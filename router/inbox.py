"""Intake: a message is durably recorded in one transaction, and only then acknowledged to its platform.

Duplicates are acknowledged and dropped. Unproven senders and strangers the policy does not admit are dropped before
anything of theirs is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from identity.access import Access, admit
from identity.users import User
from router import commands
from router.envelope import Envelope
from workspace_store import inbox, journal, outbox, principal
from workspace_store.database import Database, now_us
from workspace_store.journal import Event
from workspace_store.outbox import Address

log = structlog.get_logger()

JOURNALED_CHARACTERS = 2000
CLASHES = 4


@dataclass(frozen=True)
class Accepted:
    """A message that is recorded. ``duplicate``: it was recorded before. ``owner``: who serves the principal now."""

    message: UUID
    principal: UUID
    duplicate: bool
    acted: bool
    """A command that acted at intake: its answer is in the outbox, there is nothing to serve."""
    owner: str | None


@dataclass
class Inbox:
    """The door every channel goes through. ``ring`` is called after the commit, for what a runner has to serve."""

    database: Database
    access: Access
    ring: Callable[[Accepted], None]

    async def accept(self, envelope: Envelope) -> Accepted | None:
        """Record a message; None: not admitted, nothing stored, nothing to answer.

        Raises DatabaseUnavailable: not recorded, the platform must be told to try again.
        """
        accepted = await self._record_once(envelope)
        if accepted is None:
            log.info("not admitted", channel=envelope.channel, proof=envelope.sender.proof or "none")
        elif not accepted.duplicate:
            self.ring(accepted)
        return accepted

    async def _record_once(self, envelope: Envelope) -> Accepted | None:
        for _ in range(CLASHES):
            with contextlib.suppress(IntegrityError):
                # The same message, or the same new sender, at the same moment: next time it is there to be found.
                return await self.database.write(lambda connection: self._record(connection, envelope))
        return await self.database.write(lambda connection: self._record(connection, envelope))

    def _record(self, connection: Connection, envelope: Envelope) -> Accepted | None:
        there = inbox.find(connection, envelope.dedupe_key)
        if there is not None:
            return Accepted(there.id, there.principal, True, there.kind == "command", None)
        user = admit(connection, envelope.sender, self.access)
        if user is None:
            return None
        command = commands.find(envelope.text)
        identifier = uuid4()
        seq, owner = principal.received(connection, user.id)
        _insert(connection, envelope, identifier, user, seq, acted=command is not None)
        journal.append(connection, user.id, [_received(envelope, identifier, user)], under=None)
        if command is not None:
            answer, rest = command
            principal.drained(connection, user.id)
            said = answer(connection, commands.Asked(user, user.id, rest, envelope, self.access))
            _answer(connection, envelope, identifier, user, said)
        return Accepted(identifier, user.id, False, command is not None, owner)


def _insert(connection: Connection, envelope: Envelope, identifier: UUID, user: User, seq: int, *, acted: bool) -> None:
    inbox.insert(
        connection,
        status="done" if acted else "pending",
        id=identifier,
        dedupe_key=envelope.dedupe_key,
        principal=user.id,
        seq=seq,
        kind="command" if acted else "message",
        actor=user.id,
        channel=envelope.channel,
        account=envelope.account,
        conversation=envelope.conversation,
        thread=envelope.thread,
        envelope=envelope.to_json(),
        received_at=now_us(),
    )


def _received(envelope: Envelope, identifier: UUID, user: User) -> Event:
    body = {
        "message": identifier.hex,
        "channel": envelope.channel,
        "from": user.id.hex,
        "text": envelope.text[:JOURNALED_CHARACTERS],
        "characters": len(envelope.text),
    }
    return Event("message.received", body)


def _answer(
    connection: Connection, envelope: Envelope, identifier: UUID, user: User, said: str | commands.Said
) -> None:
    text = said if isinstance(said, str) else said.text
    buttons = {} if isinstance(said, str) or not said.buttons else {"buttons": [dict(item) for item in said.buttons]}
    outbox.queue(
        connection,
        key=f"{identifier.hex}:0",
        principal=user.id,
        turn=None,
        inbox=identifier,
        to=Address(envelope.channel, envelope.account, envelope.conversation, envelope.thread),
        content={"text": text, "reply": dict(envelope.reply), **buttons},
    )
    event = Event("reply.queued", {"message": identifier.hex, "text": text})
    journal.append(connection, user.id, [event], under=None)

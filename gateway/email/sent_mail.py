"""Mails of ours that went out, found again by their Message-ID: for the thread of an answer, and for what came back.

The local part of our Message-IDs is made of the turn's random id, so that only readers of a mail know it; it is the
token of plus addresses too. A token says which thread is meant, never who speaks: a stranger's finds nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, bindparam, select

from gateway.email import texts
from gateway.email.addresses import normal, plus_part
from gateway.email.parsed import FailedDelivery
from identity import users
from identity.users import Claim
from workspace_store import journal, sent_mails
from workspace_store.database import Database
from workspace_store.journal import Event
from workspace_store.principal import principal

log = structlog.get_logger()

_OURS = re.compile(r"<np\.([0-9a-f]{32})@[^<>@\s]{1,250}>")
_TOKEN = re.compile(r"[0-9a-f]{32}")
MOST_LOOKED_FOR = 10
_MERGED = select(principal.c.merged_into).where(principal.c.id == bindparam("of"))


@dataclass(frozen=True)
class Strand:
    """Where an answer belongs. ``references`` lead from the first mail of the thread to ours that is answered."""

    thread: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class SentMail:
    """``own_address`` is the agent's, whose domain its Message-IDs have."""

    database: Database
    own_address: str

    def token_of(self, message_id: str) -> str:
        """What stands after the plus of an address that leads back to this mail."""
        found = _OURS.fullmatch(message_id)
        return found.group(1) if found else ""

    def _named(self, ids: Iterable[str | None], addresses: Iterable[str]) -> list[str]:
        """Message-IDs of ours among ``ids``, and those that plus addresses of ours name."""
        domain = normal(self.own_address).rpartition("@")[2]
        tokens = (plus_part(address, self.own_address) for address in addresses)
        named = [item for item in ids if item and _OURS.fullmatch(item)]
        named += [f"<np.{token}@{domain}>" for token in tokens if _TOKEN.fullmatch(token)]
        return list(dict.fromkeys(named))[:MOST_LOOKED_FOR]

    async def strand(self, claim: Claim, ids: Iterable[str | None], addresses: Iterable[str]) -> Strand | None:
        """The thread that the speaker's own mails of ours name, the first that is found. Raises DatabaseUnavailable."""
        named = self._named(ids, addresses)
        return await self.database.read(partial(_strand, claim=claim, named=named)) if named else None

    async def came_back(self, failed: FailedDelivery, addresses: Iterable[str]) -> bool:
        """Mark a reply of ours that could not be delivered; whether there was one. Raises DatabaseUnavailable."""
        named = self._named([failed.message_id], addresses)
        if failed.action != "failed" or not named:
            return False
        return await self.database.write(partial(_came_back, failed=failed, named=named))


def _strand(connection: Connection, claim: Claim, named: list[str]) -> Strand | None:
    user = users.by_identity(connection, claim)
    for message_id in named if user is not None else ():
        row = sent_mails.sent_as(connection, message_id)
        if row is not None and user is not None and _owner(connection, row.principal) == user.id:
            reply = _reply(row)
            earlier = [*reply.get("references", ()), reply.get("message_id"), message_id]
            return Strand(row.thread or message_id, tuple(item for item in earlier if item))
    return None


def _owner(connection: Connection, identifier: UUID) -> UUID:
    """Whose a principal is now: after a merge, the survivor's."""
    found = connection.execute(_MERGED, {"of": identifier}).scalar_one_or_none()
    return UUID(str(found)) if found is not None else identifier


def _reply(row: sent_mails.SentMail) -> dict[str, Any]:
    found = json.loads(row.content).get("reply")
    return found if isinstance(found, dict) else {}


def _came_back(connection: Connection, failed: FailedDelivery, named: list[str]) -> bool:
    for message_id in named:
        row = sent_mails.sent_as(connection, message_id)
        if row is None:
            continue
        reply = _reply(row)
        recipients = {normal(address) for address in failed.recipients}
        if reply.get("cc") and normal(str(reply.get("to", ""))) not in recipients:
            return False  # one of several readers: the answer has arrived
        reason = texts.CAME_BACK.format(
            to=", ".join(failed.recipients)[:200] or reply.get("to", ""),
            reason=" ".join(f"{failed.status} {failed.diagnostic}".split())[:500] or texts.NO_REASON,
        )
        if sent_mails.came_back(connection, row.id, reason):
            body = {"reply": row.id.hex, "channel": "email", "reason": reason}
            journal.append(connection, row.principal, [Event("reply.failed", body)], under=None)
            log.warning("a mail came back", reply=str(row.id), reason=reason)
            return True
    return False

"""Mails that went out, found by their Message-ID: for the thread of an answer, and for what came back."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, bindparam, literal_column, select, update

from workspace_store.database import now_us, storable
from workspace_store.outbox import outbox


@dataclass(frozen=True)
class SentMail:
    """A mail that went out."""

    id: UUID
    principal: UUID
    thread: str
    content: str


_SENT_AS = (
    select(outbox.c.id, outbox.c.principal, outbox.c.thread, outbox.c.content)
    .where(outbox.c.channel == literal_column("'email'"), outbox.c.external_id == bindparam("sent_as"))
    .limit(1)
)


def sent_as(connection: Connection, message_id: str) -> SentMail | None:
    """The mail that went out under this Message-ID."""
    row = connection.execute(_SENT_AS, {"sent_as": message_id}).one_or_none()
    return None if row is None else SentMail(row.id, row.principal, row.thread, row.content)


def came_back(connection: Connection, reply: UUID, reason: str) -> bool:
    """Make a reply that had gone out a dead letter, since it was returned; False where it is none that had."""
    changed = connection.execute(
        update(outbox)
        .where(outbox.c.id == reply, outbox.c.status == "sent")
        .values(status="dead", error=storable(reason), settled_at=now_us())
    )
    return changed.rowcount == 1

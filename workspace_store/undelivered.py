"""Replies that did not arrive, or possibly arrived twice: for ``status`` and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, select, text

from workspace_store.outbox import DEAD, outbox


@dataclass(frozen=True)
class Undelivered:
    """``state``: ``dead letter``, or ``possibly repeated``."""

    reply: UUID
    channel: str
    state: str
    reason: str


def newest(connection: Connection, limit: int = 100) -> list[Undelivered]:
    """The newest dead letters with their reasons, and the newest replies that possibly went out twice."""
    columns = (outbox.c.id, outbox.c.channel, outbox.c.error)
    query = select(*columns).order_by(outbox.c.number.desc()).limit(limit)
    dead = connection.execute(query.where(outbox.c.status == DEAD))
    repeated = connection.execute(query.where(text("possibly_repeated")))
    found = [Undelivered(row.id, row.channel, "dead letter", row.error or "") for row in dead]
    told = "its delivery was cut off, so it was sent once more"
    return found + [Undelivered(row.id, row.channel, "possibly repeated", told) for row in repeated]

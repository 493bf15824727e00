"""What a turn has in hand: messages as it needs them, a burst as one, and what it may take in while it runs.

Modes of what arrives meanwhile from the same person in the same strand: ``steer`` hands it to the running turn at its
next safe point, where the engine takes messages; ``queue`` lets each wait for a turn of its own; ``collect`` lets what
waits become one turn together; ``interrupt`` ends the running turn at its next safe point, and the newer message is
next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection

from workspace_store import bursts, inbox, journal
from workspace_store.inbox import Row, Started
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.principal import Lease

Arrivals = Literal["steer", "queue", "collect", "interrupt"]

HEARTBEAT = "heartbeat"
"""The kind of an inbox row that nobody wrote, and that is answered only if there is something to tell."""
NOTHING_TO_SAY = "HEARTBEAT_OK"


@dataclass(frozen=True)
class Assignment:
    """A message as the turn needs it: its inbox row, its words, and what its channel wants back with a reply."""

    row: Row
    text: str
    context: str
    """Quoted or forwarded words: data, not what the person says."""
    reply: Mapping[str, Any]
    speaker: str = ""
    """Who speaks, in a room; empty in a private conversation."""
    order: int = 0
    """The platform's own order of messages, where it has one."""
    with_files: tuple[UUID, ...] = ()
    """The messages of it that files came with."""
    burst: tuple[Row, ...] = ()
    """The rows of the rest of its burst, whose words are in ``text`` already."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.row, *self.burst

    def is_silent(self, reply: str) -> bool:
        """Whether this answer to it is none."""
        return self.row.kind == HEARTBEAT and reply.strip().strip("`*.") in ("", NOTHING_TO_SAY)

    @property
    def address(self) -> Address:
        return Address(self.row.channel, self.row.account, self.row.conversation, self.row.thread)


def read(rows: Sequence[Row], read_message: Callable[[Row], Assignment]) -> list[Assignment]:
    """Rows in order of arrival as assignments; those of one burst are one, in the order they were said."""
    together: dict[UUID, list[Assignment]] = {}
    for row in rows:
        together.setdefault(row.burst or row.id, []).append(read_message(row))
    return [_as_one(parts) for parts in together.values()]


def _as_one(parts: list[Assignment]) -> Assignment:
    first, *rest = parts
    if not rest:
        return first
    said = sorted(parts, key=lambda part: part.order)
    return replace(
        first,
        text="\n".join(filter(None, (part.text for part in said))),
        context="\n\n".join(filter(None, (part.context for part in said))),
        with_files=tuple(message for part in said for message in part.with_files),
        burst=tuple(part.row for part in rest),
    )


def take_at_start(connection: Connection, lease: Lease, started: Started, turn: UUID, arrivals: Arrivals) -> list[Row]:
    """What a turn that begins with a row takes in with it: the rest of its burst; ``collect``: all that waits."""
    row = started.row
    burst = bursts.of(connection, row.burst or row.id) if started.in_burst else []
    taken = [one for one in burst if one.id != row.id]
    if arrivals == "collect" and row.kind == "message":
        known = {row.id, *(one.id for one in taken)}
        taken += [one for one in inbox.waiting_like(connection, row) if one.id not in known]
    return _take(connection, lease, taken, turn)


def take_arrivals(connection: Connection, lease: Lease, like: Row, turn: UUID) -> list[Row]:
    """What arrived meanwhile from the same person in the same strand, and has settled."""
    return _take(connection, lease, inbox.waiting_like(connection, like), turn)


def _take(connection: Connection, lease: Lease, rows: list[Row], turn: UUID) -> list[Row]:
    if rows:
        inbox.mark_taken(connection, [row.id for row in rows], turn)
        events = [Event("message.taken", {"message": row.id.hex}) for row in rows]
        journal.append(connection, lease.principal, events, under=lease, turn=turn)
    return rows

"""Old turns put into the cold, some dozens together, and taken out again before any of them may change."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, bindparam, select, text, update

from workspace_store import cold_turns
from workspace_store.checkpoints import COLD, WARM, turn_record
from workspace_store.cold_turns import Segment
from workspace_store.statements import Prepared

KEPT = 128
"""Folded turns whose words stay as they are: they are what is asked about most."""
SEGMENT = 64

# Literals: SQLite uses a partial index only for the words it was made with.
_WARM = text(WARM)
_OLDEST = (
    select(turn_record.c.seq)
    .where(turn_record.c.principal == bindparam("of"), _WARM)
    .order_by(turn_record.c.seq)
    .limit(bindparam("most"))
)
_ONE_TOO_MANY = Prepared(_OLDEST.offset(bindparam("kept")))


def due(connection: Connection, owner: UUID) -> bool:
    """Whether enough turns have grown old: a look at a partial index, bounded whatever the history."""
    return _ONE_TOO_MANY(connection, {"of": owner, "kept": KEPT + SEGMENT - 1, "most": 1}).first() is not None


def freeze(connection: Connection, owner: UUID) -> int:
    """Put the oldest turns into the cold, if enough are old; how many."""
    if not due(connection, owner):
        return 0
    oldest = [row.seq for row in connection.execute(_OLDEST, {"of": owner, "most": SEGMENT})]
    mine = (turn_record.c.principal == owner, turn_record.c.seq.in_(oldest))
    rows = connection.execute(select(turn_record.c.seq, turn_record.c.messages).where(*mine)).all()
    cold_turns.put(connection, owner, {int(row.seq): row.messages for row in rows})
    connection.execute(update(turn_record).where(*mine).values(messages=COLD))
    return len(rows)


def thaw(connection: Connection, owner: UUID, seq: int) -> None:
    """Take a turn out of the cold, with those beside it."""
    segment = cold_turns.segment_of(connection, owner, seq)
    if segment is not None:
        _thaw(connection, segment)


def thaw_holding(connection: Connection, scope: Sequence[UUID], words: Sequence[str]) -> None:
    """Take out of the cold what holds any of ``words``, as they stand in JSON, with what is beside it."""
    for segment in cold_turns.holding(connection, scope, words):
        _thaw(connection, segment)


def _thaw(connection: Connection, segment: Segment) -> None:
    statement = (
        update(turn_record)
        .where(turn_record.c.principal == segment.principal, turn_record.c.seq == bindparam("at_seq"))
        .values(messages=bindparam("words"))
    )
    connection.execute(statement, [{"at_seq": seq, "words": words} for seq, words in segment.turns.items()])
    cold_turns.remove(connection, segment)

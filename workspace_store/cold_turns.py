"""The words of old turns, many compressed together: what is left of them in their records is what they folded into.

Read only when asked for word for word. A segment goes when any of its turns has to change (``archiving``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import zstandard
from sqlalchemy import BigInteger, Column, Connection, LargeBinary, bindparam, delete, select
from sqlmodel import Field, SQLModel

from workspace_store.database import table

LEVEL = 6


class ColdTurnsRow(SQLModel, table=True):
    """``words``: zstd of a line a turn, its number, a tab and its messages in JSON; of ``first`` to ``last``."""

    __tablename__ = "cold_turns"

    principal: UUID = Field(primary_key=True)
    first: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    last: int = Field(sa_column=Column(BigInteger, nullable=False))
    turns: int
    words: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


cold_turns = table(ColdTurnsRow)


@dataclass(frozen=True)
class Segment:
    """Turns of one principal by the number of their record, in order."""

    principal: UUID
    first: int
    turns: Mapping[int, str]


# Nearly always one. Turns that came out of the cold, and went back at different times, reach across others.
_AROUND = (
    select(cold_turns.c.first, cold_turns.c.words)
    .where(
        cold_turns.c.principal == bindparam("of"),
        cold_turns.c.first <= bindparam("seq"),
        cold_turns.c.last >= bindparam("seq"),
    )
    .order_by(cold_turns.c.first.desc())
)


def put(connection: Connection, owner: UUID, turns: Mapping[int, str]) -> None:
    """Keep the messages of these turns, as JSON, by the number of their record."""
    lines = "\n".join(f"{seq}\t{messages}" for seq, messages in sorted(turns.items()))
    words = zstandard.ZstdCompressor(level=LEVEL).compress(lines.encode())
    row = {"principal": owner, "first": min(turns), "last": max(turns), "turns": len(turns), "words": words}
    connection.execute(cold_turns.insert(), row)


def messages_at(connection: Connection, owner: UUID, seq: int) -> str | None:
    """The messages of one turn, as JSON; None: it is not among these."""
    segment = segment_of(connection, owner, seq)
    return segment.turns[seq] if segment else None


def holding(connection: Connection, scope: Sequence[UUID], words: Sequence[str]) -> list[Segment]:
    """The segments of somebody that hold any of ``words``, as these stand in JSON. Reads all of them."""
    found = []
    query = select(cold_turns.c.principal, cold_turns.c.first, cold_turns.c.words)
    for row in connection.execute(query.where(cold_turns.c.principal.in_(scope))).all():
        plain = _plain(row.words)
        if any(one in plain for one in words):
            found.append(Segment(row.principal, int(row.first), dict(_turns(plain))))
    return found


def segment_of(connection: Connection, owner: UUID, seq: int) -> Segment | None:
    """The segment that holds a turn; None: no segment does."""
    for row in connection.execute(_AROUND, {"of": owner, "seq": seq}):
        turns = dict(_turns(_plain(row.words)))
        if seq in turns:
            return Segment(owner, int(row.first), turns)
    return None


def turns_beside(connection: Connection, owner: UUID, seq: int) -> Mapping[int, str]:
    """The messages, as JSON, of a turn and of those kept with it."""
    segment = segment_of(connection, owner, seq)
    return segment.turns if segment else {seq: "[]"}


def remove(connection: Connection, segment: Segment) -> None:
    mine = (cold_turns.c.principal == segment.principal, cold_turns.c.first == segment.first)
    connection.execute(delete(cold_turns).where(*mine))


def _plain(words: bytes) -> str:
    return zstandard.ZstdDecompressor().decompress(words).decode()


def _turns(plain: str) -> Iterator[tuple[int, str]]:
    for line in plain.split("\n"):
        seq, _, messages = line.partition("\t")
        yield int(seq), messages

"""What folded turns said, fact by fact, for exact look-up; and how folding has fared.

A fact is an identifier, a decision, a verdict of a test and the like, as ``agent.facts`` finds them. A look-up goes by
the whole value, in any case, through an index: it costs the same whatever the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Field, SQLModel

from workspace_store import principal
from workspace_store.database import now_us, storable, table
from workspace_store.statements import Prepared

LOOKUP_CHARACTERS = 200
BREAKER = 3
"""After so many failed checks in a row, folding rests."""


class TurnFactRow(SQLModel, table=True):
    """``lookup``: the value's beginning, without case: what the index holds."""

    __tablename__ = "turn_fact"
    __table_args__ = (Index("turn_fact_lookup", "principal", "lookup", "seq"),)

    principal: UUID = Field(primary_key=True)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    position: int = Field(primary_key=True)
    kind: str
    value: str = Field(sa_column=Column(Text, nullable=False))
    lookup: str


class FoldingRow(SQLModel, table=True):
    """``failures``: foldings in a row that did not pass their check; no row: the last one did."""

    __tablename__ = "folding"

    principal: UUID = Field(primary_key=True)
    failures: int
    reason: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


turn_fact = table(TurnFactRow)
folding = table(FoldingRow)


@dataclass(frozen=True)
class Found:
    """A turn that a fact is in: ``seq`` of its record, and whose it is."""

    principal: UUID
    seq: int
    kind: str
    value: str


@dataclass(frozen=True)
class Trouble:
    """Foldings that failed in a row, why the last did, and when (microseconds)."""

    failures: int
    reason: str
    at: int


_FIND = (
    select(turn_fact.c.principal, turn_fact.c.seq, turn_fact.c.kind, turn_fact.c.value)
    .where(
        turn_fact.c.principal.in_(bindparam("scope", expanding=True)),
        turn_fact.c.lookup == bindparam("wanted"),
    )
    .order_by(turn_fact.c.seq.desc())
    .limit(bindparam("most"))
)
_FIND_FIRST = _FIND.order_by(None).order_by(turn_fact.c.seq)
_INSERT = turn_fact.insert()
_DELETE = delete(turn_fact).where(
    turn_fact.c.principal == bindparam("of"), turn_fact.c.seq.in_(bindparam("seqs", expanding=True))
)
_HELD = select(turn_fact.c.kind, turn_fact.c.value).where(
    turn_fact.c.principal == bindparam("of"), turn_fact.c.seq.in_(bindparam("seqs", expanding=True))
)
_TROUBLE = Prepared(
    select(folding.c.failures, folding.c.reason, folding.c.at).where(folding.c.principal == bindparam("of"))
)
_SUCCEEDED = Prepared(delete(folding).where(folding.c.principal == bindparam("of")))


def key_of(value: str) -> str:
    """What a value is looked up by."""
    return storable(" ".join(value.split())).casefold()[:LOOKUP_CHARACTERS]


def write(connection: Connection, owner: UUID, seq: int, facts: Sequence[tuple[str, str]]) -> None:
    """Keep the (kind, value) pairs of one turn, in place of what was kept of it before."""
    write_all(connection, owner, {seq: facts})


def write_all(connection: Connection, owner: UUID, facts: Mapping[int, Sequence[tuple[str, str]]]) -> None:
    """The same for several turns, by the seq of each."""
    connection.execute(_DELETE, {"of": owner, "seqs": list(facts)})
    rows = [
        {"principal": owner, "seq": seq, "position": position, "kind": kind, "value": storable(value),
         "lookup": key_of(value)}
        for seq, found in facts.items()
        for position, (kind, value) in enumerate(found)
    ]  # fmt: skip
    if rows:
        connection.execute(_INSERT, rows)


def find(connection: Connection, owner: UUID, value: str, limit: int = 5) -> list[Found]:
    """Turns that hold exactly this value, in any case: the owner's and those of who was merged into them.

    The newest, and where there are more than ``limit`` the first of all: where it was said before it was asked about.
    """
    given = {"scope": principal.scope(connection, owner), "wanted": key_of(value), "most": limit}
    found = [Found(**row._mapping) for row in connection.execute(_FIND, given)]
    if len(found) == limit > 1:
        (first,) = connection.execute(_FIND_FIRST, {**given, "most": 1})
        found[-1] = Found(**first._mapping)
    return found


def held(connection: Connection, owner: UUID, seqs: Sequence[int]) -> set[tuple[str, str]]:
    """The (kind, value) pairs that a look-up finds of these turns."""
    return {(row.kind, row.value) for row in connection.execute(_HELD, {"of": owner, "seqs": seqs})}


def blank(connection: Connection, scope: Sequence[UUID], words: str) -> None:
    """Drop what holds these words; the rest of their turns' facts stays."""
    holds = (turn_fact.c.principal.in_(scope), turn_fact.c.value.contains(words, autoescape=True))
    connection.execute(delete(turn_fact).where(*holds))


def trouble(connection: Connection, owner: UUID) -> Trouble | None:
    """How folding fails; None: it does not."""
    row = _TROUBLE(connection, {"of": owner}).one_or_none()
    return Trouble(*row) if row else None


def failed(connection: Connection, owner: UUID, reason: str) -> int:
    """Count a folding that did not pass its check; how many have failed in a row."""
    before = trouble(connection, owner)
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    values = {"failures": (before.failures if before else 0) + 1, "reason": storable(reason), "at": now_us()}
    insert = dialect.insert(folding).values(principal=owner, **values)
    connection.execute(insert.on_conflict_do_update(index_elements=["principal"], set_=values))
    return int(str(values["failures"]))


def succeeded(connection: Connection, owner: UUID) -> None:
    _SUCCEEDED(connection, {"of": owner})


def stopped(connection: Connection) -> int:
    """For how many principals folding rests."""
    return len(connection.execute(select(folding.c.principal).where(folding.c.failures >= BREAKER)).all())

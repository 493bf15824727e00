"""Checkpoints and turn records: what a wake reads instead of the whole journal.

A checkpoint says how far the journal was digested and which volume generation goes with it. A turn record keeps one
turn word for word (large outputs already in blobs) and, once folded, its extract. Reading is bounded whatever the
history: one checkpoint, the newest records within a budget, the events after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Text,
    Uuid,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
    type_coerce,
    update,
)
from sqlmodel import Field, SQLModel

from workspace_store import cold_turns, statements
from workspace_store.database import now_us, storable, table, to_json
from workspace_store.principal import principal
from workspace_store.statements import Prepared, Together

COLD = ""
"""In the place of messages that are kept elsewhere."""
WARM = "folded IS NOT NULL AND searchable AND messages <> ''"


class CheckpointRow(SQLModel, table=True):
    """``seq``: the last journal event it covers. ``state_digest``: of the process state that goes with it."""

    __tablename__ = "checkpoint"

    principal: UUID = Field(primary_key=True)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    turn: UUID | None = None
    generation: int = Field(sa_column=Column(BigInteger, nullable=False))
    volume_id: str | None
    manifest_digest: str | None = None
    state_digest: str | None = None
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


class TurnRecordRow(SQLModel, table=True):
    """One turn: ``messages`` is JSON of what was said and done in it, or empty where that is among the cold turns;
    ``folded`` its extract, once it is old."""

    __tablename__ = "turn_record"
    __table_args__ = (
        Index("turn_record_turn", "turn", "principal", unique=True),
        # The newest unfolded ones are found without reading what is folded, however many that are.
        Index("turn_record_unfolded", "principal", "seq", sqlite_where=text("folded IS NULL"),
              postgresql_where=text("folded IS NULL")),
        Index("turn_record_warm", "principal", "seq", sqlite_where=text(WARM), postgresql_where=text(WARM)),
        Index("turn_record_unsearchable", "principal", "seq", sqlite_where=text("NOT searchable"),
              postgresql_where=text("NOT searchable")),
    )  # fmt: skip

    principal: UUID = Field(primary_key=True)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    turn: UUID
    messages: str = Field(sa_column=Column(Text, nullable=False))
    tokens: int
    folded: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    searchable: bool = False


class GenerationRow(SQLModel, table=True):
    """A committed generation of a volume: what ``workspace history`` lists."""

    __tablename__ = "generation"

    principal: UUID = Field(primary_key=True)
    generation: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    manifest_digest: str
    turn: UUID | None = None
    note: str
    files: int
    bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    changed: int
    moving: bool
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    visible: int | None = None
    restored_from: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


checkpoint = table(CheckpointRow)
turn_record = table(TurnRecordRow)
generation = table(GenerationRow)


@dataclass(frozen=True)
class Checkpoint:
    seq: int
    turn: UUID | None
    generation: int
    volume_id: str | None
    manifest_digest: str | None
    state_digest: str | None
    at: int


@dataclass(frozen=True)
class TurnRecord:
    """``messages``: a list of objects with ``role`` and ``text`` (see agent/trajectory.py)."""

    seq: int
    turn: UUID
    messages: list[dict[str, Any]]
    tokens: int
    folded: str | None
    at: int


@dataclass(frozen=True)
class CommittedGeneration:
    generation: int
    manifest_digest: str
    turn: UUID | None
    note: str
    files: int
    bytes: int
    changed: int
    moving: bool
    at: int
    visible: int | None = None
    """Of ``changed``, those outside the agent's own folder."""
    restored_from: int | None = None
    """The generation it was made equal to, 0 for the empty one."""


# Built once: building a statement costs five times what executing it does.
_LATEST = Prepared(
    select(*[checkpoint.c[name] for name in Checkpoint.__dataclass_fields__])
    .where(checkpoint.c.principal == bindparam("of"))
    .order_by(checkpoint.c.seq.desc())
    .limit(1)
)
_WRITE = checkpoint.insert()
_LAST = select(checkpoint).where(checkpoint.c.principal == bindparam("of")).order_by(checkpoint.c.seq.desc()).limit(1)
_WRITE_UNCHANGED = Prepared(checkpoint.insert().from_select(
    ["principal", "seq", "turn", "generation", "volume_id", "manifest_digest", "state_digest", "at"],
    select(
        principal.c.id, type_coerce(bindparam("to_seq"), BigInteger), type_coerce(bindparam("by"), Uuid),
        principal.c.generation, principal.c.volume_id,
        _LAST.with_only_columns(checkpoint.c.manifest_digest).scalar_subquery(),
        _LAST.with_only_columns(checkpoint.c.state_digest).scalar_subquery(),
        type_coerce(bindparam("now"), BigInteger),
    ).where(principal.c.id == bindparam("of")),
)
)  # fmt: skip
_WRITE_TURN = Prepared(turn_record.insert())
_FOLD = (
    update(turn_record)
    .where(turn_record.c.principal == bindparam("of"), turn_record.c.seq == bindparam("at_seq"))
    .values(folded=bindparam("extract"))
)
_WRITE_GENERATION = generation.insert()
_NEWEST = (
    select(turn_record)
    .where(turn_record.c.principal == bindparam("of"))
    .order_by(turn_record.c.seq.desc())
    .limit(bindparam("most"))
)
_NEWEST_BY_FOLDED = {
    None: _NEWEST,
    True: _NEWEST.where(turn_record.c.folded.is_not(None)),
    False: _NEWEST.where(turn_record.c.folded.is_(None)),
}
_UNFOLDED = Prepared(
    select(func.count()).select_from(
        select(turn_record.c.seq)
        .where(turn_record.c.principal == bindparam("of"), turn_record.c.folded.is_(None))
        .limit(bindparam("most"))
        .subquery()
    )
)
_NEWEST_FOLDS = Prepared(
    select(turn_record.c.seq, turn_record.c.folded)
    .where(
        turn_record.c.principal == bindparam("of"),
        turn_record.c.seq < bindparam("before"),
        turn_record.c.folded.is_not(None),
    )
    .order_by(turn_record.c.seq.desc())
    .limit(bindparam("most"))
)


def latest(connection: Connection, owner: UUID) -> Checkpoint | None:
    row = _LATEST(connection, {"of": owner}).one_or_none()
    return Checkpoint(*row) if row else None


def write(connection: Connection, owner: UUID, value: Checkpoint) -> None:
    connection.execute(_WRITE, {"principal": owner, **value.__dict__})


def write_unchanged(connection: Connection, owner: UUID, seq: int, turn: UUID, beside: Together | None = None) -> None:
    """The checkpoint of a turn that left the volume as the last one had it."""
    given = {"of": owner, "to_seq": seq, "by": turn, "now": now_us()}
    statements.write(connection, _WRITE_UNCHANGED, given, beside)


def record_turn(
    connection: Connection, owner: UUID, seq: int, turn: UUID, messages: list[dict[str, Any]], tokens: int,
    beside: Together | None = None,
) -> None:  # fmt: skip
    """Keep a committed turn word for word."""
    row: dict[str, Any] = {
        "principal": owner,
        "seq": seq,
        "turn": turn,
        "messages": to_json(messages),
        "tokens": tokens,
    }
    row |= {"folded": None, "at": now_us(), "searchable": False}
    statements.write(connection, _WRITE_TURN, row, beside)


def newest_turns(connection: Connection, owner: UUID, limit: int, *, folded: bool | None = None) -> list[TurnRecord]:
    """The newest ``limit`` turn records in order; only (un)folded ones where ``folded`` says so."""
    rows = connection.execute(_NEWEST_BY_FOLDED[folded], {"of": owner, "most": limit}).all()[::-1]
    return [TurnRecord(r.seq, r.turn, messages_in(connection, r), r.tokens, r.folded, r.at) for r in rows]


def messages_of(connection: Connection, scope: Sequence[UUID], turn: UUID) -> list[dict[str, Any]]:
    """The messages of one turn of somebody's, word for word; none where there is no such turn."""
    mine = (turn_record.c.turn == turn, turn_record.c.principal.in_(scope))
    columns = (turn_record.c.principal, turn_record.c.seq, turn_record.c.messages)
    row = connection.execute(select(*columns).where(*mine)).one_or_none()
    return messages_in(connection, row) if row is not None else []


def turn_at(connection: Connection, scope: Sequence[UUID], seq: int) -> UUID | None:
    """The turn whose record has this number, of the first of ``scope`` that has one."""
    query = select(turn_record.c.principal, turn_record.c.turn).where(
        turn_record.c.principal.in_(scope), turn_record.c.seq == seq
    )
    found: dict[UUID, UUID] = {row.principal: row.turn for row in connection.execute(query)}
    return next((found[owner] for owner in scope if owner in found), None)


def at_of(connection: Connection, owner: UUID, seq: int) -> int:
    """When the turn with this record was committed (microseconds); 0: there is none."""
    mine = (turn_record.c.principal == owner, turn_record.c.seq == seq)
    return int(connection.execute(select(turn_record.c.at).where(*mine)).scalar() or 0)


def messages_in(connection: Connection, row: Any) -> list[dict[str, Any]]:
    """The messages of a turn, wherever they are kept. ``row`` has the record's principal, seq and messages."""
    kept = row.messages
    if kept == COLD:
        kept = cold_turns.messages_at(connection, row.principal, row.seq) or "[]"
    found: list[dict[str, Any]] = json.loads(kept)
    return found


def unfolded(connection: Connection, owner: UUID, most: int) -> int:
    """How many turns are not folded yet, counted up to ``most``."""
    return int(_UNFOLDED(connection, {"of": owner, "most": most}).scalar_one())


def count_turns(connection: Connection, owner: UUID) -> int:
    """How many turns a principal has had."""
    counted = select(func.count()).where(turn_record.c.principal == owner)
    return int(connection.execute(counted).scalar_one())


def newest_folds(connection: Connection, owner: UUID, before: int, limit: int) -> list[tuple[int, str]]:
    """(seq, extract) of the newest ``limit`` folded turns before journal seq ``before``, in order."""
    rows = _NEWEST_FOLDS(connection, {"of": owner, "before": before, "most": limit}).all()
    return [(row.seq, row.folded) for row in rows][::-1]


def fold(connection: Connection, owner: UUID, seq: int, extract: str) -> None:
    """Store the extract of one turn; its words stay retrievable."""
    fold_all(connection, owner, {seq: extract})


def fold_all(connection: Connection, owner: UUID, extracts: Mapping[int, str]) -> None:
    """The same for several turns, by the seq of each."""
    rows = [{"of": owner, "at_seq": seq, "extract": storable(extract)} for seq, extract in extracts.items()]
    connection.execute(_FOLD, rows)


def write_generation(connection: Connection, owner: UUID, value: CommittedGeneration) -> None:
    connection.execute(_WRITE_GENERATION, {"principal": owner, **value.__dict__})


def generations(connection: Connection, owner: UUID, limit: int = 100) -> list[CommittedGeneration]:
    """The newest generations, newest first."""
    names = list(CommittedGeneration.__dataclass_fields__)
    rows = connection.execute(
        select(*[generation.c[name] for name in names])
        .where(generation.c.principal == owner)
        .order_by(generation.c.generation.desc())
        .limit(limit)
    )
    return [CommittedGeneration(**row._mapping) for row in rows]


def committed_generation(connection: Connection, owner: UUID, number: int) -> CommittedGeneration | None:
    names = list(CommittedGeneration.__dataclass_fields__)
    row = connection.execute(
        select(*[generation.c[name] for name in names]).where(
            generation.c.principal == owner, generation.c.generation == number
        )
    ).one_or_none()
    return CommittedGeneration(**row._mapping) if row else None


def generation_numbers(connection: Connection, owner: UUID) -> list[int]:
    """Every generation that is kept, ascending."""
    query = select(generation.c.generation).where(generation.c.principal == owner).order_by(generation.c.generation)
    return [int(row.generation) for row in connection.execute(query)]


def generations_beyond(connection: Connection, owner: UUID, most: int, before: int) -> list[int]:
    """Those older than the newest ``most``, or than ``before`` (microseconds), ascending; never the newest."""
    kept = (
        select(generation.c.generation)
        .where(generation.c.principal == owner)
        .order_by(generation.c.generation.desc())
        .limit(most)
        .subquery()
    )
    oldest, newest = connection.execute(select(func.min(kept.c.generation), func.max(kept.c.generation))).one()
    if newest is None:
        return []
    query = select(generation.c.generation).where(
        generation.c.principal == owner,
        generation.c.generation != newest,
        or_(generation.c.generation < oldest, generation.c.at < before),
    )
    return [int(row.generation) for row in connection.execute(query.order_by(generation.c.generation))]


def forget_generations(connection: Connection, owner: UUID, numbers: list[int]) -> None:
    """Take generations off the list; their files go after."""
    for start in range(0, len(numbers), 500):
        some = numbers[start : start + 500]
        connection.execute(delete(generation).where(generation.c.principal == owner, generation.c.generation.in_(some)))

"""Commitments: what was promised to a principal and not yet kept. They stand in every context, word for word, until
somebody says that they are kept or no longer wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, delete, func, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store.database import now_us, storable, table

Ending = Literal["kept", "dropped"]


class CommitmentRow(SQLModel, table=True):
    """``noticed``: it was found in what was said, when that was folded; else it was made as one."""

    __tablename__ = "commitment"
    __table_args__ = (
        Index("commitment_key", "key", unique=True),
        Index("commitment_number", "principal", "number", unique=True),
        Index("commitment_open", "principal", "number", sqlite_where=text("ended_at IS NULL"),
              postgresql_where=text("ended_at IS NULL")),
        Index("commitment_task", "task", sqlite_where=text("ended_at IS NULL"),
              postgresql_where=text("ended_at IS NULL")),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    key: str
    principal: UUID
    number: int
    task: UUID | None = None
    body: str = Field(sa_column=Column(Text, nullable=False))
    noticed: bool
    ending: str | None = None
    turn: UUID | None = None
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    ended_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


commitment = table(CommitmentRow)


@dataclass(frozen=True)
class Commitment:
    id: UUID
    number: int
    task: UUID | None
    body: str
    noticed: bool
    turn: UUID | None
    at: int


_COLUMNS = [commitment.c[name] for name in Commitment.__dataclass_fields__]
_STANDING = (
    select(*_COLUMNS)
    .where(commitment.c.principal == bindparam("of"), commitment.c.ended_at.is_(None))
    .order_by(commitment.c.number)
    .limit(bindparam("most"))
)


def make(
    connection: Connection,
    owner: UUID,
    key: str,
    body: str,
    *,
    task: UUID | None = None,
    turn: UUID | None = None,
    noticed: bool = False,
) -> Commitment:
    """Write a commitment; the same ``key`` again, or the same words while they stand, is the same one."""
    body = storable(" ".join(body.split()))
    same = (commitment.c.key == key) | (
        (commitment.c.principal == owner) & commitment.c.ended_at.is_(None) & (commitment.c.body == body)
    )
    there = connection.execute(select(*_COLUMNS).where(same).limit(1)).one_or_none()
    if there is not None:
        return Commitment(**there._mapping)
    row: dict[str, Any] = {
        "id": uuid4(), "key": key, "principal": owner, "number": _next(connection, owner), "task": task, "body": body,
        "noticed": noticed, "ending": None, "turn": turn, "at": now_us(), "ended_at": None,
    }  # fmt: skip
    connection.execute(commitment.insert(), row)
    return Commitment(**{name: row[name] for name in Commitment.__dataclass_fields__})


def number_for(connection: Connection, owner: UUID, key: str, body: str) -> int:
    """The number that a commitment made with these has, or will have."""
    same = commitment.c.ended_at.is_(None) & (commitment.c.body == storable(body))
    mine = (commitment.c.principal == owner) & same
    there = connection.execute(select(commitment.c.number).where((commitment.c.key == key) | mine).limit(1)).scalar()
    return _next(connection, owner) if there is None else int(there)


def is_known(connection: Connection, owner: UUID, body: str) -> bool:
    """Whether it was promised in these words before, also if that has ended."""
    mine = (commitment.c.principal == owner, commitment.c.body == storable(" ".join(body.split())))
    return connection.execute(select(commitment.c.id).where(*mine).limit(1)).first() is not None


def standing(connection: Connection, owner: UUID, limit: int = 500) -> list[Commitment]:
    """Those neither kept nor dropped, oldest first."""
    return [Commitment(**row._mapping) for row in connection.execute(_STANDING, {"of": owner, "most": limit})]


def end(connection: Connection, owner: UUID, number: int, ending: Ending) -> Commitment | None:
    """End a commitment; None: none of that number stands."""
    row = connection.execute(
        update(commitment)
        .where(commitment.c.principal == owner, commitment.c.number == number, commitment.c.ended_at.is_(None))
        .values(ending=ending, ended_at=now_us())
        .returning(*_COLUMNS)
    ).one_or_none()
    return Commitment(**row._mapping) if row else None


def end_of_task(connection: Connection, task: UUID, ending: Ending) -> None:
    """What was promised for a task ends with it."""
    mine = (commitment.c.task == task, commitment.c.ended_at.is_(None))
    connection.execute(update(commitment).where(*mine).values(ending=ending, ended_at=now_us()))


def forget_turn(connection: Connection, turn: UUID) -> None:
    """Drop what was noticed in a turn that is forgotten."""
    connection.execute(delete(commitment).where(commitment.c.turn == turn, commitment.c.noticed))


def move(connection: Connection, owner: UUID, to: UUID) -> list[UUID]:
    """Give what stands to another: the two are one person. Their ids."""
    moved = [found.id for found in standing(connection, owner)]
    for identifier in moved:
        _give(connection, identifier, to)
    return moved


def move_back(connection: Connection, identifiers: Sequence[UUID], to: UUID) -> None:
    """Give back those of them that still stand."""
    for identifier in identifiers:
        this = (commitment.c.id == identifier, commitment.c.ended_at.is_(None), commitment.c.principal != to)
        if connection.execute(select(commitment.c.id).where(*this)).one_or_none() is not None:
            _give(connection, identifier, to)


def _give(connection: Connection, identifier: UUID, to: UUID) -> None:
    number = _next(connection, to)
    connection.execute(update(commitment).where(commitment.c.id == identifier).values(principal=to, number=number))


def _next(connection: Connection, owner: UUID) -> int:
    last = connection.execute(select(func.max(commitment.c.number)).where(commitment.c.principal == owner)).scalar()
    return (last or 0) + 1

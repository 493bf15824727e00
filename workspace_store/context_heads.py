"""The head of a principal's context: what an engine reads before the last turns, frozen as it was put together.

It stays byte for byte until turns are folded into it, so that a provider's cache of it holds from turn to turn whatever
is noted, opened or closed meanwhile; that is told with the messages. Whoever takes words away (forgetting, unmerging)
drops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Text, bindparam, delete, insert, select
from sqlmodel import Field, SQLModel

from workspace_store.database import now_us, storable, table
from workspace_store.statements import Prepared


class ContextHeadRow(SQLModel, table=True):
    """``upto``: the last turn record it holds in short; those after it are told word for word."""

    __tablename__ = "context_head"

    principal: UUID = Field(primary_key=True)
    upto: int = Field(sa_column=Column(BigInteger, nullable=False))
    body: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


context_head = table(ContextHeadRow)


@dataclass(frozen=True)
class Head:
    """``body``: JSON, as the agent wrote it."""

    upto: int
    body: str
    at: int


_FIND = select(context_head.c.upto, context_head.c.body, context_head.c.at).where(
    context_head.c.principal == bindparam("of")
)

_DROP = Prepared(delete(context_head).where(context_head.c.principal == bindparam("of")))


def find(connection: Connection, owner: UUID) -> Head | None:
    row = connection.execute(_FIND, {"of": owner}).one_or_none()
    return Head(**row._mapping) if row else None


def keep(connection: Connection, owner: UUID, upto: int, body: str) -> None:
    """Freeze a head in place of the one before."""
    drop(connection, owner)
    values = {"principal": owner, "upto": upto, "body": storable(body), "at": now_us()}
    connection.execute(insert(context_head), values)


def drop(connection: Connection, owner: UUID) -> None:
    """The next turn puts a new one together."""
    _DROP(connection, {"of": owner})

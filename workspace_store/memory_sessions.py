"""Sessions of talk that are to be looked back at: how far that was done, and when the next time is due.

A row is made when a turn becomes searchable; it is due when nothing was said for a while, when the sandbox fell asleep,
or when a task was verified. Whoever looks back takes it for some minutes, so that two runners do not do the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, bindparam, case, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Field, SQLModel

from workspace_store import checkpoints
from workspace_store.checkpoints import turn_record
from workspace_store.database import now_us, table
from workspace_store.statements import Prepared

QUIET_SECONDS = 300
"""As long as a sandbox stays warm by default."""
REST_SECONDS = 10.0
"""Who says something so soon after the sandbox fell asleep, or a task was verified, goes on with the same session."""
TAKEN_SECONDS = 600
TURNS = 60


class MemorySessionRow(SQLModel, table=True):
    """``upto``: the last turn record that was looked at. ``due_at`` None: nothing was said since."""

    __tablename__ = "memory_session"
    __table_args__ = (
        Index("memory_session_due", "due_at", sqlite_where=text("due_at IS NOT NULL"),
              postgresql_where=text("due_at IS NOT NULL")),
    )  # fmt: skip

    principal: UUID = Field(primary_key=True)
    upto: int = Field(sa_column=Column(BigInteger, nullable=False))
    due_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


session = table(MemorySessionRow)


@dataclass(frozen=True)
class Session:
    """Turns (seq, id, messages) of somebody that nobody has looked back at, oldest first; ``until``: while taken."""

    principal: UUID
    turns: tuple[tuple[int, UUID, list[dict[str, Any]]], ...]
    until: int


_DUE = (
    select(session.c.principal, session.c.due_at)
    .where(session.c.due_at.is_not(None), session.c.due_at <= bindparam("now"))
    .order_by(session.c.due_at)
    .limit(1)
)


def _due_at_in(dialect: Any) -> Prepared:
    insert = dialect.insert(session).values(principal=bindparam("owner"), upto=0, due_at=bindparam("due"))
    kept = case((session.c.due_at <= bindparam("unless_by"), session.c.due_at), else_=bindparam("due"))
    return Prepared(insert.on_conflict_do_update(index_elements=["principal"], set_={"due_at": kept}))


_DUE_AT = {"sqlite": _due_at_in(sqlite), "postgresql": _due_at_in(postgresql)}


def spoken(connection: Connection, owner: UUID, at: int) -> None:
    """Something was said at ``at`` (microseconds): the session ends some minutes later, if it has not ended already."""
    _due_at(connection, owner, at + QUIET_SECONDS * 1_000_000, unless_by=at)


def ended(connection: Connection, owner: UUID, rest_seconds: float = 0.0) -> None:
    """The sandbox sleeps, or a task is verified: what was said since the last time is looked back at.

    After ``rest_seconds``, if nothing more is said until then.
    """
    upto = connection.execute(select(session.c.upto).where(session.c.principal == owner)).scalar() or 0
    since = (turn_record.c.principal == owner, turn_record.c.seq > upto)
    if connection.execute(select(turn_record.c.seq).where(*since).limit(1)).first() is not None:
        now = now_us()
        _due_at(connection, owner, now + int(rest_seconds * 1e6), unless_by=now)


def _due_at(connection: Connection, owner: UUID, due: int, unless_by: int) -> None:
    """It is due at ``due``; one that was due by ``unless_by`` stays as it is."""
    _DUE_AT[connection.dialect.name](connection, {"owner": owner, "due": due, "unless_by": unless_by})


def any_due(connection: Connection) -> bool:
    return connection.execute(_DUE, {"now": now_us()}).first() is not None


def take(connection: Connection) -> Session | None:
    """The next session to look back at, taken for some minutes; None: there is none."""
    now = now_us()
    row = connection.execute(_DUE, {"now": now}).first()
    if row is None:
        return None
    until = now + TAKEN_SECONDS * 1_000_000
    mine = (session.c.principal == row.principal, session.c.due_at == row.due_at)
    if connection.execute(update(session).where(*mine).values(due_at=until)).rowcount != 1:
        return None
    upto = connection.execute(select(session.c.upto).where(session.c.principal == row.principal)).scalar_one()
    query = (
        select(turn_record.c.principal, turn_record.c.seq, turn_record.c.turn, turn_record.c.messages)
        .where(turn_record.c.principal == row.principal, turn_record.c.seq > upto)
        .order_by(turn_record.c.seq)
        .limit(TURNS)
    )
    rows = connection.execute(query).all()
    turns = [(int(r.seq), r.turn, checkpoints.messages_in(connection, r)) for r in rows]
    return Session(row.principal, tuple(turns), until)


def looked_back(connection: Connection, taken: Session) -> bool:
    """Record that it was done, before what comes of it is written; False: another did it meanwhile."""
    upto = max((seq for seq, _, _ in taken.turns), default=None)
    mine = (session.c.principal == taken.principal, session.c.due_at == taken.until)
    more = len(taken.turns) == TURNS
    values: dict[str, Any] = {"due_at": now_us() if more else None, **({} if upto is None else {"upto": upto})}
    return connection.execute(update(session).where(*mine).values(**values)).rowcount == 1


def put_off(connection: Connection, taken: Session, seconds: float) -> None:
    """It could not be done now."""
    mine = (session.c.principal == taken.principal, session.c.due_at == taken.until)
    connection.execute(update(session).where(*mine).values(due_at=now_us() + int(seconds * 1e6)))

"""The inbox: one row for everything that starts a turn or acts at intake, deduplicated for good.

A row's status goes pending → running → done | failed | set_aside, or taken → done where a running turn took it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, case, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store.database import now_us, table
from workspace_store.principal import received

Status = Literal["pending", "running", "taken", "waiting", "done", "failed", "set_aside"]
FINAL = ("done", "failed", "set_aside")


class InboxMessage(SQLModel, table=True):
    """One inbound thing. ``seq`` is the order of arrival at its principal, from 1; ``envelope`` is JSON."""

    __tablename__ = "inbox"
    __table_args__ = (
        Index("inbox_order", "principal", "seq", unique=True),
        Index("inbox_open", "principal", "status", "seq"),
        Index("inbox_turn", "turn"),
        # Whether the agent has heard something in a thread; only Slack asks.
        Index("inbox_in_thread", "channel", "account", "conversation", "thread",
              sqlite_where=text("channel = 'slack'"), postgresql_where=text("channel = 'slack'")),
        Index("inbox_channel", "principal", "channel", "seq"),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    dedupe_key: str = Field(unique=True)
    principal: UUID = Field(foreign_key="principal.id")
    seq: int = Field(sa_column=Column(BigInteger, nullable=False))
    kind: str
    actor: UUID | None = None
    channel: str
    account: str
    conversation: str
    thread: str
    envelope: str = Field(sa_column=Column(Text, nullable=False))
    status: str
    turn: UUID | None = None
    received_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    finished_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    # Poison: crashes in a row of the turn that ran this, and how many of them it ran alone.
    crashes: int = 0
    crashes_alone: int = 0
    alone: bool = False


inbox = table(InboxMessage)


@dataclass(frozen=True)
class Row:
    """An inbox row as the runner reads it."""

    id: UUID
    dedupe_key: str
    principal: UUID
    seq: int
    kind: str
    actor: UUID | None
    channel: str
    account: str
    conversation: str
    thread: str
    envelope: str
    status: str
    turn: UUID | None
    received_at: int
    crashes: int
    crashes_alone: int


_COLUMNS = [inbox.c[name] for name in Row.__dataclass_fields__]


# Built once: building a statement costs five times what executing it does.
_INSERT = inbox.insert()
_FIND = select(*_COLUMNS).where(inbox.c.dedupe_key == bindparam("key"))
_GET = select(*_COLUMNS).where(inbox.c.id == bindparam("of"))
_OLDEST = (
    select(*_COLUMNS)
    .where(inbox.c.principal == bindparam("owner"), inbox.c.status == bindparam("having"))
    .order_by(inbox.c.seq)
    .limit(1)
)
_RUNNING_TURN = (
    select(inbox.c.turn).where(inbox.c.principal == bindparam("owner"), inbox.c.status == "running").limit(1)
)
_START = (
    update(inbox)
    .where(inbox.c.id == bindparam("of"))
    .values(status="running", turn=bindparam("by"), alone=bindparam("by_itself"))
)
_FINISH = (
    update(inbox)
    .where(inbox.c.id == bindparam("of"))
    .values(status=bindparam("to_status"), finished_at=bindparam("at"))
)


def insert(connection: Connection, *, status: Status, **values: object) -> None:
    """Insert a row; its ``dedupe_key`` is unique (IntegrityError for a duplicate)."""
    finished = now_us() if status in FINAL else None
    fresh = {"crashes": 0, "crashes_alone": 0, "alone": False, "turn": None}
    connection.execute(_INSERT, {**fresh, "status": status, "finished_at": finished, **values})


def find(connection: Connection, dedupe_key: str) -> Row | None:
    found = connection.execute(_FIND, {"key": dedupe_key}).one_or_none()
    return Row(**found._mapping) if found else None


def get(connection: Connection, identifier: UUID) -> Row | None:
    found = connection.execute(_GET, {"of": identifier}).one_or_none()
    return Row(**found._mapping) if found else None


def next_open(connection: Connection, owner: UUID) -> Row | None:
    """The oldest row that was cut off in mid-turn, else the oldest that waits."""
    for status in ("running", "pending"):
        found = connection.execute(_OLDEST, {"owner": owner, "having": status}).one_or_none()
        if found:
            return Row(**found._mapping)
    return None


def where_heard(connection: Connection, owner: UUID) -> Row | None:
    """The message being worked on, else the newest one that came, else the newest command."""
    newest = select(*_COLUMNS).where(inbox.c.principal == owner).order_by(inbox.c.seq.desc()).limit(1)
    for query in (newest.where(inbox.c.status == "running"), newest.where(inbox.c.kind == "message"), newest):
        found = connection.execute(query).one_or_none()
        if found:
            return Row(**found._mapping)
    return None


def running_turn(connection: Connection, owner: UUID) -> UUID | None:
    """The turn that runs for a principal now, or was cut off in the middle; None: none does."""
    found: UUID | None = connection.execute(_RUNNING_TURN, {"owner": owner}).scalar()
    return found


def waiting_like(connection: Connection, row: Row) -> list[Row]:
    """Pending messages of the same person in the same strand, oldest first: what the turn of ``row`` may take in."""
    rows = connection.execute(
        select(*_COLUMNS)
        .where(
            inbox.c.principal == row.principal,
            inbox.c.status == "pending",
            inbox.c.kind == "message",
            inbox.c.channel == row.channel,
            inbox.c.account == row.account,
            inbox.c.conversation == row.conversation,
            inbox.c.thread == row.thread,
            inbox.c.actor.is_not_distinct_from(row.actor),
        )
        .order_by(inbox.c.seq)
        .limit(50)
    )
    return [Row(**row._mapping) for row in rows]


def newest_said(connection: Connection, owner: UUID) -> Row | None:
    """The newest row of a principal that somebody wrote."""
    query = select(*_COLUMNS).where(inbox.c.principal == owner, inbox.c.kind.in_(("message", "command")))
    found = connection.execute(query.order_by(inbox.c.seq.desc()).limit(1)).one_or_none()
    return Row(**found._mapping) if found else None


def newest(connection: Connection, owner: UUID, channel: str | None = None, limit: int = 20) -> list[Row]:
    """The newest rows of a principal, at one channel or at any, newest first."""
    query = select(*_COLUMNS).where(inbox.c.principal == owner)
    if channel is not None:
        query = query.where(inbox.c.channel == channel)
    rows = connection.execute(query.order_by(inbox.c.seq.desc()).limit(limit))
    return [Row(**row._mapping) for row in rows]


def unfinished(connection: Connection, owner: UUID) -> bool:
    """Whether a turn was cut off in the middle: its rows belong to that journal, and to nobody else's."""
    begun = inbox.c.status.in_(("running", "taken", "waiting"))
    return connection.execute(select(inbox.c.id).where(inbox.c.principal == owner, begun).limit(1)).first() is not None


def move_pending(connection: Connection, owner: UUID, to: UUID) -> int:
    """Give what waits for one principal to another, at the end of its line; how many rows. Both rows are locked."""
    waiting = select(inbox.c.id).where(inbox.c.principal == owner, inbox.c.status == "pending").order_by(inbox.c.seq)
    found = [row.id for row in connection.execute(waiting)]
    for identifier in found:
        seq, _ = received(connection, to)
        connection.execute(update(inbox).where(inbox.c.id == identifier).values(principal=to, seq=seq, actor=to))
    return len(found)


def taken_by(connection: Connection, turn: UUID) -> list[Row]:
    """What a turn has in hand: its own message and those it took in, in order of arrival."""
    rows = connection.execute(
        select(*_COLUMNS).where(inbox.c.turn == turn, inbox.c.status.in_(("running", "taken"))).order_by(inbox.c.seq)
    )
    return [Row(**row._mapping) for row in rows]


def start(connection: Connection, identifier: UUID, turn: UUID, *, alone: bool) -> None:
    """Mark a row as run by ``turn``; ``alone`` where nothing else runs beside it."""
    connection.execute(_START, {"of": identifier, "by": turn, "by_itself": alone})


def mark_taken(connection: Connection, identifiers: list[UUID], turn: UUID) -> None:
    connection.execute(update(inbox).where(inbox.c.id.in_(identifiers)).values(status="taken", turn=turn))


def finish(connection: Connection, identifiers: list[UUID], status: Status) -> None:
    """Give rows their final status; the caller counts them as drained in the same transaction."""
    at = now_us()
    connection.execute(_FINISH, [{"of": identifier, "to_status": status, "at": at} for identifier in identifiers])


def count_crash(connection: Connection, owner: UUID) -> None:
    """Count a crash against what was running when the owner of the lease died."""
    connection.execute(
        update(inbox)
        .where(inbox.c.principal == owner, inbox.c.status == "running")
        .values(
            crashes=inbox.c.crashes + 1,
            crashes_alone=case((inbox.c.alone, inbox.c.crashes_alone + 1), else_=inbox.c.crashes_alone),
            # Only the next start says so again: what waits to run alone has no part in another one's crash.
            alone=False,
        )
    )


def count_failure(connection: Connection, identifier: UUID) -> None:
    """Count a turn that raised: that was certainly its own doing, as a crash alone is."""
    connection.execute(update(inbox).where(inbox.c.id == identifier).values(crashes_alone=inbox.c.crashes_alone + 1))


def give_back(connection: Connection, turn: UUID) -> None:
    """What a turn had taken in waits again."""
    connection.execute(
        update(inbox).where(inbox.c.turn == turn, inbox.c.status == "taken").values(status="pending", turn=None)
    )

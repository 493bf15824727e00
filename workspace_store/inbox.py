"""The inbox: one row for everything that starts a turn or acts at intake, deduplicated for good.

A row's status goes pending → running → done | failed | set_aside, or taken → done where a running turn took it in;
``withdrawn`` where its sender deleted it before any turn began; → waiting → done where its turn ended with a question
to its person, and that was answered. A row may settle for a moment: what the same person
says in the same strand until then belongs to its burst, and one turn serves them together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Text,
    bindparam,
    case,
    literal_column,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from workspace_store import inbox_counts
from workspace_store.database import database_now_us, now_us, table
from workspace_store.inbox_counts import received
from workspace_store.principal import principal
from workspace_store.statements import Prepared, Together, words, write

Status = Literal["pending", "running", "taken", "waiting", "done", "failed", "set_aside", "withdrawn"]
WAITING_LOOKED_AT = 200
FINAL = ("done", "failed", "set_aside", "withdrawn")


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
        Index(
            "inbox_burst", "burst", sqlite_where=text("burst IS NOT NULL"), postgresql_where=text("burst IS NOT NULL")
        ),
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
    # Until when more of the same message is waited for (0: nothing is), and the first row of the burst this belongs to.
    settles_at: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    burst: UUID | None = None
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
    settles_at: int = 0
    burst: UUID | None = None

    @property
    def strand(self) -> tuple[str, str, str, str]:
        """Where it was said, down to the thread."""
        return self.channel, self.account, self.conversation, self.thread


@dataclass(frozen=True)
class Started:
    """A row whose turn begins. ``changed``: that earlier messages were is to be told to it. ``in_burst``: more of the
    same waits beside it."""

    row: Row
    changed: bool
    in_burst: bool


COLUMNS = [inbox.c[name] for name in Row.__dataclass_fields__]


# Built once: building a statement costs five times what executing it does.
_INSERT = Prepared(inbox.insert())
_FIND = Prepared(select(*COLUMNS).where(inbox.c.dedupe_key == bindparam("key")))
_GET = Prepared(select(*COLUMNS).where(inbox.c.id == bindparam("of")))
_OLDEST = select(inbox.c.id).where(inbox.c.principal == bindparam("owner")).order_by(inbox.c.seq).limit(1)
_OPEN = Prepared(
    select(
        *COLUMNS,
        select(principal.c.stop_seq).where(principal.c.id == bindparam("owner")).scalar_subquery().label("stop_seq"),
    ).where(
        inbox.c.id.in_([_OLDEST.where(inbox.c.status == status).scalar_subquery() for status in ("running", "pending")])
    )
)
"""The oldest that was cut off, and the oldest that waits: each by its index, in one statement."""
_WAITING = Prepared(
    select(*COLUMNS)
    .where(inbox.c.principal == bindparam("owner"), inbox.c.status == "pending")
    .order_by(inbox.c.seq)
    .limit(WAITING_LOOKED_AT)
)
_RUNNING_TURN = Prepared(
    select(inbox.c.turn).where(inbox.c.principal == bindparam("owner"), inbox.c.status == "running").limit(1)
)
# In words: SQLAlchemy writes a column without its table where SQLite returns something, also below a SELECT.
_CHANGED = "EXISTS (SELECT 1 FROM message_change WHERE message_change.principal = inbox.principal AND untold)"
_IN_BURST = (
    "EXISTS (SELECT 1 FROM inbox AS beside WHERE beside.burst IS NOT NULL"
    " AND beside.burst = coalesce(inbox.burst, inbox.id) AND beside.status = 'pending' AND beside.id != inbox.id)"
)
_START = Prepared(
    update(inbox)
    .where(inbox.c.id == bindparam("of"), inbox.c.status.in_(words("pending", "running", "waiting")))
    .values(status="running", turn=bindparam("by"), alone=bindparam("by_itself"))
    .returning(
        *COLUMNS,
        literal_column(_CHANGED, Boolean).label("changed"),
        literal_column(_IN_BURST, Boolean).label("in_burst"),
    )
)
_TAKEN = Prepared(
    select(*COLUMNS)
    .where(inbox.c.turn == bindparam("by"), inbox.c.status.in_(words("running", "taken")))
    .order_by(inbox.c.seq)
)
_FINISH = Prepared(
    update(inbox)
    .where(inbox.c.id == bindparam("of"))
    .values(status=bindparam("to_status"), finished_at=bindparam("at"))
)


def insert(connection: Connection, *, status: Status, **values: object) -> None:
    """Insert a row; its ``dedupe_key`` is unique (IntegrityError for a duplicate)."""
    finished = now_us() if status in FINAL else None
    fresh = {
        "actor": None,
        "crashes": 0,
        "crashes_alone": 0,
        "alone": False,
        "turn": None,
        "settles_at": 0,
        "burst": None,
    }
    _INSERT(connection, {**fresh, "status": status, "finished_at": finished, **values})


def find(connection: Connection, dedupe_key: str) -> Row | None:
    found = _FIND(connection, {"key": dedupe_key}).one_or_none()
    return Row(*found) if found else None


def get(connection: Connection, identifier: UUID) -> Row | None:
    found = _GET(connection, {"of": identifier}).one_or_none()
    return Row(*found) if found else None


@dataclass(frozen=True)
class Upcoming:
    """The row that is next, and whether /stop was said after it."""

    row: Row
    stopped: bool


def upcoming(connection: Connection, owner: UUID) -> Upcoming | None:
    """The oldest row that was cut off in mid-turn, else the oldest that waits and has settled."""
    found = [(Row(*columns), int(stopped)) for *columns, stopped in _OPEN(connection, {"owner": owner})]
    if not found:
        return None
    row, stopped = next((one for one in found if one[0].status == "running"), found[0])
    if row.settles_at and row.settles_at > database_now_us(connection):
        settled = _first_settled(connection, row, stopped)
        return Upcoming(settled, stopped >= settled.seq) if settled else None
    return Upcoming(row, stopped >= row.seq)


def _first_settled(connection: Connection, first: Row, stopped: int) -> Row | None:
    """The oldest waiting row that nothing before it in its own strand keeps waiting; what was stopped has settled."""
    now = database_now_us(connection)
    held = set()
    for row in _waiting(connection, first.principal):
        if row.settles_at > now and row.seq > stopped:
            held.add(row.strand)
        elif row.strand not in held:
            return row
    return None


def settled_at(connection: Connection, owner: UUID) -> int | None:
    """When something can be served where nothing can be now (``upcoming``); None: nothing settles."""
    # In a strand the first keeps all behind it waiting, whether they have settled or not.
    firsts: dict[tuple[str, str, str, str], int] = {}
    for row in _waiting(connection, owner):
        firsts.setdefault(row.strand, row.settles_at)
    return min((at for at in firsts.values() if at), default=None)


def _waiting(connection: Connection, owner: UUID) -> list[Row]:
    return [Row(*row) for row in _WAITING(connection, {"owner": owner})]


def rewrite(connection: Connection, identifier: UUID, envelope: str) -> None:
    """Replace what a row says; only before its turn begins."""
    connection.execute(update(inbox).where(inbox.c.id == identifier).values(envelope=envelope))


def where_heard(connection: Connection, owner: UUID) -> Row | None:
    """The message being worked on, else the newest one that came, else the newest command; none that was disowned."""
    newest = select(*COLUMNS).where(inbox.c.principal == owner).order_by(inbox.c.seq.desc()).limit(1)
    said = newest.where(inbox.c.actor.is_not(None))
    for query in (newest.where(inbox.c.status == "running"), said.where(inbox.c.kind == "message"), said):
        found = connection.execute(query).one_or_none()
        if found:
            return Row(*found)
    return None


def running_turn(connection: Connection, owner: UUID) -> UUID | None:
    """The turn that runs for a principal now, or was cut off in the middle; None: none does."""
    found: UUID | None = _RUNNING_TURN(connection, {"owner": owner}).scalar()
    return found


def waiting_like(connection: Connection, row: Row) -> list[Row]:
    """Pending messages of the same person in the same strand, oldest first: what the turn of ``row`` may take in."""
    rows = connection.execute(
        select(*COLUMNS)
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
    found = [Row(*row) for row in rows]
    now = database_now_us(connection) if any(one.settles_at for one in found) else 0
    held = {one.id for one in found if one.settles_at > now}
    return [one for one in found if one.id not in held and one.burst not in held]


def newest_said(connection: Connection, owner: UUID) -> Row | None:
    """The newest row of a principal that somebody wrote who is theirs still."""
    wrote = (inbox.c.kind.in_(("message", "command")), inbox.c.actor.is_not(None))
    query = select(*COLUMNS).where(inbox.c.principal == owner, *wrote)
    found = connection.execute(query.order_by(inbox.c.seq.desc()).limit(1)).one_or_none()
    return Row(*found) if found else None


def newest(connection: Connection, owner: UUID, channel: str | None = None, limit: int = 20) -> list[Row]:
    """The newest rows of a principal, at one channel or at any, newest first."""
    query = select(*COLUMNS).where(inbox.c.principal == owner)
    if channel is not None:
        query = query.where(inbox.c.channel == channel)
    rows = connection.execute(query.order_by(inbox.c.seq.desc()).limit(limit))
    return [Row(*row) for row in rows]


def unfinished(connection: Connection, owner: UUID) -> bool:
    """Whether a turn was cut off in the middle, or files of a message wait with it: both are this principal's own."""
    begun = inbox.c.status.in_(words("running", "taken"))
    if connection.execute(select(inbox.c.id).where(inbox.c.principal == owner, begun).limit(1)).first() is not None:
        return True
    pending = select(inbox.c.envelope).where(inbox.c.principal == owner, inbox.c.status == "pending")
    return any('"attachments":[]' not in row.envelope for row in connection.execute(pending))


def move_pending(connection: Connection, owner: UUID, to: UUID, only: Collection[UUID] | None = None) -> int:
    """Give what waits for one principal to another (``only``: of these rows), at the end of its line; how many rows.

    Counted at both. Both principals are locked.
    """
    waiting = select(inbox.c.id).where(inbox.c.principal == owner, inbox.c.status == "pending").order_by(inbox.c.seq)
    found = [row.id for row in connection.execute(waiting) if only is None or row.id in only]
    for identifier in found:
        seq, _ = received(connection, to)
        connection.execute(update(inbox).where(inbox.c.id == identifier).values(principal=to, seq=seq, actor=to))
    inbox_counts.drained(connection, owner, len(found))
    return len(found)


def said_by(connection: Connection, owner: UUID, senders: Collection[tuple[str, str, str]]) -> list[UUID]:
    """The rows of a principal that came from these (channel, account, external id). Reads all of their channels."""
    at = {channel for channel, _, _ in senders}
    rows = connection.execute(
        select(inbox.c.id, inbox.c.envelope).where(inbox.c.principal == owner, inbox.c.channel.in_(at))
    )
    return [row.id for row in rows if _sender(json.loads(row.envelope).get("sender") or {}) in senders]


def _sender(claim: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return claim.get("channel"), claim.get("account"), claim.get("external_id")


def places(connection: Connection, rows: Sequence[UUID]) -> set[tuple[str, str, str]]:
    """Where these were said: (channel, account, conversation)."""
    found: set[tuple[str, str, str]] = set()
    for start in range(0, len(rows), 500):
        some = inbox.c.id.in_(rows[start : start + 500])
        query = select(inbox.c.channel, inbox.c.account, inbox.c.conversation).where(some).distinct()
        found |= {(row.channel, row.account, row.conversation) for row in connection.execute(query)}
    return found


def pending_at(connection: Connection, owner: UUID, at: Collection[tuple[str, str, str]]) -> set[UUID]:
    """What waits for a principal and is answered at one of these places."""
    waiting = select(inbox.c.id, inbox.c.channel, inbox.c.account, inbox.c.conversation)
    rows = connection.execute(waiting.where(inbox.c.principal == owner, inbox.c.status == "pending"))
    return {row.id for row in rows if (row.channel, row.account, row.conversation) in at}


def disown(connection: Connection, rows: Sequence[UUID]) -> None:
    """Whoever said these is not their principal's person any more: where they were said is no place to reach them."""
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        connection.execute(update(inbox).where(inbox.c.id.in_(some)).values(actor=None))


def words_of(row: Row) -> str:
    """What a person wrote in a message, without what they quoted."""
    return str(json.loads(row.envelope).get("text") or "")


def reply_later(row: Row) -> dict[str, Any]:
    """What its channel wants back with anything that is said in the same place later on."""
    return later(json.loads(row.envelope).get("reply") or {})


def later(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of what a channel wants back with an answer, that which holds for whatever is said there later on."""
    return {name: value for name, value in given.items() if name not in _ANSWERS_ONLY}


_ANSWERS_ONLY = frozenset({"private", "response_url", "pressed", "query", "cc"})
"""What a channel wants back with the answer itself, and with nothing else: other readers of a mail heard only that one
asked."""


def taken_by(connection: Connection, turn: UUID) -> list[Row]:
    """What a turn has in hand: its own message and those it took in, in order of arrival."""
    return [Row(*row) for row in _TAKEN(connection, {"by": turn})]


def start(connection: Connection, identifier: UUID, turn: UUID, *, alone: bool) -> Row | None:
    """Mark a row as run by ``turn``; ``alone`` where nothing else runs beside it. None: it was withdrawn meanwhile.

    The row as it is now: until here its sender could change it.
    """
    started = begin(connection, identifier, turn, alone=alone)
    return started.row if started else None


def begin(connection: Connection, identifier: UUID, turn: UUID, *, alone: bool) -> Started | None:
    """Mark a row as run by ``turn``, under the lock of its principal; as ``start``."""
    found = _START(connection, {"of": identifier, "by": turn, "by_itself": alone}).one_or_none()
    return Started(Row(*found[:-2]), bool(found.changed), bool(found.in_burst)) if found else None


def mark_taken(connection: Connection, identifiers: list[UUID], turn: UUID) -> None:
    connection.execute(update(inbox).where(inbox.c.id.in_(identifiers)).values(status="taken", turn=turn))


def finish(connection: Connection, identifiers: list[UUID], status: Status, beside: Together | None = None) -> None:
    """Give rows their final status; the caller counts them as drained in the same transaction."""
    at = now_us()
    for identifier in identifiers:
        write(connection, _FINISH, {"of": identifier, "to_status": status, "at": at}, beside)


def settle_waiting(connection: Connection, turn: UUID) -> None:
    """What a turn left waiting for an answer is done; it was counted as drained when it began to wait."""
    mine = (inbox.c.turn == turn, inbox.c.status == "waiting")
    connection.execute(update(inbox).where(*mine).values(status="done", finished_at=now_us()))


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

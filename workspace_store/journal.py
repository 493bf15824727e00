"""The journal: append-only, hash-chained events of a principal.

Chain rows are never changed or deleted (a trigger refuses); payloads and their salts live in a table of their own, so
that forgetting deletes what was said and the chain still verifies. Only ``append`` writes here, under the lock of the
principal row, and nobody caches a head.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    LargeBinary,
    Text,
    and_,
    bindparam,
    func,
    select,
    type_coerce,
)
from sqlalchemy.types import NullType
from sqlmodel import Field, SQLModel

from workspace_store import links
from workspace_store import principal as principals
from workspace_store import tenancy as tenancies
from workspace_store.database import now_us, table, to_json
from workspace_store.links import Link
from workspace_store.principal import GENESIS, Head, Lease, principal
from workspace_store.statements import Prepared
from workspace_store.tenancy import Tenancy

SALT_BYTES = 16

KINDS: Mapping[str, str] = {
    "message.received": "a message was accepted",
    "message.taken": "a message was handed to a turn that was already running",
    "message.edited": "its sender edited a message; `in_time`: before its turn began",
    "message.deleted": "its sender deleted a message; `in_time`: before its turn began, so that none does",
    "message.sent": "the agent wrote to another channel of its person, or to somebody else",
    "message.reacted": "somebody reacted to a message or a reply, or took that back",
    "message.set_aside": "a message was given up after it had ended its runner three times alone",
    "message.dropped": "a message in a room was not answered: its sender was blocked while it waited",
    "files.received": "the files of a message were put into the workspace, or it was found that they cannot be had",
    "turn.started": "a turn began, or began again after a crash",
    "turn.failed": "a turn ended without a result that could be used",
    "turn.stopped": "a turn was ended by /stop",
    "turn.rolled_back": "recorded results no longer describe what is there; what was lost is listed",
    "model.responded": "the engine said what to do next",
    "model.unreachable": "the engine could not be asked; the turn waits for it",
    "tool.requested": "a tool is about to run",
    "tool.returned": "a tool's result",
    "effect.intended": "a request that may change something outside is about to go out",
    "effect.settled": "how such a request ended, or that nobody knows",
    "effect.recorded": "requests that only asked, or were refused, in a batch",
    "approval.requested": "a person was asked for an approval",
    "approval.decided": "an approval was given, denied, or expired",
    "approval.consumed": "what was approved was begun; the approval is used up",
    "memory.written": "a note was written to memory",
    "memory.forgotten": "notes, turns or imported words were forgotten; their payloads are gone with them",
    "history.imported": "words that were said elsewhere were brought along",
    "subtask.responded": "the engine said what to do next in a subtask of a turn",
    "subtask.reported": "what a subtask found: each finding with its source, confidence and time",
    "restore.checked": "what is recorded and what is there do not fit: `check` says how, `repaired` if work went on",
    "sandbox.woken": "a sandbox was built and process state restored into it",
    "sandbox.slept": "a sandbox was captured and dismantled",
    "workspace.restoring": "which generation the volume is about to be set back to, and as which new one",
    "workspace.restored": "the volume was set back to an earlier generation, as a new one",
    "workspace.pruned": "old generations of the workspace were dropped",
    "checkpoint.committed": "a turn's result was committed",
    "context.compressed": "turns were folded into records",
    "context.kept": "a folding did not pass its check, and the context stayed as it was",
    "task.opened": "a task was opened",
    "task.planned": "the steps of a task's plan were written",
    "task.claimed": "the agent said that a task is done",
    "task.checking": "a check of a claimed task is about to run",
    "task.checked": "what the check of a claimed task found",
    "task.verified": "the runtime found that a claimed task is done",
    "task.failed": "a claimed task did not pass its check three times, and its person was told",
    "task.closed": "a task was given up, or taken as done by a person",
    "commitment.made": "something was promised",
    "commitment.ended": "a promise was kept or given up",
    "reply.queued": "a reply was put into the outbox",
    "reply.delivered": "a reply was delivered",
    "reply.failed": "a reply was given up",
    "identity.created": "a person was seen for the first time at a channel",
    "identity.linked": "two identities became one person",
    "identity.unlinked": "what had become one person is two again",
    "access.requested": "a stranger asked to be let in",
    "agent.arrived": "a person's agent came here from another installation, with all that is before this event",
    "agent.forked": "this is a copy of somebody's agent that was not granted to come, a person of its own from here on",
    "task.ended": "a background task ended",
    "hook.received": "a delivery to a hook was accepted; its message is of the settings, its words are data",
    "schedule.added": "something was scheduled",
    "schedule.asked": "a model changed what is scheduled, as its person said or approved",
    "schedule.changed": "a schedule was paused, resumed or removed",
    "schedule.fired": "words that were scheduled were said: a message of their person's",
    "schedule.skipped": "words that were due were not said; `reason` says why",
}


class JournalEvent(SQLModel, table=True):
    """One link of the chain. ``epoch`` is the turn's lease epoch or the manager's sandbox epoch; None for intake."""

    __tablename__ = "journal_event"
    __table_args__ = (Index("journal_event_turn", "principal", "turn", "seq"),)

    principal: UUID = Field(primary_key=True)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    turn: UUID | None = None
    epoch: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    kind: str
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    payload_hash: str
    prev_hash: str
    hash: str


class JournalPayload(SQLModel, table=True):
    """What an event says; deleted by forgetting."""

    __tablename__ = "journal_payload"

    principal: UUID = Field(primary_key=True)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    salt: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    body: str = Field(sa_column=Column(Text, nullable=False))


event = table(JournalEvent)
payload = table(JournalPayload)

# Executed by the first migration on both databases. INSERT OR REPLACE fires no trigger for the row it deletes.
SQLITE_TRIGGERS = (
    *(
        f"""CREATE TRIGGER journal_event_no_{verb.lower()} BEFORE {verb} ON journal_event
        BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"""
        for verb in ("UPDATE", "DELETE")
    ),
    """CREATE TRIGGER journal_event_no_replace BEFORE INSERT ON journal_event
        WHEN EXISTS (SELECT 1 FROM journal_event WHERE principal = NEW.principal AND seq = NEW.seq)
        BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
)
POSTGRESQL_TRIGGERS = (
    """CREATE FUNCTION journal_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$""",
    """CREATE TRIGGER journal_event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journal_event
        FOR EACH STATEMENT EXECUTE FUNCTION journal_refuse()""",
)


@dataclass(frozen=True)
class Event:
    """An event to append: its kind (one of ``KINDS``) and its payload (JSON-serialisable)."""

    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Recorded:
    """An event as read back. ``body`` is None where it was forgotten."""

    seq: int
    turn: UUID | None
    epoch: int | None
    kind: str
    at: int
    body: dict[str, Any] | None
    hash: str


@dataclass(frozen=True)
class Fault:
    """Where a chain does not verify, and how."""

    principal: UUID
    seq: int
    what: str


_READ = (
    select(event, payload.c.body)
    .outerjoin(payload, and_(payload.c.principal == event.c.principal, payload.c.seq == event.c.seq))
    .where(event.c.principal == bindparam("of"), event.c.seq > bindparam("after"))
)
_READ_OF = {False: _READ, True: _READ.where(event.c.turn == bindparam("turn_id"))}
_READ_ON = {of: Prepared(read.order_by(event.c.seq).limit(bindparam("most"))) for of, read in _READ_OF.items()}
_READ_BACK = {of: Prepared(read.order_by(event.c.seq.desc()).limit(bindparam("most"))) for of, read in _READ_OF.items()}
"""By whether one turn is asked about."""
ALL = (1 << 63) - 1


def append(
    connection: Connection,
    owner: UUID,
    events: Sequence[Event],
    *,
    under: Lease | Tenancy | None,
    turn: UUID | None = None,
    at: int | None = None,
    locked: Head | None = None,
) -> int:
    """Lock the principal row, check the right to write, append ``events`` in order; the new head's seq.

    ``under`` is the lease of a turn, the tenancy of a sandbox manager, or None for intake and delivery. ``locked``: the
    head, where a statement of this transaction has locked the row and checked that right already.
    Raises StaleLease or StaleTenancy; ValueError for an unknown kind.
    """
    epoch, head = _fence(connection, owner, under) if locked is None else (under.epoch if under else None, locked)
    made = _links(owner, head, events, epoch=epoch, turn=turn, at=now_us() if at is None else at)
    if not made:
        return head[0]
    last = made[-1].event
    links.write(connection, (event, payload), made, {owner: (last["seq"], last["hash"])})
    return int(last["seq"])


def append_each(connection: Connection, events: Sequence[tuple[UUID, Event]]) -> None:
    """Append an event to each of many journals, outside any turn. Raises Away: nothing may be kept of it then."""
    heads = principals.lock_all(connection, {owner for owner, _ in events})
    made = []
    for owner, item in events:
        (link,) = _links(owner, heads[owner], [item], epoch=None, turn=None, at=now_us())
        heads[owner] = link.event["seq"], link.event["hash"]
        made.append(link)
    if made:
        links.write(connection, (event, payload), made, heads)


def _links(
    owner: UUID, head: Head, events: Sequence[Event], *, epoch: int | None, turn: UUID | None, at: int
) -> list[Link]:
    """What follows a head."""
    seq, previous = head
    made = []
    for item in events:
        if item.kind not in KINDS:
            raise ValueError(f"{item.kind} is not a kind of journal event")
        seq += 1
        salt = secrets.token_bytes(SALT_BYTES)
        body = to_json(item.body)
        body_hash = hash_payload(salt, body)
        link = hash_event(previous, seq, turn, epoch, item.kind, at, body_hash)
        row = {
            "principal": owner, "seq": seq, "turn": turn, "epoch": epoch, "kind": item.kind, "at": at,
            "payload_hash": body_hash, "prev_hash": previous, "hash": link,
        }  # fmt: skip
        made.append(Link(row, salt, body))
        previous = link
    return made


def _fence(connection: Connection, owner: UUID, under: Lease | Tenancy | None) -> tuple[int | None, Head]:
    if under is None:
        return None, principals.lock(connection, owner)
    if under.principal != owner:
        raise ValueError(f"a right over {under.principal} is none over {owner}")
    if isinstance(under, Lease):
        return under.epoch, principals.fence(connection, under)
    return under.epoch, tenancies.fence(connection, under)


def hash_payload(salt: bytes, body: str) -> str:
    """H(salt ‖ payload), hex SHA-256."""
    return hashlib.sha256(salt + body.encode()).hexdigest()


def hash_event(
    previous: str, seq: int, turn: UUID | None, epoch: int | None, kind: str, at: int, payload_hash: str
) -> str:
    """H(prev, seq, turn, epoch, kind, time, payload_hash), hex SHA-256 of their canonical JSON array."""
    return _hash_link(previous, seq, turn.hex if turn else None, epoch, kind, at, payload_hash)


def _hash_link(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def read(
    connection: Connection,
    owner: UUID,
    *,
    after: int = 0,
    turn: UUID | None = None,
    limit: int | None = None,
    newest: bool = False,
) -> list[Recorded]:
    """Events after ``after`` in order (of one turn where given); with ``newest`` the last ``limit`` of them."""
    given: dict[str, object] = {"of": owner, "after": after, "most": ALL if limit is None else limit}
    if turn is not None:
        given["turn_id"] = turn
    query = (_READ_BACK if newest else _READ_ON)[turn is not None]
    found = [
        Recorded(r.seq, r.turn, r.epoch, r.kind, r.at, None if r.body is None else json.loads(r.body), r.hash)
        for r in query(connection, given)
    ]
    return found[::-1] if newest else found


def first_of(connection: Connection, owner: UUID, turn: UUID) -> int | None:
    """Sequence number of a turn's first event; None: it has none."""
    mine = (event.c.principal == owner, event.c.turn == turn)
    return connection.execute(select(func.min(event.c.seq)).where(*mine)).scalar()


def head(connection: Connection, owner: UUID) -> tuple[int, str]:
    """Sequence number and hash of the last event."""
    row = connection.execute(select(principal.c.head_seq, principal.c.head_hash).where(principal.c.id == owner)).one()
    return int(row.head_seq), str(row.head_hash)


def verify(connection: Connection, owner: UUID, *, after: int = 0) -> tuple[int, list[Fault]]:
    """Check every link beyond event ``after`` and every payload that is still there; (the last event, faults found)."""
    faults: list[Fault] = []
    previous, expected = GENESIS, after
    if after:
        found = connection.execute(
            select(event.c.hash).where(event.c.principal == owner, event.c.seq == after)
        ).scalar()
        if found is None:
            return after, [Fault(owner, after, f"event {after} is missing")]
        previous = str(found)
    for row in _chain(connection, owner, after):
        expected += 1
        if row.seq != expected:
            faults.append(Fault(owner, expected, f"event {expected} is missing"))
            expected = row.seq if isinstance(row.seq, int) else expected
        faults += [Fault(owner, expected, what) for what in _wrong(row, previous)]
        previous = row.hash
    at_head, head_hash = head(connection, owner)
    if (at_head, head_hash) != (expected, previous):
        faults.append(Fault(owner, expected, f"the head names event {at_head}, the chain ends at {expected}"))
    return expected, faults


def _wrong(row: Any, previous: str) -> Iterator[str]:
    if row.prev_hash != previous:
        yield "does not follow the event before it"
    turn = row.turn.hex if isinstance(row.turn, UUID) else row.turn
    if _hash_link(row.prev_hash, row.seq, turn, row.epoch, row.kind, row.at, row.payload_hash) != row.hash:
        yield "was changed: its hash does not match"
    if row.body is not None and not _is_payload(row.salt, row.body, row.payload_hash):
        yield "its payload was changed"


def _is_payload(salt: object, body: object, payload_hash: str) -> bool:
    return isinstance(salt, bytes) and isinstance(body, str) and hash_payload(salt, body) == payload_hash


def _chain(connection: Connection, owner: UUID, after: int) -> Iterator[Any]:
    # As stored: a column that was tampered with need not hold what its type says.
    columns = [event.c[name] for name in ("seq", "epoch", "kind", "at", "payload_hash", "prev_hash", "hash")]
    sqlite = connection.dialect.name == "sqlite"
    raw = [type_coerce(column, NullType()).label(column.name) if sqlite else column
           for column in (event.c.turn, payload.c.salt, payload.c.body)]  # fmt: skip
    query = (
        select(*columns, *raw)
        .outerjoin(payload, and_(payload.c.principal == event.c.principal, payload.c.seq == event.c.seq))
        .where(event.c.principal == owner, event.c.seq > after)
        .order_by(event.c.seq)
    )
    yield from connection.execute(query, execution_options={"yield_per": 1000})

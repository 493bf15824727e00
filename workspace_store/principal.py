"""The principal row: lease, tenancy, counts and journal head of whoever owns a workspace.

Every fenced transaction begins with ``fence`` (an UPDATE that needs one row, never a SELECT), so that nothing is
written by a runner whose lease has gone to another. Used by the router and the sandbox manager alike.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    bindparam,
    case,
    func,
    or_,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from workspace_store.database import database_now_us, now_us, table
from workspace_store.formats import FORMAT
from workspace_store.statements import Prepared, Together

LEASE_SECONDS = 10
GENESIS = "0" * 64
HOUSE = UUID(int=0)

Head = tuple[int, str]
"""Sequence number and hash of a journal's last event."""


class Principal(SQLModel, table=True):
    """A user or a room: what owns a workspace, a journal, memory. Times are microseconds (``now_us``)."""

    __tablename__ = "principal"
    __table_args__ = (
        Index(
            "principal_with_mail",
            "rung_at",
            sqlite_where=text("drained_seq < inbox_seq"),
            postgresql_where=text("drained_seq < inbox_seq"),
        ),
        Index(
            "principal_owned",
            "owner",
            sqlite_where=text("owner IS NOT NULL"),
            postgresql_where=text("owner IS NOT NULL"),
        ),
        Index(
            "principal_awake",
            "sandbox_host",
            sqlite_where=text("sandbox_host IS NOT NULL"),
            postgresql_where=text("sandbox_host IS NOT NULL"),
        ),
        Index("principal_closed", "sandbox_host", sqlite_where=text("closed"), postgresql_where=text("closed")),
        Index(
            "principal_absorbed",
            "merged_into",
            sqlite_where=text("merged_into IS NOT NULL"),
            postgresql_where=text("merged_into IS NOT NULL"),
        ),
    )

    id: UUID = Field(primary_key=True)
    kind: str
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    # The lease: the right to run turns.
    owner: str | None = None
    epoch: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    lease_until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    # Counts of inbox rows: all, and those with a final status.
    inbox_seq: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    drained_seq: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    stop_seq: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    rung_at: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    # The journal's head.
    head_seq: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    head_hash: str = GENESIS
    # The tenancy: the right to write the volume.
    sandbox_host: str | None = None
    sandbox_epoch: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    sandbox_until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    # The volume that belongs to this principal, and its last committed generation (0: none yet).
    volume_id: str | None = None
    generation: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    host_uid: int | None = Field(default=None, unique=True)
    # What tells an authentic process state (``sandbox_runner.kept_state``).
    state_key: str | None = None
    state_high: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    state_pin: str | None = None
    # Whose this is since a merge: never a principal that is absorbed itself, so that one look-up ends the search.
    merged_into: UUID | None = None
    # Blocked or being forgotten: nothing is run, woken or said for it.
    closed: bool = False
    # Moved to another installation: no lease, tenancy, message or event is given for it here any more.
    away: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    # What it takes to read the records of this principal (``formats``).
    format: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    # Until when its sandbox is to sleep as soon as no turn is in it: another host wants it, or somebody packs it.
    rest_until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))


principal = table(Principal)


class Away(Exception):
    """The principal has moved to another installation, or is none of this one's; nothing was written."""


class StaleLease(Exception):
    """The lease has gone to another; nothing of this transaction was written."""


@dataclass(frozen=True)
class Lease:
    """The right to run turns of ``principal``, while ``epoch`` is the row's."""

    principal: UUID
    owner: str
    epoch: int


@dataclass(frozen=True)
class Owner:
    """Who held the lease when it was looked at."""

    owner: str | None
    epoch: int
    expired: bool
    format: int = 0
    """What it takes to read the principal's records."""

    @property
    def is_readable(self) -> bool:
        """Whether this release reads them; else they are a newer one's."""
        return self.format <= FORMAT


def create(connection: Connection, identifier: UUID, kind: str) -> None:
    """Insert the row of a new user's or room's principal."""
    connection.execute(
        principal.insert().values(
            id=identifier, kind=kind, created_at=now_us(), epoch=0, lease_until=0,
            inbox_seq=0, drained_seq=0, stop_seq=0, rung_at=0, head_seq=0, head_hash=GENESIS, sandbox_epoch=0,
            sandbox_until=0, generation=0, closed=False, away=False, rest_until=0, format=FORMAT,
        )
    )  # fmt: skip


# Statements of the hot path are built once: building one costs five times what executing it does.
_KIND = Prepared(select(principal.c.kind).where(principal.c.id == bindparam("of")))
_LOOK = Prepared(
    select(principal.c.owner, principal.c.epoch, principal.c.lease_until, principal.c.format).where(
        principal.c.id == bindparam("of")
    )
)
_TAKE = Prepared(
    update(principal)
    .where(
        principal.c.id == bindparam("of"),
        principal.c.epoch == bindparam("seen_epoch"),
        principal.c.owner.is_not_distinct_from(bindparam("seen_owner")),
        principal.c.format <= bindparam("reads"),
        ~principal.c.away,
    )
    .values(
        owner=bindparam("by"),
        epoch=bindparam("seen_epoch") + 1,
        lease_until=bindparam("until"),
        format=bindparam("reads"),
    )
)
_HELD = (
    principal.c.id == bindparam("of"),
    principal.c.epoch == bindparam("held_epoch"),
    principal.c.owner == bindparam("held_by"),
)
_FENCE = Prepared(
    update(principal)
    .where(*_HELD)
    .values(epoch=bindparam("held_epoch"))
    .returning(principal.c.head_seq, principal.c.head_hash)
)
_LOCK = Prepared(
    update(principal)
    .where(principal.c.id == bindparam("of"), ~principal.c.away)
    .values(epoch=principal.c.epoch)
    .returning(principal.c.head_seq, principal.c.head_hash)
)


def in_order(*which: ColumnElement[bool]) -> ColumnElement[bool]:
    """For a WHERE that changes several rows: those of which this is true, locked in the order of their ids.

    Whoever locks several in one order never waits for somebody who waits for them: PostgreSQL would notice after a
    second, in which everybody else waits as well. https://www.postgresql.org/docs/current/explicit-locking.html
    """
    # As an UPDATE locks them: rows elsewhere that name these are no hindrance.
    several = select(principal.c.id).where(*which).order_by(principal.c.id).with_for_update(key_share=True)
    return principal.c.id.in_(several.scalar_subquery())


_LOCK_ALL = (
    update(principal)
    .where(in_order(principal.c.id.in_(bindparam("owners", expanding=True)), ~principal.c.away))
    .values(epoch=principal.c.epoch)
    .returning(principal.c.id, principal.c.head_seq, principal.c.head_hash)
)
_TAKE_FREE = Prepared(
    update(principal)
    .where(
        principal.c.id == bindparam("of"),
        or_(principal.c.owner.is_(None), principal.c.owner == bindparam("by")),
        principal.c.format <= bindparam("reads"),
        ~principal.c.away,
    )
    .values(
        owner=bindparam("by"),
        epoch=principal.c.epoch + 1,
        lease_until=bindparam("until"),
        format=bindparam("reads"),
    )
    .returning(principal.c.epoch, principal.c.head_seq, principal.c.head_hash)
)
_RELEASE = Prepared(
    update(principal).where(*_HELD, principal.c.drained_seq == principal.c.inbox_seq).values(owner=None, lease_until=0)
)
_ALL_DRAINED = principal.c.drained_seq + bindparam("count") == principal.c.inbox_seq
_DRAIN_AND_RELEASE = Prepared(
    update(principal)
    .where(*_HELD)
    .values(
        drained_seq=principal.c.drained_seq + bindparam("count"),
        owner=case((_ALL_DRAINED, None), else_=principal.c.owner),
        lease_until=case((_ALL_DRAINED, 0), else_=principal.c.lease_until),
    )
    .returning(principal.c.owner)
)
_CLOSED = Prepared(select(principal.c.closed).where(principal.c.id == bindparam("of")))


def _holder(lease: Lease) -> dict[str, object]:
    return {"of": lease.principal, "held_epoch": lease.epoch, "held_by": lease.owner}


def look(connection: Connection, identifier: UUID) -> Owner | None:
    """Who owns the lease now; None for an unknown principal."""
    row = _LOOK(connection, {"of": identifier}).one_or_none()
    return owner_of(connection, row) if row is not None else None


def owner_of(connection: Connection, row: Any) -> Owner:
    """Of a row with ``owner``, ``epoch``, ``lease_until`` and ``format``."""
    return Owner(row.owner, row.epoch, row.lease_until < database_now_us(connection), row.format)


def take(connection: Connection, identifier: UUID, owner: str, seen: Owner) -> Lease | None:
    """Take the lease over from what was seen; None where another was quicker, or the records are a newer release's.

    Adds one to the epoch, and marks the records as of this release.
    """
    until = database_now_us(connection) + LEASE_SECONDS * 1_000_000
    seen_as = {"of": identifier, "seen_epoch": seen.epoch, "seen_owner": seen.owner}
    changed = _TAKE(connection, {**seen_as, "by": owner, "until": until, "reads": FORMAT})
    return Lease(identifier, owner, seen.epoch + 1) if changed.rowcount == 1 else None


def take_free(connection: Connection, identifier: UUID, owner: str) -> tuple[Lease, Head] | None:
    """Take a lease that nobody has, or ``owner`` itself, and the journal's head; None: look who has it."""
    until = database_now_us(connection) + LEASE_SECONDS * 1_000_000
    given = {"of": identifier, "by": owner, "until": until, "reads": FORMAT}
    row = _TAKE_FREE(connection, given).one_or_none()
    return None if row is None else (Lease(identifier, owner, row.epoch), (row.head_seq, row.head_hash))


def written_in(connection: Connection, identifier: UUID, form: int) -> None:
    """What was written of a principal takes a release that reads this form, from now on."""
    query = update(principal).where(principal.c.id == identifier, principal.c.format < form).values(format=form)
    connection.execute(query)


def kind(connection: Connection, identifier: UUID) -> str:
    """``user`` or ``room``; empty for an unknown one."""
    return str(_KIND(connection, {"of": identifier}).scalar() or "")


def fence(connection: Connection, lease: Lease) -> Head:
    """Begin a fenced transaction: lock the row for a lease that still holds; the journal's head. Raises StaleLease."""
    row = _FENCE(connection, _holder(lease)).one_or_none()
    if row is None:
        raise StaleLease(_gone(lease))
    return row.head_seq, row.head_hash


def check(connection: Connection, lease: Lease) -> None:
    """For what is written outside the database, just before it is. Raises StaleLease."""
    row = _LOOK(connection, {"of": lease.principal}).one()
    if (row.owner, row.epoch) != (lease.owner, lease.epoch):
        raise StaleLease(_gone(lease))


def _gone(lease: Lease) -> str:
    return f"the lease of {lease.principal} at epoch {lease.epoch} has gone to another"


def lock(connection: Connection, identifier: UUID) -> Head:
    """Lock the row for an event outside any turn; the journal's head. Raises Away."""
    row = _LOCK(connection, {"of": identifier}).one_or_none()
    if row is None:
        raise Away(not_here(identifier))
    return row.head_seq, row.head_hash


def lock_all(connection: Connection, identifiers: Collection[UUID]) -> dict[UUID, Head]:
    """The same for many at once. Raises Away."""
    rows = connection.execute(_LOCK_ALL, {"owners": list(identifiers)})
    found = {row.id: (row.head_seq, row.head_hash) for row in rows}
    if missing := set(identifiers) - set(found):
        raise Away(not_here(missing.pop()))
    return found


def not_here(identifier: UUID) -> str:
    """What ``Away`` says."""
    return f"{identifier} has moved to another installation, or was never here"


def release(connection: Connection, lease: Lease) -> bool:
    """Give the lease back if nothing is left to drain; False: drain on.

    One UPDATE compares the counts: a SELECT of the inbox before it loses a wake-up on PostgreSQL.
    """
    changed = _RELEASE(connection, _holder(lease))
    return changed.rowcount == 1


def drain_and_release(together: Together, lease: Lease, count: int) -> bool:
    """``drained`` and ``release`` in one, with what else is written. Raises StaleLease."""
    row = together.end(_DRAIN_AND_RELEASE, {**_holder(lease), "count": count}).one_or_none()
    if row is None:
        raise StaleLease(_gone(lease))
    return row.owner is None


def abandon(connection: Connection, lease: Lease) -> None:
    """Give the lease back whatever is left (a runner that stops)."""
    connection.execute(
        update(principal)
        .where(principal.c.id == lease.principal, principal.c.epoch == lease.epoch, principal.c.owner == lease.owner)
        .values(owner=None, lease_until=0, rung_at=0)
    )


def abandon_all(connection: Connection, owner: str, identifiers: list[UUID]) -> None:
    """Give back leases of ``owner`` that nothing in its hands goes with."""
    connection.execute(
        update(principal)
        .where(in_order(principal.c.id.in_(identifiers), principal.c.owner == owner))
        .values(owner=None, lease_until=0, rung_at=0)
    )


def renew_leases(connection: Connection, owner: str) -> int:
    """Prolong every lease of ``owner`` in one statement."""
    until = database_now_us(connection) + LEASE_SECONDS * 1_000_000
    renewed = update(principal).where(in_order(principal.c.owner == owner)).values(lease_until=until)
    return connection.execute(renewed).rowcount


def house(connection: Connection) -> UUID:
    """The principal that is nobody: what is said to strangers and done by the house itself is its own."""
    if _LOOK(connection, {"of": HOUSE}).one_or_none() is None:
        create(connection, HOUSE, "house")
    return HOUSE


def close(connection: Connection, identifier: UUID) -> None:
    """Stop what runs, and from now on run, wake and say nothing; what was left behind in between ends likewise."""
    ended = {"closed": True, "stop_seq": principal.c.inbox_seq}
    connection.execute(update(principal).where(principal.c.id == identifier).values(**ended))


def reopen(connection: Connection, identifier: UUID) -> None:
    connection.execute(update(principal).where(principal.c.id == identifier).values(closed=False))


def is_closed(connection: Connection, identifier: UUID) -> bool:
    return bool(_CLOSED(connection, {"of": identifier}).scalar())


def is_away(connection: Connection, identifier: UUID) -> bool:
    """Whether a principal has moved to another installation."""
    return bool(connection.execute(select(principal.c.away).where(principal.c.id == identifier)).scalar())


_SCOPE = select(principal.c.id).where(
    or_(principal.c.id == bindparam("of"), principal.c.merged_into == bindparam("of"))
)


def scope(connection: Connection, identifier: UUID) -> list[UUID]:
    """A principal and those merged into it: whose notes and files are its own. Its own id comes first."""
    found = [row.id for row in connection.execute(_SCOPE, {"of": identifier})]
    return [identifier, *sorted(one for one in found if one != identifier)]


def root(connection: Connection, identifier: UUID) -> UUID:
    """Whose a principal's things are since a merge: its own, where there was none."""
    kept = connection.execute(select(principal.c.merged_into).where(principal.c.id == identifier)).scalar()
    return kept or identifier


def everyone(connection: Connection) -> list[UUID]:
    """Every principal."""
    return [row.id for row in connection.execute(select(principal.c.id).order_by(principal.c.created_at))]


def figures(connection: Connection) -> dict[str, int]:
    """``waiting`` messages, ``owned`` principals and ``awake`` sandboxes, by their partial indexes."""
    waits = principal.c.inbox_seq - principal.c.drained_seq
    waiting_now = select(func.coalesce(func.sum(waits), 0)).where(
        principal.c.drained_seq < principal.c.inbox_seq, ~principal.c.away
    )
    owned = select(func.count()).where(principal.c.owner.is_not(None))
    awake = select(func.count()).where(principal.c.sandbox_host.is_not(None))
    found = {"waiting": waiting_now, "owned": owned, "awake": awake}
    return {name: int(connection.execute(query).scalar_one()) for name, query in found.items()}

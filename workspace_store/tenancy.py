"""The tenancy: the right of a sandbox manager to write a principal's volume, and what of the volume is committed.

A second right beside the lease: the turn's lease ends with the turn, while a warm sandbox and its background tasks go
on writing. It is held on the principal row, with an epoch of its own.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, case, select, update

from workspace_store.checkpoints import generation
from workspace_store.database import database_now_us
from workspace_store.formats import FORMAT
from workspace_store.principal import LEASE_SECONDS, Head, in_order, principal

UIDS_LOCK = 61158


class StaleTenancy(Exception):
    """The right to this volume has gone to another manager."""


@dataclass(frozen=True)
class Tenancy:
    """The right of ``host`` (a sandbox manager) to write the principal's volume, while ``epoch`` is the row's."""

    principal: UUID
    host: str
    epoch: int


@dataclass(frozen=True)
class Tenant:
    """Who held the tenancy when it was looked at, and the volume it is about."""

    host: str | None
    epoch: int
    expired: bool
    volume_id: str | None
    generation: int
    host_uid: int | None
    state_key: str | None = None
    """What the keys of its sandboxes' seals come from, hex; None before the first one."""
    state_high: int = 0
    """The highest number of a process state that was committed."""
    state_pin: str | None = None
    """SHA-256 of the state file that goes with the committed generation; None: none that is to be believed."""
    closed: bool = False
    """Blocked or being forgotten."""
    manifest_digest: str | None = None
    """Of the committed generation; None before the first one."""


_MANIFEST = (
    select(generation.c.manifest_digest)
    .where(generation.c.principal == principal.c.id, generation.c.generation == principal.c.generation)
    .correlate(principal)
    .scalar_subquery()
)
_TENANT = select(
    principal.c.sandbox_host,
    principal.c.sandbox_epoch,
    principal.c.sandbox_until,
    principal.c.volume_id,
    principal.c.generation,
    principal.c.host_uid,
    principal.c.state_key,
    principal.c.state_high,
    principal.c.state_pin,
    principal.c.closed,
    _MANIFEST.label("manifest_digest"),
).where(principal.c.id == bindparam("of"))
_FORGOTTEN = select(principal.c.id).where(principal.c.closed, principal.c.volume_id.is_(None))
_COMMIT_GENERATION = (
    update(principal)
    .where(
        principal.c.id == bindparam("of"),
        principal.c.sandbox_epoch == bindparam("held_epoch"),
        principal.c.generation == bindparam("to") - 1,
    )
    .values(
        generation=bindparam("to"),
        state_high=case(
            (principal.c.state_high < bindparam("state_number"), bindparam("state_number")),
            else_=principal.c.state_high,
        ),
        state_pin=bindparam("pin"),
    )
)


def look(connection: Connection, identifier: UUID) -> Tenant:
    """Who may write the volume now."""
    row = connection.execute(_TENANT, {"of": identifier}).one()
    expired = row.sandbox_until < database_now_us(connection)
    return Tenant(
        row.sandbox_host, row.sandbox_epoch, expired, row.volume_id, row.generation, row.host_uid,
        row.state_key, row.state_high, row.state_pin, row.closed, row.manifest_digest,
    )  # fmt: skip


def forgotten(connection: Connection) -> list[UUID]:
    """Who was erased, or never had a volume before they were closed."""
    return list(connection.execute(_FORGOTTEN).scalars())


def take(connection: Connection, identifier: UUID, host: str, seen: Tenant) -> Tenancy | None:
    """Take the tenancy over from what was seen; None where another was quicker, or the volume is a newer release's."""
    changed = connection.execute(
        update(principal)
        .where(
            principal.c.id == identifier,
            principal.c.sandbox_epoch == seen.epoch,
            principal.c.sandbox_host.is_not_distinct_from(seen.host),
            principal.c.format <= FORMAT,
            ~principal.c.away,
        )
        .values(
            sandbox_host=host,
            sandbox_epoch=seen.epoch + 1,
            sandbox_until=database_now_us(connection) + LEASE_SECONDS * 1_000_000,
            state_key=seen.state_key or secrets.token_hex(32),
            rest_until=0,
        )
    )
    return Tenancy(identifier, host, seen.epoch + 1) if changed.rowcount == 1 else None


def fence(connection: Connection, held: Tenancy) -> Head:
    """Begin a transaction that only the present tenant may make; the journal's head. Raises StaleTenancy."""
    row = connection.execute(
        update(principal)
        .where(
            principal.c.id == held.principal,
            principal.c.sandbox_epoch == held.epoch,
            principal.c.sandbox_host == held.host,
        )
        .values(sandbox_epoch=held.epoch)
        .returning(principal.c.head_seq, principal.c.head_hash)
    ).one_or_none()
    if row is None:
        raise StaleTenancy(f"the volume of {held.principal} has gone to another sandbox manager")
    return row.head_seq, row.head_hash


def advance(connection: Connection, held: Tenancy, beyond: int) -> Tenancy:
    """The same right with an epoch above ``beyond``, which the storage has seen and a database that was restored from a
    copy has not. Raises StaleTenancy.
    """
    fence(connection, held)
    epoch = max(held.epoch, beyond) + 1
    connection.execute(update(principal).where(principal.c.id == held.principal).values(sandbox_epoch=epoch))
    return Tenancy(held.principal, held.host, epoch)


def release(connection: Connection, held: Tenancy) -> bool:
    """Give the tenancy back; False where it had gone already."""
    changed = connection.execute(
        update(principal)
        .where(
            principal.c.id == held.principal,
            principal.c.sandbox_epoch == held.epoch,
            principal.c.sandbox_host == held.host,
        )
        .values(sandbox_host=None, sandbox_until=0)
    )
    return changed.rowcount == 1


def renew(connection: Connection, host: str) -> set[UUID]:
    """Prolong every tenancy of ``host`` in one statement; whose they are."""
    until = database_now_us(connection) + LEASE_SECONDS * 1_000_000
    mine = in_order(principal.c.sandbox_host == host)
    connection.execute(update(principal).where(mine).values(sandbox_until=until))
    rows = connection.execute(select(principal.c.id).where(principal.c.sandbox_host == host))
    return {row.id for row in rows}


def bind_volume(connection: Connection, held: Tenancy, volume_id: str) -> None:
    """Name the volume that belongs to this principal from now on. Raises StaleTenancy."""
    fence(connection, held)
    connection.execute(update(principal).where(principal.c.id == held.principal).values(volume_id=volume_id))


def commit_generation(
    connection: Connection, identifier: UUID, held: Tenancy, number: int, *, state: int = 0, pin: str | None = None
) -> None:
    """Name ``number`` the committed generation, if the tenancy it was taken under still stands. Raises StaleTenancy.

    ``state`` and ``pin``: number and SHA-256 of the authentic process state in it.
    """
    given = {"of": identifier, "held_epoch": held.epoch, "to": number, "state_number": state, "pin": pin}
    changed = connection.execute(_COMMIT_GENERATION, given)
    if changed.rowcount != 1:
        raise StaleTenancy(f"generation {number} of {identifier} was taken under a tenancy that has ended")


def host_uid(connection: Connection, identifier: UUID, base: int, size: int) -> int:
    """The host uid that this principal's sandboxes run as under a root runner: one each, never shared, never reused.

    Raises SandboxUidsExhausted when the range is full.
    """
    found = connection.execute(select(principal.c.host_uid).where(principal.c.id == identifier)).scalar_one()
    if found is not None:
        return int(found)
    if connection.dialect.name == "postgresql":
        # Two at once would choose the same.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UIDS_LOCK})")
    highest = connection.execute(
        select(principal.c.host_uid)
        .where(and_(principal.c.host_uid >= base, principal.c.host_uid < base + size))
        .order_by(principal.c.host_uid.desc())
        .limit(1)
    ).scalar()
    chosen = base if highest is None else int(highest) + 1
    if chosen >= base + size:
        raise SandboxUidsExhausted(f"all {size} host uids from {base} are given out; widen sandbox.uid_range")
    connection.execute(update(principal).where(principal.c.id == identifier).values(host_uid=chosen))
    return chosen


class SandboxUidsExhausted(Exception):
    """No host uid is left for a new principal's sandboxes."""

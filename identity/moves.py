"""Moving to another installation: grants that this one has made, and who has left it.

A grant lets one person's agent come here once, from one other installation. A departure is the moment at which nobody
here acts for a person any more; it is one transaction, and everything that could act is asleep before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, String, Table, Text, func, literal, select, update
from sqlmodel import Field, SQLModel

from identity import users
from identity.users import user_account
from workspace_store import approvals, attachments, effects, inbox, memory_sessions, outbox, principal
from workspace_store.database import now_us, table
from workspace_store.principal import Lease, in_order
from workspace_store.principal import principal as principals

LEFT = "left_"
"""What the status of something begins with that was open when its person left: nobody here does it any more."""
OPEN: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (outbox.outbox, ("queued", "sending")),
    (approvals.approval, ("pending", "approved")),
    (attachments.attachment, ("waiting",)),
    (effects.effect, ("intended",)),
)


class GrantRow(SQLModel, table=True):
    """``source``: the key of the installation that ``user`` is to come from. Times in microseconds."""

    __tablename__ = "move_grant"

    id: UUID = Field(primary_key=True)
    user: UUID
    source: str
    made_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    used_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    revoked_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    bundle: UUID | None = None


class DepartureRow(SQLModel, table=True):
    """``grant``: the code that the other installation made. ``returned_at``: that one has said that it never came."""

    __tablename__ = "departure"
    __table_args__ = (Index("departure_of", "user", "at"),)

    id: UUID = Field(primary_key=True)
    user: UUID
    grant: str = Field(sa_column=Column(Text, nullable=False))
    place: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    returned_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


grant = table(GrantRow)
departure = table(DepartureRow)


class MoveRefused(Exception):
    """Nothing was done; the text says why and what to do."""


class NotQuiet(Exception):
    """Something of theirs is under way; the text says what."""


@dataclass(frozen=True)
class Departure:
    """``id``: the bundle's."""

    id: UUID
    user: UUID
    grant: str
    place: str
    at: int


@dataclass(frozen=True)
class Mark:
    """How far everything of a principal had come: the same again means that nothing has been said or done since."""

    head_seq: int
    head_hash: str
    inbox_seq: int
    generation: int
    changed: int
    """The number of the last identity event."""


# Grants, at the new place


def offer(connection: Connection, identifier: UUID, user: UUID, source: str, expires_at: int) -> None:
    """Let ``user`` come here once from the installation whose key is ``source``."""
    row = {"id": identifier, "user": user, "source": source, "made_at": now_us(), "expires_at": expires_at}
    connection.execute(grant.insert(), row)
    users.record(connection, None, None, "move.granted", {"grant": identifier.hex, "user": user.hex})


def check_grant(connection: Connection, identifier: UUID, user: UUID, source: str) -> None:
    """Raises MoveRefused where the grant is none of this installation's, or not for this, or used up."""
    row = connection.execute(select(grant).where(grant.c.id == identifier)).one_or_none()
    if row is None:
        raise MoveRefused("its grant was not made here; it can be brought in only as a fork (--fork)")
    if row.user != user:
        raise MoveRefused(f"its grant is for {row.user}, not for {user}")
    if row.source != source:
        raise MoveRefused("its grant is for another installation than the one that made it")
    if row.revoked_at is not None:
        raise MoveRefused("its grant was taken back")
    if row.used_at is not None:
        raise MoveRefused("its grant was used already: whoever it brought lives here, or has moved on")
    if row.expires_at <= now_us():
        raise MoveRefused(
            "its grant has run out; take it back (users revoke), let the old place return (users return), "
            "and begin again"
        )


def use_grant(connection: Connection, identifier: UUID, user: UUID, source: str, bundle: UUID) -> None:
    """Use a grant up, in the transaction that activates. Raises MoveRefused."""
    check_grant(connection, identifier, user, source)
    unused = (grant.c.id == identifier, grant.c.used_at.is_(None), grant.c.revoked_at.is_(None))
    changed = connection.execute(update(grant).where(*unused).values(used_at=now_us(), bundle=bundle))
    if changed.rowcount != 1:
        raise MoveRefused("its grant was used just now")


def revoke(connection: Connection, identifier: UUID) -> None:
    """Nobody comes by this grant any more; the same again is the same. Raises MoveRefused where somebody has."""
    row = connection.execute(select(grant).where(grant.c.id == identifier)).one_or_none()
    if row is None:
        raise MoveRefused("that grant was not made here")
    unused = (grant.c.id == identifier, grant.c.used_at.is_(None))
    changed = connection.execute(
        update(grant).where(*unused).values(revoked_at=func.coalesce(grant.c.revoked_at, now_us()))
    )
    if changed.rowcount != 1:
        raise MoveRefused("that grant was used: they live here, or have moved on from here")


def has_come(connection: Connection, bundle: UUID) -> bool:
    """Whether somebody came with this bundle."""
    return connection.execute(select(grant.c.id).where(grant.c.bundle == bundle)).first() is not None


# Departures, at the old place


def mark(connection: Connection, owners: Sequence[UUID]) -> dict[UUID, Mark]:
    """How far everything of these has come."""
    columns = ("id", "head_seq", "head_hash", "inbox_seq", "generation")
    rows = connection.execute(select(*(principals.c[name] for name in columns)).where(principals.c.id.in_(owners)))
    event = users.identity_event
    found = {}
    for row in rows.all():
        changed = connection.execute(select(func.max(event.c.number)).where(event.c.user == row.id)).scalar()
        found[row.id] = Mark(row.head_seq, row.head_hash, row.inbox_seq, row.generation, int(changed or 0))
    return found


def check_quiet(connection: Connection, owners: Sequence[UUID]) -> None:
    """Raises NotQuiet where a turn was cut off, or a reply is just being sent: each is soon over by itself."""
    for owner in owners:
        if inbox.running_turn(connection, owner) is not None:
            raise NotQuiet("a turn was begun and has not ended")
    sending = select(func.count()).where(
        outbox.outbox.c.principal.in_(owners), outbox.outbox.c.status == "sending",
        outbox.outbox.c.claimed_by.is_not(None),
    )  # fmt: skip
    if connection.execute(sending).scalar_one():
        raise NotQuiet("a reply is being sent")


def leave(connection: Connection, leases: Sequence[Lease], seen: Mapping[UUID, Mark], leaving: Departure) -> None:
    """From this transaction on nobody here acts for them. Raises NotQuiet where more has come since ``seen``.

    The leases end with it, and every right that somebody may believe to have still.
    """
    owners = [lease.principal for lease in leases]
    for lease in leases:
        principal.fence(connection, lease)
    check_quiet(connection, owners)
    if mark(connection, owners) != dict(seen):
        raise NotQuiet("something was said or done meanwhile")
    for found, statuses in OPEN:
        still = (found.c.principal.in_(owners), found.c.status.in_(statuses))
        connection.execute(update(found).where(*still).values(status=literal(LEFT, String) + found.c.status))
    connection.execute(
        update(principals)
        .where(in_order(principals.c.id.in_(owners)))
        .values(
            closed=True, away=True, owner=None, lease_until=0, rest_until=0, epoch=principals.c.epoch + 1,
            sandbox_host=None, sandbox_until=0, sandbox_epoch=principals.c.sandbox_epoch + 1,
        )
    )  # fmt: skip
    connection.execute(
        update(user_account).where(user_account.c.id.in_(owners)).values(blocked=True, moved_to=leaving.place)
    )
    sessions = memory_sessions.session
    connection.execute(update(sessions).where(sessions.c.principal.in_(owners)).values(due_at=None))
    connection.execute(departure.insert(), {**leaving.__dict__})
    for owner in owners:
        users.record(connection, None, owner, "user.left", {"to": leaving.place, "bundle": leaving.id.hex})


def last_departure(connection: Connection, user: UUID) -> Departure | None:
    """How a user left who is away; None: they are here."""
    if not principal.is_away(connection, user):
        return None
    columns = [departure.c[name] for name in Departure.__dataclass_fields__]
    query = select(*columns).where(departure.c.user == user).order_by(departure.c.at.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return Departure(**row._mapping) if row else None


def come_back(connection: Connection, leaving: Departure, owners: Sequence[UUID]) -> None:
    """The other installation has said that they never came, and never will by that grant: all is as it was."""
    for found, _ in OPEN:
        left = (found.c.principal.in_(owners), found.c.status.startswith(LEFT, autoescape=True))
        connection.execute(update(found).where(*left).values(status=func.substr(found.c.status, len(LEFT) + 1)))
    connection.execute(update(principals).where(in_order(principals.c.id.in_(owners))).values(closed=False, away=False))
    connection.execute(update(user_account).where(user_account.c.id.in_(owners)).values(blocked=False, moved_to=None))
    connection.execute(update(departure).where(departure.c.id == leaving.id).values(returned_at=now_us()))
    for owner in owners:
        memory_sessions.spoken(connection, owner, now_us())
        users.record(connection, None, owner, "user.returned", {"bundle": leaving.id.hex})

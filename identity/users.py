"""Users and their proven identities; every change is an identity event.

A user is a UUID and the principal of the same id. An identity is one proven (channel, account, external id); ids keep
their case, display names never decide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    Text,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    text,
    tuple_,
    update,
)
from sqlmodel import Field, SQLModel

from workspace_store import principal as principals
from workspace_store.database import now_us, table
from workspace_store.principal import principal
from workspace_store.statements import Prepared


class UserRow(SQLModel, table=True):
    """A person. ``role``: ``admin``, ``member``, or ``guest`` (known from rooms only)."""

    __tablename__ = "user_account"
    __table_args__ = (
        Index("user_admins", "id", sqlite_where=text("role = 'admin'"), postgresql_where=text("role = 'admin'")),
        Index("user_in_order", "created_at", "id"),
    )

    id: UUID = Field(primary_key=True)
    display_name: str
    role: str
    blocked: bool = False
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    # Where their agent has gone; they are blocked here since.
    moved_to: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class IdentityRow(SQLModel, table=True):
    """A way of being reached that a user has proven to be theirs."""

    __tablename__ = "identity"
    __table_args__ = (
        Index("identity_key", "channel", "account", "external_id", unique=True),
        Index("identity_of", "user"),
        Index("identity_vouched", "vouched_mail", sqlite_where=text("vouched_mail IS NOT NULL"),
              postgresql_where=text("vouched_mail IS NOT NULL")),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    channel: str
    account: str
    external_id: str
    user: UUID = Field(foreign_key="user_account.id")
    display: str
    proof: str
    proven_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    # The mail address its platform vouched for when it was first looked at; a later one never counts. Empty: none.
    vouched_mail: str | None = None


class IdentityEventRow(SQLModel, table=True):
    """Who did what to whose identity, when."""

    __tablename__ = "identity_event"
    __table_args__ = (Index("identity_event_of", "user", "number"),)

    number: int | None = Field(
        default=None,
        sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    )
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    actor: UUID | None = None
    user: UUID | None = None
    kind: str
    detail: str = Field(sa_column=Column(Text, nullable=False))


GUEST = "guest"

user_account = table(UserRow)
identity = table(IdentityRow)
identity_event = table(IdentityEventRow)


@dataclass(frozen=True)
class Claim:
    """Who a message says it is from, and what proves it.

    ``proof``: ``token`` (the local token), ``smtp_auth``, ``platform``, ``dmarc``, ``trusted_relay``, ``unchecked``,
    ``admin`` where an administrator has vouched, or empty where nothing does. ``vouched_mail``: the address that the
    platform says is theirs; see ``identity.vouching``.
    """

    channel: str
    account: str
    external_id: str
    display: str = ""
    proof: str = ""
    vouched_mail: str = ""


@dataclass(frozen=True)
class User:
    """``merged_into``: the user this one was merged into, where it was looked up by its own UUID."""

    id: UUID
    display_name: str
    role: str
    blocked: bool
    created_at: int = 0
    merged_into: UUID | None = None
    moved_to: str | None = None
    """The place their agent has moved to; None: it is here."""


@dataclass(frozen=True)
class Known:
    """An identity: how somebody is known at a channel. ``user``: whom it was proven for, before any merge."""

    channel: str
    account: str
    external_id: str
    display: str = ""
    proof: str = ""
    proven_at: int = 0
    user: UUID | None = None
    id: UUID | None = None
    vouched_mail: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.channel, self.account, self.external_id

    @property
    def name(self) -> str:
        """As people write it: ``email:ann@example.org``, ``slack:T1/U1``, ``telegram:42``."""
        place = f"{self.account}/{self.external_id}" if self.channel == "slack" else self.external_id
        return f"{self.channel}:{place}"


@dataclass(frozen=True)
class IdentityEvent:
    """``actor``: None is the command line, or the house itself."""

    number: int
    at: int
    actor: UUID | None
    kind: str
    detail: dict[str, Any]


# Whose an identity is: its user's, or since a merge, of the user that one was merged into.
_OWNED = identity.join(principal, principal.c.id == identity.c.user).join(
    user_account, user_account.c.id == func.coalesce(principal.c.merged_into, principal.c.id)
)
_KEY = (
    identity.c.channel == bindparam("at"),
    identity.c.account == bindparam("by"),
    identity.c.external_id == bindparam("known_as"),
)
_IDENTITY = select(identity).where(*_KEY)
_USER: tuple[Any, ...] = (user_account, literal_column("NULL").label("merged_into"))
_BY_IDENTITY = Prepared(select(*_USER).select_from(_OWNED).where(*_KEY))
_WITH_MERGE = select(user_account, principal.c.merged_into).join(principal, principal.c.id == user_account.c.id)
_BY_ID = _WITH_MERGE.where(user_account.c.id == bindparam("of"))
_ADMINS = _WITH_MERGE.where(
    user_account.c.role == literal_column("'admin'"), ~user_account.c.blocked, principal.c.merged_into.is_(None)
)
_PAGE = (
    _WITH_MERGE.where(
        tuple_(user_account.c.created_at, user_account.c.id)
        > tuple_(bindparam("at"), bindparam("id", type_=user_account.c.id.type))
    )
    .order_by(user_account.c.created_at, user_account.c.id)
    .limit(bindparam("most"))
)
_IDENTITIES = (
    select(identity)
    .where(identity.c.user.in_(bindparam("owners", expanding=True)))
    .order_by(identity.c.proven_at, identity.c.id)
)


def _user(row: Any) -> User:
    return User(row.id, row.display_name, row.role, row.blocked, row.created_at, row.merged_into, row.moved_to)


_BLOCKED = select(user_account.c.blocked).where(user_account.c.id == bindparam("of"))


def by_identity(connection: Connection, claim: Claim) -> User | None:
    """The user of a proven identity: one look-up by (channel, account, external id), merges followed."""
    given = {"at": claim.channel, "by": claim.account, "known_as": claim.external_id}
    row = _BY_IDENTITY(connection, given).one_or_none()
    return None if row is None else _user(row)


def get(connection: Connection, identifier: UUID) -> User | None:
    """A user by UUID, as it was before any merge; ``merged_into`` says whose it is since."""
    row = connection.execute(_BY_ID, {"of": identifier}).one_or_none()
    return None if row is None else _user(row)


def admins(connection: Connection) -> list[User]:
    """Who administers and is not blocked."""
    return [_user(row) for row in connection.execute(_ADMINS)]


def page(connection: Connection, after: User | None = None, limit: int = 50) -> list[User]:
    """Users in the order they came, a page at a time."""
    given = {"at": after.created_at if after else -1, "id": after.id if after else UUID(int=0), "most": limit}
    return [_user(row) for row in connection.execute(_PAGE, given)]


def create(connection: Connection, claim: Claim, role: str) -> User:
    """A new user with this first identity, and its principal. IntegrityError where another was quicker."""
    identifier = uuid4()
    name = claim.display or claim.external_id
    now = now_us()
    connection.execute(
        user_account.insert().values(id=identifier, display_name=name, role=role, blocked=False, created_at=now)
    )
    principals.create(connection, identifier, "user")
    add_identity(connection, identifier, claim)
    record(connection, None, identifier, "identity.created", {"channel": claim.channel, "proof": claim.proof})
    return User(identifier, name, role, False, now)


def record(connection: Connection, actor: UUID | None, user: UUID | None, kind: str, detail: dict[str, Any]) -> None:
    connection.execute(
        identity_event.insert().values(at=now_us(), actor=actor, user=user, kind=kind, detail=json.dumps(detail))
    )


def set_role(connection: Connection, user: UUID, role: str, actor: UUID | None) -> None:
    connection.execute(update(user_account).where(user_account.c.id == user).values(role=role))
    record(connection, actor, user, "role.changed", {"role": role})


def is_blocked(connection: Connection, user: UUID) -> bool:
    return bool(connection.execute(_BLOCKED, {"of": user}).scalar())


def add_identity(connection: Connection, user: UUID, claim: Claim) -> Known:
    """Another way of being reached. IntegrityError where it is somebody's already."""
    known = Known(
        claim.channel, claim.account, claim.external_id, claim.display or claim.external_id, claim.proof, now_us(),
        user, uuid4(),
    )  # fmt: skip
    connection.execute(identity.insert().values(**known.__dict__))
    return known


def remove_identity(connection: Connection, known: Known) -> None:
    """Whoever comes by it afterwards is a stranger."""
    connection.execute(delete(identity).where(identity.c.id == known.id))


def identities(connection: Connection, user: UUID) -> list[Known]:
    """Every channel a user is known at, by themselves or by those merged into them; the oldest first."""
    rows = connection.execute(_IDENTITIES, {"owners": principals.scope(connection, user)})
    return [_known(row) for row in rows]


def identity_of(connection: Connection, claim: Claim) -> Known | None:
    """The identity that a proven claim is."""
    given = {"at": claim.channel, "by": claim.account, "known_as": claim.external_id}
    row = connection.execute(_IDENTITY, given).one_or_none()
    return None if row is None else _known(row)


def accounts(connection: Connection, channel: str) -> list[str]:
    """The accounts of a channel that somebody has come by."""
    rows = connection.execute(select(identity.c.account).where(identity.c.channel == channel).distinct().limit(10))
    return [row.account for row in rows]


def identity_by_id(connection: Connection, identifier: UUID) -> Known | None:
    row = connection.execute(select(identity).where(identity.c.id == identifier)).one_or_none()
    return None if row is None else _known(row)


def identity_named(connection: Connection, name: str) -> Known | None:
    """An identity by ``channel:external id`` (Slack: ``slack:TEAM/USER``), or the name of the local channel."""
    channel, _, external = name.strip().rpartition(":") if not name.startswith("email:") else ("email", "", name[6:])
    account, _, external = external.rpartition("/") if channel == "slack" else ("", "", external)
    query = select(identity).where(identity.c.channel == (channel or "local"), identity.c.external_id == external)
    if account:
        query = query.where(identity.c.account == account)
    rows = connection.execute(query.limit(2)).all()
    # An id that two accounts have names nobody.
    return _known(rows[0]) if len(rows) == 1 else None


def _known(row: Any) -> Known:
    return Known(
        row.channel,
        row.account,
        row.external_id,
        row.display,
        row.proof,
        row.proven_at,
        row.user,
        row.id,
        row.vouched_mail,
    )


def find(connection: Connection, name: str) -> User | None:
    """A user by UUID, ``channel:external id``, or the name of the local channel; merges are followed by name only."""
    try:
        return get(connection, UUID(name))
    except ValueError:
        known = identity_named(connection, name)
    return None if known is None else by_identity(connection, Claim(known.channel, known.account, known.external_id))


def key_of(claim: Claim) -> tuple[ColumnElement[bool], ...]:
    """The condition that a row is a claim's identity."""
    return (
        identity.c.channel == claim.channel,
        identity.c.account == claim.account,
        identity.c.external_id == claim.external_id,
    )


def events_of_kind(connection: Connection, user: UUID, kind: str) -> list[IdentityEvent]:
    """What of one kind was done about a user, the newest first."""
    return [event for event in events(connection, user, 1000) if event.kind == kind]


def events(connection: Connection, user: UUID, limit: int = 50) -> list[IdentityEvent]:
    """What was done about a user, the newest first."""
    rows = connection.execute(
        select(identity_event)
        .where(identity_event.c.user == user)
        .order_by(identity_event.c.number.desc())
        .limit(limit)
    )
    return [IdentityEvent(row.number, row.at, row.actor, row.kind, json.loads(row.detail)) for row in rows]

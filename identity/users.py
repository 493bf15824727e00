"""Users and their proven identities; every change is an identity event.

A user is a UUID and the principal of the same id. An identity is one proven (channel, account, external id); ids keep
their case, display names never decide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, Text, bindparam, select, update
from sqlmodel import Field, SQLModel

from workspace_store import principal as principals
from workspace_store.database import now_us, table


class UserRow(SQLModel, table=True):
    """A person. ``role``: ``admin``, ``member``, or ``guest`` (known from rooms only)."""

    __tablename__ = "user_account"

    id: UUID = Field(primary_key=True)
    display_name: str
    role: str
    blocked: bool = False
    merged_into: UUID | None = None
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))


class IdentityRow(SQLModel, table=True):
    """A way of being reached that a user has proven to be theirs."""

    __tablename__ = "identity"
    __table_args__ = (
        Index("identity_key", "channel", "account", "external_id", unique=True),
        Index("identity_of", "user"),
    )

    id: UUID = Field(primary_key=True)
    channel: str
    account: str
    external_id: str
    user: UUID = Field(foreign_key="user_account.id")
    display: str
    proof: str
    proven_at: int = Field(sa_column=Column(BigInteger, nullable=False))


class IdentityEventRow(SQLModel, table=True):
    """Who did what to whose identity, when."""

    __tablename__ = "identity_event"

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
    or empty where nothing does.
    """

    channel: str
    account: str
    external_id: str
    display: str = ""
    proof: str = ""


@dataclass(frozen=True)
class User:
    id: UUID
    display_name: str
    role: str
    blocked: bool


_BY_IDENTITY = (
    select(user_account)
    .join(identity, identity.c.user == user_account.c.id)
    .where(
        identity.c.channel == bindparam("at"),
        identity.c.account == bindparam("by"),
        identity.c.external_id == bindparam("known_as"),
    )
)


_BLOCKED = select(user_account.c.blocked).where(user_account.c.id == bindparam("of"))


def by_identity(connection: Connection, claim: Claim) -> User | None:
    """The user of a proven identity: one look-up by (channel, account, external id)."""
    given = {"at": claim.channel, "by": claim.account, "known_as": claim.external_id}
    row = connection.execute(_BY_IDENTITY, given).one_or_none()
    return None if row is None else User(row.id, row.display_name, row.role, row.blocked)


def create(connection: Connection, claim: Claim, role: str) -> User:
    """A new user with this first identity, and its principal. IntegrityError where another was quicker."""
    identifier = uuid4()
    name = claim.display or claim.external_id
    now = now_us()
    connection.execute(
        user_account.insert().values(
            id=identifier, display_name=name, role=role, blocked=False, merged_into=None, created_at=now
        )
    )
    connection.execute(
        identity.insert().values(
            id=uuid4(), channel=claim.channel, account=claim.account, external_id=claim.external_id, user=identifier,
            display=name, proof=claim.proof, proven_at=now,
        )
    )  # fmt: skip
    principals.create(connection, identifier, "user")
    record(connection, None, identifier, "identity.created", {"channel": claim.channel, "proof": claim.proof})
    return User(identifier, name, role, False)


def record(connection: Connection, actor: UUID | None, user: UUID | None, kind: str, detail: dict[str, Any]) -> None:
    connection.execute(
        identity_event.insert().values(at=now_us(), actor=actor, user=user, kind=kind, detail=json.dumps(detail))
    )


def set_role(connection: Connection, user: UUID, role: str, actor: UUID | None) -> None:
    connection.execute(update(user_account).where(user_account.c.id == user).values(role=role))
    record(connection, actor, user, "role.changed", {"role": role})


def is_blocked(connection: Connection, user: UUID) -> bool:
    return bool(connection.execute(_BLOCKED, {"of": user}).scalar())


def identities(connection: Connection, user: UUID) -> list[tuple[str, str, str]]:
    """(channel, account, external id) of every channel a user is known at."""
    rows = connection.execute(
        select(identity.c.channel, identity.c.account, identity.c.external_id)
        .where(identity.c.user == user)
        .order_by(identity.c.proven_at)
    )
    return [(row.channel, row.account, row.external_id) for row in rows]


def find(connection: Connection, name: str) -> User | None:
    """A user by UUID, ``channel:external id``, or the name of the local channel."""
    try:
        wanted = UUID(name)
    except ValueError:
        channel, _, external = name.rpartition(":")
        account, _, external = external.rpartition("/") if channel == "slack" else ("", "", external)
        query = (
            select(user_account)
            .join(identity, identity.c.user == user_account.c.id)
            .where(identity.c.channel == (channel or "local"), identity.c.external_id == external)
        )
        if account:
            query = query.where(identity.c.account == account)
    else:
        query = select(user_account).where(user_account.c.id == wanted)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else User(row.id, row.display_name, row.role, row.blocked)

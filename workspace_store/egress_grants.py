"""Hosts that a person let a principal's sandboxes reach, or refused: for a time or always, and who said so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Delete, Index, bindparam, delete, or_, select
from sqlmodel import Field, SQLModel

from workspace_store.database import database_now_us, table

WEB = 0
"""In place of a port: 80 and 443, which people mean by a host."""


class EgressGrant(SQLModel, table=True):
    """``until`` None: always. ``allowed`` False: a refusal that holds until then, so that nobody is asked again."""

    __tablename__ = "egress_grant"
    __table_args__ = (Index("egress_grant_of", "principal", "host", "port", unique=True),)

    id: UUID = Field(primary_key=True)
    principal: UUID
    host: str
    port: int
    allowed: bool
    until: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    given_by: UUID | None = None
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


grant = table(EgressGrant)


@dataclass(frozen=True)
class Grant:
    """Who said what about one host and port."""

    principal: UUID
    host: str
    port: int
    allowed: bool
    until: int | None
    given_by: UUID | None
    at: int


_COLUMNS = [grant.c[name] for name in Grant.__dataclass_fields__]
_FIND = select(*_COLUMNS).where(
    grant.c.principal == bindparam("owner"),
    grant.c.host == bindparam("named"),
    grant.c.port == bindparam("on"),
    or_(grant.c.until.is_(None), grant.c.until > bindparam("now")),
)


def find(connection: Connection, owner: UUID, host: str, port: int) -> Grant | None:
    """What holds now for this host and port; None: nobody has said anything, or it has ended."""
    given = {"owner": owner, "named": host, "on": port, "now": database_now_us(connection)}
    row = connection.execute(_FIND, given).one_or_none()
    return Grant(**row._mapping) if row else None


def give(
    connection: Connection,
    owner: UUID,
    host: str,
    port: int,
    *,
    allowed: bool,
    seconds: float | None,
    by: UUID | None,
) -> Grant:
    """Allow or refuse a host, in place of what was said before. ``seconds`` None: always."""
    now = database_now_us(connection)
    until = None if seconds is None else now + int(seconds * 1_000_000)
    connection.execute(_delete(owner, host, [port]))
    given = Grant(owner, host, port, allowed, until, by, now)
    connection.execute(grant.insert(), {"id": uuid4(), **given.__dict__})
    return given


def standing(connection: Connection, owner: UUID) -> list[Grant]:
    """Everything that holds now, by host."""
    now = database_now_us(connection)
    rows = connection.execute(
        select(*_COLUMNS)
        .where(grant.c.principal == owner, or_(grant.c.until.is_(None), grant.c.until > now))
        .order_by(grant.c.host, grant.c.port)
    )
    return [Grant(**row._mapping) for row in rows]


def revoke(connection: Connection, owner: UUID, host: str, ports: Iterable[int] = ()) -> int:
    """Forget what was said of a host (of all its ports, where none are named); how many grants there were."""
    return connection.execute(_delete(owner, host, list(ports))).rowcount


def _delete(owner: UUID, host: str, ports: list[int]) -> Delete:
    statement = delete(grant).where(grant.c.principal == owner, grant.c.host == host)
    return statement.where(grant.c.port.in_(ports)) if ports else statement

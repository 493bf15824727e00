"""Principals with mail that nobody serves, and whose leases they are: what sweepers look for."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, func, select, update

from workspace_store.database import database_now_us
from workspace_store.formats import FORMAT
from workspace_store.principal import in_order, principal


def with_mail(connection: Connection, not_rung_since: int, limit: int = 1000) -> list[UUID]:
    """Principals with undrained mail and no bell since ``not_rung_since``, whom nobody owns and this release reads."""
    rows = connection.execute(
        select(principal.c.id)
        .where(
            principal.c.drained_seq < principal.c.inbox_seq,
            principal.c.rung_at <= not_rung_since,
            principal.c.owner.is_(None),
            principal.c.format <= FORMAT,
            ~principal.c.away,
        )
        .limit(limit)
    )
    return [row.id for row in rows]


def owners(connection: Connection) -> list[tuple[str, bool]]:
    """Every owner named in the table, and whether its lease has ended by the database's clock."""
    now = database_now_us(connection)
    rows = connection.execute(
        select(principal.c.owner, func.max(principal.c.lease_until).label("until"))
        .where(principal.c.owner.is_not(None))
        .group_by(principal.c.owner)
    )
    return [(row.owner, row.until < now) for row in rows]


def owned_by(connection: Connection, owner: str) -> list[UUID]:
    rows = connection.execute(select(principal.c.id).where(principal.c.owner == owner))
    return [row.id for row in rows]


def rung(connection: Connection, identifiers: list[UUID]) -> None:
    """Remember that their bells were rung now."""
    if identifiers:
        which = in_order(principal.c.id.in_(identifiers))
        connection.execute(update(principal).where(which).values(rung_at=database_now_us(connection)))

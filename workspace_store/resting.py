"""Sandboxes that are to sleep as soon as no turn is in them: somebody waits for that, or their principal is closed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, or_, select, update

from workspace_store.database import database_now_us
from workspace_store.principal import in_order, principal


def to_end_on(connection: Connection, host: str) -> list[UUID]:
    """Principals whose sandbox is awake on a host and is not to be: closed, or being packed."""
    ends = or_(principal.c.closed, principal.c.rest_until > database_now_us(connection))
    rows = connection.execute(select(principal.c.id).where(principal.c.sandbox_host == host, ends))
    return [row.id for row in rows]


def rest(connection: Connection, identifiers: Sequence[UUID], seconds: float) -> None:
    """Let their sandboxes sleep as soon as no turn is in them, for so long from now (0: no longer)."""
    until = database_now_us(connection) + int(seconds * 1e6) if seconds else 0
    connection.execute(update(principal).where(in_order(principal.c.id.in_(identifiers))).values(rest_until=until))


def is_to_rest(connection: Connection, identifier: UUID) -> bool:
    """Whether somebody waits for its sandbox to sleep."""
    until = connection.execute(select(principal.c.rest_until).where(principal.c.id == identifier)).scalar()
    return int(until or 0) > database_now_us(connection)

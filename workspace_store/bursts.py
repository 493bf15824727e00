"""A burst: what one person says in a strand while it settles, because something showed that more is coming.

The first row of it is what a turn serves; the others name it.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, bindparam, select, update

from workspace_store.database import database_now_us
from workspace_store.inbox import COLUMNS, Row, inbox
from workspace_store.statements import Prepared

_STRAND = ("at", "account_is", "talk", "thread_is")
_SETTLING = Prepared(
    select(*COLUMNS)
    .where(
        inbox.c.principal == bindparam("owner"),
        inbox.c.status == "pending",
        inbox.c.settles_at > 0,
        inbox.c.actor == bindparam("by"),
        inbox.c.channel == bindparam("at"),
        inbox.c.account == bindparam("account_is"),
        inbox.c.conversation == bindparam("talk"),
        inbox.c.thread == bindparam("thread_is"),
    )
    # The newest: one that has settled may wait for its turn still when another begins to settle.
    .order_by(inbox.c.seq.desc())
    .limit(1)
)
_BURST = Prepared(
    select(*COLUMNS).where(inbox.c.burst == bindparam("first"), inbox.c.status == "pending").order_by(inbox.c.seq)
)


def settling(connection: Connection, owner: UUID, actor: UUID, strand: tuple[str, str, str, str]) -> Row | None:
    """What one person said in a strand and still settles: what they say now belongs to it. Lock the principal first."""
    given = {"owner": owner, "by": actor, **dict(zip(_STRAND, strand, strict=True))}
    found = _SETTLING(connection, given).first()
    # Hosts' clocks differ: asked for only where somebody waits for it.
    return Row(*found) if found and found.settles_at > database_now_us(connection) else None


def settle(connection: Connection, identifier: UUID, at: int) -> None:
    """Let a waiting row settle until ``at`` (microseconds; 0: no longer)."""
    connection.execute(update(inbox).where(inbox.c.id == identifier).values(settles_at=at))


def of(connection: Connection, first: UUID) -> list[Row]:
    """What still waits and belongs to the burst that a row began, in order."""
    return [Row(*row) for row in _BURST(connection, {"first": first})]

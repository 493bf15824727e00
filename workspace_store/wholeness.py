"""Whether the records that a turn would go on from are whole, read with the statement that asks who owns the lease.

Of the journal, the links since the last checkpoint (the newest ``LINKS`` of them): what is before is in the checkpoint.
What is wrong, and where, is read by those who have been told that something is.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, func, or_, select

from workspace_store.checkpoints import checkpoint
from workspace_store.journal import event
from workspace_store.principal import GENESIS, Owner, owner_of, principal

LINKS = 200

_before = event.alias("before")
_last = (
    select(func.max(checkpoint.c.seq))
    .where(checkpoint.c.principal == principal.c.id)
    .correlate(principal)
    .scalar_subquery()
)
_follows = or_(
    and_(event.c.seq == 1, event.c.prev_hash == GENESIS),
    select(1)
    .where(
        _before.c.principal == event.c.principal,
        _before.c.seq == event.c.seq - 1,
        _before.c.hash == event.c.prev_hash,
    )
    .correlate(event)
    .exists(),
)
_linked = (
    select(func.count())
    .where(
        event.c.principal == principal.c.id,
        event.c.seq > func.coalesce(checkpoint.c.seq, 0),
        event.c.seq > principal.c.head_seq - LINKS,
        event.c.seq <= principal.c.head_seq,
        _follows,
    )
    .correlate(principal, checkpoint)
    .scalar_subquery()
)
_ends = (
    select(event.c.hash)
    .where(event.c.principal == principal.c.id, event.c.seq == principal.c.head_seq)
    .correlate(principal)
    .scalar_subquery()
)
_LOOK = (
    select(
        principal.c.owner,
        principal.c.epoch,
        principal.c.lease_until,
        principal.c.format,
        principal.c.head_seq,
        principal.c.head_hash,
        principal.c.generation,
        checkpoint.c.seq.label("covered"),
        checkpoint.c.generation.label("digested"),
        _linked.label("linked"),
        _ends.label("ends"),
    )
    .select_from(principal)
    .outerjoin(checkpoint, and_(checkpoint.c.principal == principal.c.id, checkpoint.c.seq == _last))
    .where(principal.c.id == bindparam("of"))
)


def look(connection: Connection, identifier: UUID) -> tuple[Owner, bool] | None:
    """Who owns the lease now, as ``principal.look`` says it; and whether what is recorded fits."""
    row = connection.execute(_LOOK, {"of": identifier}).one_or_none()
    if row is None:
        return None
    since = max(row.covered or 0, row.head_seq - LINKS)
    fits = row.covered is None or row.digested == row.generation
    whole = fits and row.linked == row.head_seq - since and (row.ends or GENESIS) == row.head_hash
    return owner_of(connection, row), whole

"""What the commit of a turn has to know beforehand, in one look: asked one by one, each costs a round trip."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, bindparam, exists, func, select, text

from workspace_store import drafts
from workspace_store.checkpoints import turn_record
from workspace_store.continuations import continuation
from workspace_store.outbox import outbox
from workspace_store.principal import principal
from workspace_store.statements import Prepared

_MOST = (
    select(turn_record.c.seq)
    .where(turn_record.c.principal == bindparam("of"), turn_record.c.folded.is_(None))
    .limit(bindparam("most"))
)
_LOOK = Prepared(
    select(
        select(principal.c.closed).where(principal.c.id == bindparam("of")).scalar_subquery().label("closed"),
        exists(select(1).where(outbox.c.key == bindparam("first_reply"))).label("queued"),
        exists(select(1).where(outbox.c.key == bindparam("draft"), text("outbox.status = 'draft'"))).label("drafted"),
        exists(select(1).where(continuation.c.principal == bindparam("of"))).label("gone_on"),
        select(func.count()).select_from(_MOST.subquery()).scalar_subquery().label("unfolded"),
    )
)


@dataclass(frozen=True)
class Before:
    """How things stand before a turn commits."""

    closed: bool
    """Nothing is said for its principal any more."""
    queued: bool
    """Its first reply is in the outbox already."""
    drafted: bool
    """Something was shown of that while the turn ran."""
    gone_on: bool
    """Its person has gone on somewhere else, now or earlier."""
    unfolded: int
    """Turns that are not folded, counted up to ``most``."""


def look(connection: Connection, owner: UUID, turn: UUID, first_reply: str, most: int) -> Before:
    """Of a turn whose first reply has this key in the outbox."""
    given = {"of": owner, "first_reply": first_reply, "draft": drafts.key_of(turn), "most": most}
    return Before(*_LOOK(connection, given).one())

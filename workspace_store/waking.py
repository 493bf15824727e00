"""What a wake reads first, in one statement: the newest turns that are not folded yet, and whether anything stands
(an open task, a promise, a question that waits), so that nothing more is read where nothing does."""

from __future__ import annotations

import json
from uuid import UUID

from sqlalchemy import Connection, Exists, Table, bindparam, exists, or_, select, text

from workspace_store.approval_rows import approval
from workspace_store.checkpoints import TurnRecord, turn_record
from workspace_store.commitments import commitment
from workspace_store.tasks import task


def _any(found: Table, condition: str) -> Exists:
    return exists(select(1).where(found.c.principal == bindparam("of"), text(f"{found.name}.{condition}")))


_STANDS = or_(
    _any(task, "closed_at IS NULL"), _any(commitment, "ended_at IS NULL"), _any(approval, "status = 'pending'")
)
_UNFOLDED = (
    select(turn_record, _STANDS.label("stands"))
    .where(turn_record.c.principal == bindparam("of"), turn_record.c.folded.is_(None))
    .order_by(turn_record.c.seq.desc())
    .limit(bindparam("most"))
)


def unfolded(connection: Connection, owner: UUID, limit: int) -> tuple[list[TurnRecord], bool]:
    """The newest ``limit`` turns that are not folded, in order; and whether something may stand."""
    rows = connection.execute(_UNFOLDED, {"of": owner, "most": limit}).all()[::-1]
    records = [TurnRecord(r.seq, r.turn, json.loads(r.messages), r.tokens, r.folded, r.at) for r in rows]
    return records, not rows or bool(rows[0].stands)

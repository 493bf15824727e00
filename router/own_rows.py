"""Inbox rows of what nobody has just written: a schedule's words, a decision, a delivery to a hook, a heartbeat."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import Connection

from router.envelope import Envelope
from workspace_store import inbox, inbox_counts
from workspace_store.database import now_us


def put(
    connection: Connection, owner: UUID, kind: str, actor: UUID | None, told: Envelope, identifier: UUID | None = None
) -> tuple[UUID, str | None]:
    """Put ``told`` into a principal's inbox, known again by its ``external_id``; the row, and who serves them now.

    Raises IntegrityError where it is there already.
    """
    seq, runner = inbox_counts.received(connection, owner)
    row = identifier or uuid4()
    inbox.insert(
        connection, status="pending", id=row, dedupe_key=told.external_id, principal=owner, seq=seq, kind=kind,
        actor=actor, channel=told.channel, account=told.account, conversation=told.conversation, thread=told.thread,
        envelope=told.to_json(), received_at=now_us(),
    )  # fmt: skip
    return row, runner

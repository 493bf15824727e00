"""Conversations as their platform changes them: moved to another id, closed to the agent, opened again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select, update

from workspace_store.database import now_us
from workspace_store.inbox import inbox
from workspace_store.outbox import DEAD, OPEN, outbox

RESUMED = 20
RESUMED_US = 7 * 24 * 3600 * 1_000_000


def move(connection: Connection, principal: UUID | None, channel: str, account: str, old: str, new: str) -> None:
    """What is still to be said under the old id is said under the new one; also what ``principal`` has yet to do."""
    connection.execute(
        update(outbox).where(*_at(channel, account, old), outbox.c.status.in_(OPEN)).values(conversation=new)
    )
    if principal is not None:
        waiting = (inbox.c.principal == principal, inbox.c.status.in_(("pending", "running", "taken", "waiting")))
        there = (inbox.c.channel == channel, inbox.c.account == account, inbox.c.conversation == old)
        connection.execute(update(inbox).where(*waiting, *there).values(conversation=new))


def close(
    connection: Connection, channel: str, account: str, conversation: str, reason: str
) -> list[tuple[UUID, UUID]]:
    """Nothing can be said there any more: what waits becomes dead letters; (reply, principal) of each."""
    closed = (
        update(outbox)
        .where(*_at(channel, account, conversation), outbox.c.status.in_(OPEN), outbox.c.status == "queued")
        .values(status="dead", error=reason, settled_at=now_us())
        .returning(outbox.c.id, outbox.c.principal)
    )
    return [(row.id, row.principal) for row in connection.execute(closed)]


def reopen(connection: Connection, channel: str, account: str, conversation: str, reason: str) -> int:
    """Something can be said there again: the newest dead letters of this ``reason`` are to be sent; how many."""
    buried = (
        *_at(channel, account, conversation),
        outbox.c.status == DEAD,
        outbox.c.error.startswith(reason, autoescape=True),
        outbox.c.settled_at > now_us() - RESUMED_US,
    )
    newest = select(outbox.c.number).where(*buried).order_by(outbox.c.number.desc()).limit(RESUMED)
    numbers = [row.number for row in connection.execute(newest)]
    fresh = {"status": "queued", "error": None, "attempts": 0, "next_at": 0, "claimed_by": None, "settled_at": None}
    connection.execute(update(outbox).where(outbox.c.number.in_(numbers)).values(**fresh))
    return len(numbers)


def _at(channel: str, account: str, conversation: str) -> tuple[Any, ...]:
    return (outbox.c.channel == channel, outbox.c.account == account, outbox.c.conversation == conversation)

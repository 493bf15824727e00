"""Questions of the agent to its person, as rows: an approval of a kind of its own, whose question is a turn's reply.

Until it is answered, the messages of the turn that asked are ``waiting``; then they are done.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, update

from workspace_store import inbox, journal, outbox, texts
from workspace_store.approval_rows import QUESTION, Approval, approval
from workspace_store.database import database_now_us
from workspace_store.journal import Event

__all__ = ["QUESTION", "answered_in_words", "posted_as", "settle_messages"]


def posted_as(connection: Connection, identifier: UUID, reply: UUID) -> None:
    """Which outbox reply asks it."""
    connection.execute(update(approval).where(approval.c.id == identifier).values(question=reply))


def settle_messages(connection: Connection, found: Approval) -> None:
    """What waited for the answer is done: a turn of its own goes on from there."""
    if found.turn is not None:
        inbox.settle_waiting(connection, found.turn)


def answered_in_words(connection: Connection, found: Approval, by: UUID | None) -> bool:
    """Settle a question by what was said; False: it was answered before. Its buttons go."""
    now = database_now_us(connection)
    changed = connection.execute(
        update(approval)
        .where(approval.c.id == found.id, approval.c.status == "pending")
        .values(status="consumed", decided_at=now, decided_by=by, decided_via="words", choice="", consumed_at=now)
    )
    if changed.rowcount != 1:
        return False
    body = {"approval": found.id.hex, "code": found.code, "kind": found.kind, "verdict": "answered", "choice": "",
            "by": by.hex if by else None, "via": "words"}  # fmt: skip
    journal.append(connection, found.principal, [Event("approval.decided", body)], under=None, turn=found.turn)
    settle_messages(connection, found)
    if found.choices:
        say_decided(connection, found, texts.answered_in_words(found.text))
    return True


def say_decided(connection: Connection, found: Approval, text: str) -> None:
    """Let the question say what became of it, where it was asked, instead of offering buttons."""
    outbox.queue(
        connection,
        key=f"approval:{found.id.hex}:decided",
        principal=found.principal,
        turn=None,
        inbox=None,
        to=found.place.address,
        content={"text": text, "edits": found.question.hex, "reply": dict(found.place.reply)},
    )

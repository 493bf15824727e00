"""What a turn says, put into the outbox: in order, where it was asked, or where the person has gone on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import Connection

from sandbox_runner import texts
from workspace_store import continuations, drafts, outbox, turn_ends
from workspace_store.statements import Together
from workspace_store.turn_ends import Before

if TYPE_CHECKING:
    from sandbox_runner.assignments import Assignment
    from sandbox_runner.turn_in_hand import Turn


def queue_replies(
    connection: Connection,
    turn: Turn,
    replies: Mapping[str, str],
    files: Sequence[Mapping[str, Any]],
    before: Before,
    beside: Together,
    buttons: Sequence[Mapping[str, str]] = (),
) -> UUID | None:
    """Queue the replies in order; all messages of a turn are of one conversation, so its files go with the last.

    The buttons too. The id of the last one, where there is one. ``before``: as ``look`` found it in this transaction.
    """
    last = None
    for position, (message, text) in enumerate(replies.items()):
        assignment = next(a for a in turn.assignments if a.row.id.hex == message)
        key, content = _key(turn, str(position)), _content(assignment, text)
        if files and position == len(replies) - 1:
            content["files"] = [dict(file) for file in files]
        if buttons and position == len(replies) - 1:
            content["buttons"] = [dict(button) for button in buttons]
        row = assignment.row.id
        elsewhere = continuations.elsewhere(connection, assignment.row) if before.gone_on else None
        if elsewhere is not None:
            gone_on = _content(assignment, texts.answered_elsewhere(elsewhere.to.channel))
            if position == 0 and before.drafted:
                drafts.finish(connection, key=f"{key}:here", turn=turn.id, message=row, content=gone_on)
            content = {**content, "reply": elsewhere.reply}
        elif position == 0 and before.drafted:
            last = drafts.finish(connection, key=key, turn=turn.id, message=row, content=content)
            if last is not None:
                continue
        last = outbox.queue(
            connection,
            key=key,
            principal=turn.principal,
            turn=turn.id,
            inbox=row,
            to=elsewhere.to if elsewhere else assignment.address,
            content=content,
            is_new=position == 0 and not before.closed and not before.queued,
            # They are numbered in order: of what is written together, only one may be.
            beside=beside if position == len(replies) - 1 else None,
        )
    return last


def look(connection: Connection, turn: Turn, most: int) -> Before:
    """How things stand before the replies of a turn are queued; ``most``: see ``turn_ends``."""
    return turn_ends.look(connection, turn.principal, turn.id, _key(turn, "0"), most)


def queue(connection: Connection, turn: Turn, assignment: Assignment, position: str, text: str) -> None:
    """Queue one thing said beside the replies, where the message came from."""
    outbox.queue(
        connection,
        key=_key(turn, position),
        principal=turn.principal,
        turn=turn.id,
        inbox=assignment.row.id,
        to=assignment.address,
        content=_content(assignment, text),
    )


def _key(turn: Turn, position: str) -> str:
    return f"{turn.id.hex}:{position}"


def _content(assignment: Assignment, text: str) -> dict[str, Any]:
    return {"text": text, "reply": dict(assignment.reply)}

"""Questions of the agent to its person: what a turn ended with in ``waiting``, and what answers it.

A question is an approval's row of a kind of its own: with buttons where there are choices, answered once, for weeks and
through any restart. In words it is answered by the next thing said where it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from sqlalchemy import Connection

from agent.ask_tool import ASKS
from sandbox_runner import replying
from sandbox_runner.turn_in_hand import Turn
from workspace_store import approvals, inbox
from workspace_store import questions as rows
from workspace_store.approvals import Approval, Choice, Place
from workspace_store.inbox import Row
from workspace_store.statements import Together
from workspace_store.turn_ends import Before

ASK_SECONDS = 60 * 86400.0


def asked_in(returned: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The question in a tool's recorded result."""
    found = returned.get(ASKS)
    return found if isinstance(found, Mapping) else None


def queue(
    connection: Connection, turn: Turn, asks: Mapping[str, Any], replies: Mapping[str, str],
    files: Sequence[Mapping[str, Any]], before: Before, beside: Together,
) -> None:  # fmt: skip
    """Queue the replies of a turn, the last of which asks, with its buttons; and the row that the answer decides."""
    row = turn.rows[-1]
    choices = tuple(
        Choice(str(number), label, "approve", label) for number, label in enumerate(map(str, asks["choices"]), 1)
    )
    made = approvals.request(
        connection,
        key=f"question:{turn.id.hex}",
        kind=rows.QUESTION,
        principal=turn.principal,
        at=Place(turn.assignments[-1].address, inbox.reply_later(row), row.actor),
        request=dict(asks),
        text=str(asks["question"]),
        choices=choices,
        turn=turn.id,
        message=row.id,
        resumes=True,
        seconds=ASK_SECONDS,
        under=turn.lease,
        posted=True,
    )
    last = replying.queue_replies(
        connection, turn, replies, files, before, beside, approvals.buttons(made.code, choices)
    )
    if last is not None:
        rows.posted_as(connection, made.id, last)


def answer_in_words(connection: Connection, waiting: Sequence[Approval], row: Row) -> Approval | None:
    """The question that a message answers, settled by it; None: none was asked where it was said."""
    if row.kind != "message":
        return None
    here = [one for one in waiting if one.kind == rows.QUESTION and astuple(one.place.address) == row.strand]
    for one in here:
        rows.answered_in_words(connection, one, row.actor)
    return here[-1] if here else None

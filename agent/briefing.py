"""The self-briefing: what was done, is promised, waits, and has changed since; from rows and the journal, no model.

The same words for the agent when it wakes and for the person who asks ``/status``. Constant work: the newest turn, the
newest events after it, what is open; nothing here reads a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent import briefing_texts as texts
from agent import standing, task_texts
from agent.standing import Standing
from agent.trajectory import Said
from workspace_store import checkpoints, journal, memory, spending
from workspace_store.database import now_us

EVENTS = 200
"""Of what happened since the last turn, the newest are looked at."""
LINES = 12
WORDS = 160
WINDOW = 1 << 20
"""What stands is read as for a context that all of it fits."""
NOTES = 10
REST_SECONDS = 300.0
"""After so long a pause the agent is briefed in full, as somebody who comes back."""

Tell = Callable[[Mapping[str, Any]], str]
TOLD: Mapping[str, Tell] = {
    "task.ended": texts.task_ended,
    "sandbox.slept": texts.slept,
    "workspace.restored": texts.restored,
    "approval.decided": texts.approval_decided,
    "effect.settled": texts.effect,
    "identity.linked": texts.linked,
    "identity.unlinked": texts.unlinked,
    "message.set_aside": texts.set_aside,
    "reply.failed": texts.reply_failed,
}
"""What of the journal is news to whoever comes back, and how it is said; an empty text says nothing."""


@dataclass(frozen=True)
class Briefing:
    """``done_at``: when the last turn ended, microseconds; None: there was none."""

    done_at: int | None = None
    done: Sequence[str] = ()
    planned: Sequence[str] = ()
    promised: Sequence[str] = ()
    waiting: Sequence[str] = ()
    changed: Sequence[str] = ()
    spent: spending.Spent | None = None
    now: int = field(default_factory=now_us)

    @property
    def rested(self) -> bool:
        """It is a while since the last turn."""
        return self.done_at is not None and self.now - self.done_at > REST_SECONDS * 1e6

    def lines(self, *, whole: bool) -> Iterator[str]:
        """For the agent, which has what stands before it anyway; ``whole``: it comes back after a while."""
        if self.done_at is not None and (whole or self.rested):
            yield texts.last_turn(self.done_at, self.now)
        if whole:
            yield from (texts.done(line) for line in self.done)
        yield from (texts.changed(line) for line in self.changed)

    def shown(self) -> list[str]:
        """For a person: all of it, a line each."""
        return [
            *(texts.done(line) for line in self.done),
            *(texts.planned(line) for line in self.planned),
            *(texts.promised(line) for line in self.promised),
            *(texts.waiting(line) for line in self.waiting),
            *(texts.changed(line) for line in self.changed),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "done_at": None if self.done_at is None else self.done_at / 1e6, "done": list(self.done),
            "planned": list(self.planned), "promised": list(self.promised), "waiting": list(self.waiting),
            "changed": list(self.changed), "spent_usd": None if self.spent is None else self.spent.micro_usd / 1e6,
        }  # fmt: skip


def read(connection: Connection, owner: UUID, stands: Standing | None = None) -> Briefing:
    """What there is to say about a principal now. ``stands``: where it was read already."""
    now = standing.read(connection, owner, WINDOW) if stands is None else stands
    records = checkpoints.newest_turns(connection, owner, 1)
    last = records[0] if records else None
    since = last.seq if last else 0
    events = journal.read(connection, owner, after=since, limit=EVENTS, newest=True)
    return Briefing(
        done_at=last.at if last else None,
        done=list(_done([Said.from_json(item) for item in last.messages])) if last else [],
        planned=[_short(task_texts.standing_task(task)) for task in now.tasks[:LINES]],
        promised=[_short(commitment.body) for commitment in now.commitments[:LINES]],
        waiting=[texts.approval(found) for found in now.approvals[:LINES]],
        changed=_changed(connection, owner, events, last.at if last else None),
        spent=spending.of_today(connection, owner),
    )


def _done(turn: Sequence[Said]) -> Iterator[str]:
    """The first thing asked and the last thing answered."""
    asked = next((said.text for said in turn if said.role == "user" and said.text.strip()), "")
    answered = next((said.text for said in reversed(turn) if said.role == "assistant" and said.text.strip()), "")
    if asked:
        yield texts.asked(_short(asked))
    if answered:
        yield texts.answered(_short(answered))


def _changed(connection: Connection, owner: UUID, events: Sequence[journal.Recorded], since: int | None) -> list[str]:
    lines = [_short(TOLD[event.kind](event.body)) for event in events if event.kind in TOLD and event.body]
    if since is not None:
        # Whatever the last turn did not write itself: it has not read it.
        fresh = [note for note in memory.notes(connection, owner, NOTES) if note.at > since]
        lines += [texts.noted(_short(note.body)) for note in reversed(fresh)]
    lines = list(dict.fromkeys(filter(None, lines)))
    left_out = len(lines) - LINES
    return lines if left_out <= 0 else [*lines[-LINES:], texts.more(left_out)]


def _short(text: str) -> str:
    words = " ".join(text[: 4 * WORDS].split())
    return words if len(words) <= WORDS else f"{words[:WORDS]}…"


def clock(now: int) -> str:
    """The first line of every status bar."""
    return texts.clock(datetime.fromtimestamp(now / 1e6, UTC))

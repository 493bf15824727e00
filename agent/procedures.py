"""Runbooks: what a failed task taught, kept by what was aimed at and told when the like is aimed at again.

Each failure adds its line to the runbook of its kind of task, as a new note that supersedes the one before.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from agent import texts
from workspace_store import journal, memory, sensitive
from workspace_store.database import now_us
from workspace_store.journal import Event
from workspace_store.memory import Note
from workspace_store.memory_index import plain
from workspace_store.stop_words import STOP_WORDS

ALIKE = 0.4
"""How many of the words of two goals must be the same, of all words in either."""
RUNBOOKS = 200
LINES = 12
REASON_CHARACTERS = 400


def runbook_for(connection: Connection, owner: UUID, goal: str) -> Note | None:
    """The runbook of the task most like this one, if one is like it."""
    wanted = _words(goal)
    best: tuple[float, Note] | None = None
    for note in memory.of_kind(connection, owner, "runbook", RUNBOOKS):
        likeness = _likeness(wanted, _words(texts.goal_of_runbook(note.body)))
        if likeness >= ALIKE and (best is None or likeness > best[0]):
            best = (likeness, note)
    return best[1] if best else None


def postmortem(connection: Connection, owner: UUID, *, key: str, goal: str, reason: str, turn: UUID | None) -> UUID:
    """Add what went wrong to the runbook for such tasks; the same ``key`` again is the same failure."""
    identifier = memory.identifier_of(key)
    if memory.find(connection, owner, identifier.hex):
        return identifier
    before = runbook_for(connection, owner, goal)
    today = f"{datetime.fromtimestamp(now_us() / 1e6, UTC):%Y-%m-%d}"
    lines = texts.lines_of_runbook(before.body) if before else []
    why = " ".join(sensitive.redacted(reason).split())[:REASON_CHARACTERS]
    lines = [*lines, texts.failure(today, why)][-LINES:]
    known_as = texts.goal_of_runbook(before.body) if before else " ".join(sensitive.redacted(goal).split())
    body = texts.runbook(known_as, lines)
    told = {"note": identifier.hex, "text": body, "source": "postmortem"}
    seq = journal.append(connection, owner, [Event("memory.written", told)], under=None)
    return memory.write_note(
        connection, owner, key, body, turn, kind="runbook", source="postmortem", confidence=0.9,
        subject=f"runbook {plain(known_as)}", supersedes=[before.id] if before else [], journaled=seq,
    )  # fmt: skip


def _words(goal: str) -> frozenset[str]:
    """A goal's words that say something; numbers differ from one time to the next."""
    return frozenset(word for word in plain(goal).split() if word not in STOP_WORDS and not word.isdigit())


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0

"""Assembling a context from what is stored: bounded reads, whatever the history; and folding old turns.

Reads the newest turn records and notes by index with a limit; nothing here scans a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from agent import texts
from agent.trajectory import (
    FOLDED_RECORDS,
    FOLDED_TOKENS,
    VERBATIM_TOKENS,
    VERBATIM_TURNS,
    Context,
    Said,
    count_turn,
    fold,
    within,
)
from workspace_store import checkpoints, memory
from workspace_store.database import now_us

FOLD_BATCH = 4
NOTES = 20


@dataclass(frozen=True)
class Seen:
    """What a wake reads."""

    recent: list[list[Said]]
    folded: list[str]
    notes: list[str]


def load(connection: Connection, owner: UUID) -> Seen:
    """The last turns word for word, the newest records before them, the newest notes."""
    records = checkpoints.newest_turns(connection, owner, VERBATIM_TURNS + FOLD_BATCH, folded=False)
    recent: list[list[Said]] = []
    budget = VERBATIM_TOKENS
    first = records[0].seq if records else 0
    spilled: list[str] = []
    for record in reversed(records):
        turn = [Said.from_json(item) for item in record.messages]
        budget -= record.tokens
        if budget < 0 and recent:
            spilled.insert(0, fold(turn))
        else:
            recent.insert(0, turn)
    before = first or (1 << 62)
    folds = [text for _, text in checkpoints.newest_folds(connection, owner, before, FOLDED_RECORDS)]
    notes = [note.body for note in memory.notes(connection, owner, NOTES)][::-1]
    return Seen(recent, within([*folds, *spilled], FOLDED_TOKENS), notes)


def build(seen: Seen, turn: Sequence[Said], briefing: Sequence[str]) -> Context:
    """A context in the cache-friendly order; what changes every time comes last."""
    now = datetime.fromtimestamp(now_us() / 1e6, UTC)
    return Context(
        policy=f"{texts.POLICY}\n\n{texts.ROOM}" if any(said.speaker for said in turn) else texts.POLICY,
        notes=list(seen.notes),
        folded=list(seen.folded),
        recent=list(seen.recent),
        turn=list(turn),
        status=f"It is {now:%Y-%m-%d %H:%M} UTC.",
        briefing=list(briefing),
    )


def tokens_of(turn: Sequence[Said]) -> int:
    return count_turn(turn)


def folding_due(connection: Connection, owner: UUID) -> bool:
    """Whether a batch of turns has grown old enough to be folded."""
    limit = VERBATIM_TURNS + FOLD_BATCH
    return checkpoints.unfolded(connection, owner, limit) >= limit


def fold_old_turns(connection: Connection, owner: UUID) -> list[tuple[int, str]]:
    """Fold the turns before the last ``VERBATIM_TURNS`` and make them findable; (seq, record) of each."""
    return _fold(connection, owner, VERBATIM_TURNS)


def fold_all_turns(connection: Connection, owner: UUID) -> list[tuple[int, str]]:
    """Fold a batch of what is left, the last turns too, for an owner who will have no more; nothing: all is folded."""
    return _fold(connection, owner, 0)


def _fold(connection: Connection, owner: UUID, verbatim: int) -> list[tuple[int, str]]:
    records = checkpoints.newest_turns(connection, owner, verbatim + 4 * FOLD_BATCH, folded=False)
    folded = []
    for record in records[: max(0, len(records) - verbatim)]:
        turn = [Said.from_json(item) for item in record.messages]
        text = fold(turn)
        checkpoints.fold(connection, owner, record.seq, text)
        memory.index(connection, owner, "turn", str(record.turn), text, record.at)
        folded.append((record.seq, text))
    return folded

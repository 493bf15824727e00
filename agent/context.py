"""Assembling a context from what is stored: bounded reads, whatever the history; and folding old turns.

Reads the newest turn records and notes by index with a limit; nothing here scans a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from agent import standing, texts
from agent.standing import NOTHING, Standing
from agent.tool import NO_TOOLS, Tools
from agent.trajectory import (
    FOLDED_RECORDS,
    FOLDED_SHARE,
    VERBATIM_SHARE,
    VERBATIM_TURNS,
    Context,
    Said,
    count_turn,
    fold,
    within,
)
from workspace_store import checkpoints, memory, waking
from workspace_store.checkpoints import TurnRecord
from workspace_store.database import now_us

FOLD_BATCH = 4
NOTES = 20
NEW_NOTES = 44


@dataclass(frozen=True)
class Seen:
    """What a wake reads. ``new_notes`` were written since the oldest turn that is still told word for word."""

    recent: list[list[Said]]
    folded: list[str]
    notes: list[str]
    new_notes: list[str]
    standing: Standing = NOTHING


def load(connection: Connection, owner: UUID, window: int) -> Seen:
    """The last turns word for word, the newest records before them, the newest notes, as fits ``window`` tokens.

    What comes first changes only with a folding, so that a provider's cache holds from turn to turn: turns that no
    longer fit go in batches, and notes stay where they were read first.
    """
    records, stands = waking.unfolded(connection, owner, VERBATIM_TURNS + FOLD_BATCH)
    spilling = _too_many(records, window * VERBATIM_SHARE // 100)
    first = records[0].seq if records else 0
    since = records[spilling].at if spilling < len(records) else now_us()
    told = [[Said.from_json(item) for item in record.messages] for record in records]
    before = first or (1 << 62)
    folds = [text for _, text in checkpoints.newest_folds(connection, owner, before, FOLDED_RECORDS)]
    folds += [fold(turn) for turn in told[:spilling]]
    found = memory.notes(connection, owner, NOTES + NEW_NOTES)[::-1]
    old = [note.body for note in found if note.at < since][-NOTES:]
    new = [note.body for note in found if note.at >= since]
    kept = within(folds, window * FOLDED_SHARE // 100)
    return Seen(told[spilling:], kept, old, new, standing.read(connection, owner, window) if stands else NOTHING)


def _too_many(records: Sequence[TurnRecord], budget: int) -> int:
    """How many of the oldest turns must go for the rest to fit; whole batches where that is enough."""
    left = sum(record.tokens for record in records)
    gone = 0
    while left > budget and gone < len(records) - 1:
        batch = records[gone : min(gone + FOLD_BATCH, len(records) - 1)]
        left -= sum(record.tokens for record in batch)
        gone += len(batch)
    return gone


def build(seen: Seen, turn: Sequence[Said], briefing: Sequence[str], tools: Tools = NO_TOOLS) -> Context:
    """A context in the cache-friendly order; what changes every time comes last."""
    now = datetime.fromtimestamp(now_us() / 1e6, UTC)
    return Context(
        policy=f"{texts.POLICY}\n\n{texts.ROOM}" if any(said.speaker for said in turn) else texts.POLICY,
        standing=seen.standing.lines(),
        notes=list(seen.notes),
        folded=list(seen.folded),
        recent=list(seen.recent),
        turn=list(turn),
        status=f"It is {now:%Y-%m-%d %H:%M} UTC.",
        briefing=[*briefing, *map(texts.new_note, seen.new_notes)],
        tools=tools,
    )


def tokens_of(turn: Sequence[Said]) -> int:
    return count_turn(turn)


def folding_due(connection: Connection, owner: UUID) -> bool:
    """Whether a batch of turns has grown old enough to be folded."""
    limit = VERBATIM_TURNS + FOLD_BATCH
    return checkpoints.unfolded(connection, owner, limit) >= limit


def fold_old_turns(connection: Connection, owner: UUID) -> list[tuple[int, str]]:
    """Fold the turns before the last ``VERBATIM_TURNS``; (seq, record) of each."""
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
        folded.append((record.seq, text))
    return folded

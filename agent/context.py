"""Assembling a context from what is stored: bounded reads, whatever the history.

Reads the newest turn records and notes by index with a limit; nothing here scans a history.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from agent import standing, texts
from agent.folding import fold
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
    within,
)
from workspace_store import checkpoints, context_heads, memory, waking
from workspace_store.checkpoints import TurnRecord
from workspace_store.database import to_json

FOLD_BATCH = 4
NOTES = 20
RECORD_TOKENS = 20
"""Hardly a record is shorter: no more of them are read than can fit."""


@dataclass(frozen=True)
class Seen:
    """What a wake reads: the last turns word for word, and before them the head, which stays until a folding."""

    recent: list[list[Said]] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    """What stood when the head was put together; what has changed of it since is told with the messages."""
    standing: Standing = NOTHING
    """What stands now."""


def load(connection: Connection, owner: UUID, window: int) -> Seen:
    """The last turns word for word and the head before them, as fits ``window`` tokens. Within a write.

    The head is frozen where it was put together, so that what an engine reads of one turn is the beginning of what it
    reads of the next: it is made anew only when turns are folded into it, because they are old or no longer fit.
    """
    records, stands = waking.unfolded(connection, owner, VERBATIM_TURNS + FOLD_BATCH)
    now = standing.read(connection, owner, window) if stands else NOTHING
    head = context_heads.find(connection, owner)
    upto = head.upto if head else -1
    told = [record for record in records if record.seq > upto]
    most = window * VERBATIM_SHARE // 100
    if head is None or sum(record.tokens for record in told) > most:
        return _with_new_head(connection, owner, records, now, window)
    body = json.loads(head.body)
    return Seen([said_of(record) for record in told], body["folded"], body["notes"], body["standing"], now)


def _with_new_head(connection: Connection, owner: UUID, records: list[TurnRecord], now: Standing, window: int) -> Seen:
    """Put a head together of what stands, the newest notes and the records of all but the last turns, and freeze it."""
    spilling = _too_many(records, window * VERBATIM_SHARE // 100)
    before = records[0].seq if records else (1 << 62)
    budget = window * FOLDED_SHARE // 100
    older = checkpoints.newest_folds(connection, owner, before, min(FOLDED_RECORDS, budget // RECORD_TOKENS + 1))
    older += [(record.seq, texts.record(record.turn, fold(said_of(record)))) for record in records[:spilling]]
    folded = within([text for _, text in older], budget)
    notes = [note.body for note in memory.notes(connection, owner, NOTES)][::-1]
    upto = older[-1][0] if older else 0
    frozen = now.lines()
    context_heads.keep(connection, owner, upto, to_json({"standing": frozen, "notes": notes, "folded": folded}))
    return Seen([said_of(record) for record in records[spilling:]], folded, notes, frozen, now)


def said_of(record: TurnRecord) -> list[Said]:
    return [Said.from_json(item) for item in record.messages]


def _too_many(records: Sequence[TurnRecord], budget: int) -> int:
    """How many of the oldest turns must go for the rest to fit; whole batches where that is enough."""
    left = sum(record.tokens for record in records)
    gone = 0
    while left > budget and gone < len(records) - 1:
        batch = records[gone : min(gone + FOLD_BATCH, len(records) - 1)]
        left -= sum(record.tokens for record in batch)
        gone += len(batch)
    return gone


def build(seen: Seen, turn: Sequence[Said], tools: Tools = NO_TOOLS) -> Context:
    """A context in the cache-friendly order. What changes from turn to turn rides with the turn's own message."""
    in_room = any(said.speaker for one in (*seen.recent, turn) for said in one)
    return Context(
        policy=f"{texts.POLICY}\n\n{texts.ROOM}" if in_room else texts.POLICY,
        notes=list(seen.notes),
        folded=list(seen.folded),
        recent=list(seen.recent),
        turn=list(turn),
        standing=list(seen.frozen),
        tools=tools,
    )


def tokens_of(turn: Sequence[Said]) -> int:
    return count_turn(turn)

"""Folding old turns after the reply: each becomes a record once, with its facts kept for exact look-up, and the context
that the next turn will read is put together and checked in the same transaction. What does not pass is not done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from agent import context, texts
from agent import facts as finding
from agent.checker import CheckFailed, Missing, check, check_record, words_of
from agent.context import FOLD_BATCH, said_of
from agent.facts import Fact
from agent.folding import fold
from agent.trajectory import VERBATIM_TURNS, Said
from workspace_store import checkpoints, commitments, context_heads
from workspace_store import facts as kept_facts
from workspace_store.checkpoints import TurnRecord
from workspace_store.database import now_us

REST_US = 3600 * 1_000_000
"""How long folding rests after so many failed checks in a row, before it is tried once more."""

LIMIT = VERBATIM_TURNS + FOLD_BATCH
"""So many turns that are not folded have one batch too many."""

Check = Callable[[str, Sequence[str], Sequence[Fact], Callable[[Fact], bool]], list[Missing]]
SPEAKING_OF_PROMISES = frozenset({"promise", "promise_done", "recall", "task_start", "task_claim", "task_drop", "plan"})
"""A turn that used one of these made its promises as such, or spoke of earlier ones."""


@dataclass(frozen=True)
class Folded:
    """``turns``: seq of each; ``noticed``: promises found in them that will stand from now on."""

    turns: Sequence[int] = ()
    noticed: Sequence[commitments.Commitment] = ()


def due(connection: Connection, owner: UUID, unfolded: int | None = None) -> bool:
    """Whether a batch of turns has grown old enough to be folded, and folding has not stopped.

    ``unfolded``: how many are not folded, up to ``LIMIT``, where that is known.
    """
    if unfolded is None:
        unfolded = checkpoints.unfolded(connection, owner, LIMIT)
    if unfolded < LIMIT:
        return False
    trouble = kept_facts.trouble(connection, owner)
    return trouble is None or trouble.failures < kept_facts.BREAKER or now_us() - trouble.at > REST_US


def to_fold(connection: Connection, owner: UUID, verbatim: int = VERBATIM_TURNS) -> list[TurnRecord]:
    """The turns that a folding would fold now, oldest first."""
    records = checkpoints.newest_turns(connection, owner, verbatim + 4 * FOLD_BATCH, folded=False)
    return records[: max(0, len(records) - verbatim)]


def fold_old(
    connection: Connection,
    owner: UUID,
    window: int | None,
    *,
    verbatim: int = VERBATIM_TURNS,
    written: Mapping[int, str] | None = None,
    check: Check = check,
) -> Folded:
    """Fold the turns before the last ``verbatim``. Raises CheckFailed: then nothing of the transaction may be kept.

    ``window``: what the owner's engine reads, in tokens; None: it reads no earlier turns. ``written``: records that a
    model made, by seq; those that cannot be believed are made by rule.
    """
    records = to_fold(connection, owner, verbatim)
    if not records:
        return Folded()
    facts: list[Fact] = []
    noticed: list[commitments.Commitment] = []
    extracts: dict[int, str] = {}
    by_turn: dict[int, list[tuple[str, str]]] = {}
    for record in records:
        turn = said_of(record)
        found = finding.of_turn(turn)
        text = _record(turn, found, (written or {}).get(record.seq))
        extracts[record.seq] = texts.record(record.turn, text)
        by_turn[record.seq] = [(fact.kind, fact.value) for fact in found]
        noticed += _notice(connection, owner, record, turn, found)
        facts += found
    checkpoints.fold_all(connection, owner, extracts)
    kept_facts.write_all(connection, owner, by_turn)
    context_heads.drop(connection, owner)
    seqs = [record.seq for record in records]
    words, standing = "", list[str]()
    if window is not None:
        seen = context.load(connection, owner, window)
        words, standing = words_of(context.build(seen, [])), seen.standing.must_hold()
    held = kept_facts.held(connection, owner, seqs)
    lost = check(words, standing, facts, lambda fact: (fact.kind, fact.value) in held)
    if lost:
        raise CheckFailed(lost)
    return Folded(seqs, noticed)


def fold_all(connection: Connection, owner: UUID) -> Folded:
    """Fold a batch of what is left, the last turns too, for an owner who will have no more. Raises CheckFailed."""
    return fold_old(connection, owner, None, verbatim=0)


def _record(turn: Sequence[Said], facts: Sequence[Fact], written: str | None) -> str:
    extract = fold(turn, facts)
    if written is None or check_record(written, turn, extract):
        return extract
    return written


def _notice(
    connection: Connection, owner: UUID, record: TurnRecord, turn: Sequence[Said], facts: Sequence[Fact]
) -> list[commitments.Commitment]:
    """Promises that were only said: from here on they stand like those that were made as such."""
    made = {call["name"] for said in turn for call in said.data.get("calls", ())}
    if made & SPEAKING_OF_PROMISES:
        return []
    return [
        commitments.make(
            connection, owner, f"{record.turn.hex}:said:{number}", fact.value, turn=record.turn, noticed=True
        )
        for number, fact in enumerate(facts)
        if finding.lasting(fact) and not commitments.is_known(connection, owner, fact.value)
    ]

"""The five ways in which going on from what was recorded can go wrong, each found by a check with a name.

What is provably repairable is repaired and told; otherwise nothing is done, and a person reads what they can do. Never
acts on a state that never existed. Where each check stands is in docs/explanation/restore-failures.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import Connection

from agent.engine import ToolCall
from sandbox_runner import restore_texts as texts
from sandbox_runner.egress.rules import SAFE_METHODS
from sandbox_runner.resume import Recorded
from workspace_store import checkpoints, effects, journal, tenancy
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs
from workspace_store.database import Database
from workspace_store.effects import Effect
from workspace_store.inbox import Row
from workspace_store.journal import Event

if TYPE_CHECKING:
    from sandbox_runner.turn_in_hand import Turn

LINKS = 5000
"""Of the journal, at most so many of the newest events are looked at."""


class Check(StrEnum):
    """The five checks."""

    INCOMPLETE = "incomplete_state"
    INCONSISTENT = "inconsistent_state"
    STALE = "stale_dependency"
    NONDETERMINISTIC = "nondeterministic_replay"
    UNRECORDED = "unrecorded_effect"


@dataclass(frozen=True)
class Problem:
    """What a check found, in words for a person. ``repaired``: the work went on."""

    check: Check
    text: str
    repaired: bool = True

    def event(self) -> Event:
        return Event("restore.checked", {"check": str(self.check), "text": self.text, "repaired": self.repaired})


def refusal(connection: Connection, row: Row) -> Problem | None:
    """Why nothing may be done for a message: the records it would go on from are not whole, or contradict each other.

    Reads the links of the journal since the last checkpoint, or since the turn of ``row`` began.
    """
    owner, resumed = row.principal, row.turn is not None
    last = checkpoints.latest(connection, owner)
    head, _ = journal.head(connection, owner)
    if last is not None and last.seq > head:
        return _refused(Check.INCONSISTENT, texts.checkpoint_ahead(last.seq, head), resumed)
    committed = tenancy.look(connection, owner).generation
    if last is not None and last.generation != committed:
        return _refused(Check.INCONSISTENT, texts.generations_differ(last.generation, committed), resumed)
    since = last.seq if last is not None else 0
    if row.turn is not None:
        since = min(since, max(0, (journal.first_of(connection, owner, row.turn) or since + 1) - 1))
    _, faults = journal.verify(connection, owner, after=max(since, head - LINKS))
    if faults:
        return _refused(Check.INCOMPLETE, texts.fault(faults[0].seq, faults[0].what), resumed)
    if row.turn is not None and (cut := _cut_request(connection, owner, row.turn)):
        return _refused(Check.INCOMPLETE, texts.fault(cut, texts.CUT), resumed)
    return None


def _refused(check: Check, what: str, resumed: bool) -> Problem:
    return Problem(check, texts.not_gone_on(what) if resumed else texts.not_begun(what), repaired=False)


def _cut_request(connection: Connection, owner: UUID, turn: UUID) -> int | None:
    """A tool was requested, and nothing says which: it must not be taken for one that was not."""
    events = journal.read(connection, owner, turn=turn)
    return next((event.seq for event in events if event.kind == "tool.requested" and event.body is None), None)


async def lost_outputs(recorded: Recorded, blobs: Blobs, owner: UUID) -> list[Problem]:
    """Recorded results whose whole output is not kept any more: what was kept of them beside it stands, and says so."""
    found = []
    for call, body in recorded.returned.items():
        if not body.get("blob"):
            continue
        try:
            await asyncio.to_thread(blobs.get, owner, str(body["blob"]))
        except (BlobMissing, BlobCorrupt, OSError) as error:
            recorded.remarks[call] = texts.output_lost(str(error))
            found.append(Problem(Check.INCOMPLETE, texts.output_lost(str(error))))
    return found


async def check(turn: Turn, database: Database, blobs: Blobs) -> None:
    """What was recorded of a turn that was cut off, against what is kept and what the egress ledger says."""
    for problem in await lost_outputs(turn.recorded, blobs, turn.principal):
        turn.found(problem)
    outside = unrecorded(turn.recorded, await database.read(partial(effects.of_turn, turn=turn.id)))
    if outside:
        problem = Problem(Check.UNRECORDED, texts.unrecorded(outside))
        turn.found(problem)
        turn.tell_beside(problem.text)


def unrecorded(recorded: Recorded, ledger: Sequence[Effect]) -> list[Effect]:
    """What the egress ledger says went out in a turn, and no recorded step of it accounts for.

    A tool that is closed as uncertain says by itself what went out meanwhile.
    """
    if recorded.uncertain:
        return []
    return [
        effect
        for effect in ledger
        # A team's own tool is written down with its request, in one transaction.
        if effect.proxy != effects.TOOLS
        and effect.method not in SAFE_METHODS
        and effect.status != "refused"
        and (effect.at > recorded.last_returned_at or effect.id.hex not in recorded.intended)
    ]


def adopt(turn: Turn, call: ToolCall) -> None:
    """Let a call of an engine that had to be asked again stand for an equal request that was recorded before.

    A different one is a new effect, and says so.
    """
    recorded = turn.recorded
    if call.id in recorded.requested:
        return
    orphans = recorded.orphans
    for former, body in orphans.items():
        if body["name"] == call.name and body.get("arguments") == dict(call.arguments):
            recorded.requested[call.id] = recorded.requested.pop(former)
            if former in recorded.returned:
                recorded.returned[call.id] = recorded.returned.pop(former)
            recorded.rolled_back.update({call.id} if former in recorded.rolled_back else ())
            turn.found(Problem(Check.NONDETERMINISTIC, texts.asked_equally(call.name, call.arguments)))
            return
    tool = turn.offer.tools.get(call.name)
    if orphans and (tool is None or tool.repetition == "once"):
        before = [(str(body["name"]), body.get("arguments", {})) for body in orphans.values()]
        recorded.remarks[call.id] = texts.asked_differently(call.name, call.arguments, before)
        turn.found(Problem(Check.NONDETERMINISTIC, recorded.remarks[call.id]))

"""Putting together what rides with a turn's message: how things stand, as the database and the volume have it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from sqlalchemy import Connection

from agent import briefing as briefings
from agent import briefing_texts as texts
from agent import exact
from agent import texts as agent_texts
from agent.briefing import Briefing
from agent.compaction import TURNS_KEPT
from agent.context import Seen
from agent.preface import Preface, changes_of_standing, recalled_in
from agent.sandbox import SandboxError
from agent.trajectory import Said
from sandbox_runner.host import TurnSandbox
from sandbox_runner.sandboxes import Look
from sandbox_runner.turn_in_hand import Turn
from workspace_store import memory
from workspace_store.database import DatabaseUnavailable

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""A status bar is not worth a longer wait for a sandbox manager that is just being started again."""
RECALLED = 5
RECALLED_CHARACTERS = 1500
WORDS_LOOKED_FOR = 500
TASKS_NAMED = 5
TASK_CHARACTERS = 80


async def preface(turn: Turn, found: Briefing, sandbox: TurnSandbox, daily_budget_usd: float | None) -> Preface:
    """What rides with the newest message of a turn; never waits long, never fails."""
    look, recalled = await asyncio.gather(_look(sandbox), _recalled(turn, sandbox))
    row, seen = turn.rows[-1], turn.seen
    skills = _skills(look, seen.recent)
    opened, closed = changes_of_standing(seen.frozen, seen.recent, [*seen.standing.lines(), *skills])
    lines = [briefings.clock(found.now), texts.channel(row.channel, bool(row.thread))]
    if look is not None and look.directory:
        lines.append(texts.directory(look.directory))
    if look is not None and look.tasks:
        named = [task[:TASK_CHARACTERS] for task in look.tasks[:TASKS_NAMED]]
        lines.append(texts.tasks(named))
    if daily_budget_usd is not None and found.spent is not None:
        lines.append(texts.budget(found.spent.micro_usd, daily_budget_usd))
    lines += [*found.lines(whole=found.rested), *turn.offer.notes]
    return Preface(recalled=recalled, status=lines, opened=opened, closed=closed)


def _skills(look: Look | None, recent: Sequence[Sequence[Said]]) -> list[str]:
    """Lines of the skills there are; without a look, of those that were told."""
    if look is not None:
        return [agent_texts.skill_line(name, description) for name, description in look.skills]
    told = dict.fromkeys(line for turn in recent for said in turn for line in Preface.of(said).opened)
    return [line for line in told if line.startswith(agent_texts.SKILL)]


async def _recalled(turn: Turn, sandbox: TurnSandbox) -> list[str]:
    """Notes that may matter to what was said, and what was said before of what it names, unless it is read anyway."""
    words = " ".join(assignment.text for assignment in turn.assignments)[:WORDS_LOOKED_FOR]
    seen = turn.seen

    def look(connection: Connection) -> list[str]:
        hits = memory.search(connection, turn.principal, words, RECALLED, kinds=("note",))
        fresh = [hit for hit in hits if hit.body not in seen.notes]
        notes = [" ".join(hit.body.split()) for hit in memory.within(fresh, RECALLED_CHARACTERS)]
        named = exact.said_of_named(connection, turn.principal, words, lambda: _surely_read(seen))
        return list(dict.fromkeys([*notes, *named[:RECALLED]]))

    try:
        found: list[str] = await sandbox.read(look)
    except DatabaseUnavailable:
        return []
    return found


def _surely_read(seen: Seen) -> str:
    """What no shortening takes from the context: records and older turns may go from it."""
    last = seen.recent[-TURNS_KEPT:]
    return "\n".join([*seen.notes, *(said.words for turn in last for said in turn), *recalled_in(last)])


async def _look(sandbox: TurnSandbox) -> Look | None:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await sandbox.look()
    except (SandboxError, TimeoutError) as error:
        log.info("the status bar goes without the sandbox", reason=str(error))
        return None

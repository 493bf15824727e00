"""What memory does after the replies, in the runner: turns become searchable, ended sessions are looked back at.

In small steps, with room between them for whoever waits for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy import Connection

from agent import looking_back
from agent.engine import Engine
from agent.looking_back import STANDING_NOTES
from workspace_store import memory, memory_index, memory_sessions, spending
from workspace_store.database import Database, DatabaseUnavailable, now_us
from workspace_store.memory_sessions import Session

log = structlog.get_logger()

LOOK_SECONDS = 1.0
BREATH_SECONDS = 0.02
QUIET_SECONDS = 0.25
PATIENCE_SECONDS = 2.0
STEPS_IN_A_ROW = 10
"""When it is never quiet: so many steps every ``PATIENCE_SECONDS``, so that nothing waits for ever."""
AGAIN_SECONDS = 600.0


@dataclass
class LookingBack:
    """``thinks``: the engine is a model. ``daily_budget_usd`` spent, it is done without one."""

    database: Database
    engine: Engine
    thinks: bool
    daily_budget_usd: float | None
    busy_at: Callable[[], float] = lambda: 0.0
    """When a turn ran here last, by the loop's time."""
    _steps: int = 0

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self._until_quiet()
            try:
                did = await self.make_findable() or await self.look_back()
                seconds = BREATH_SECONDS if did else LOOK_SECONDS
            except DatabaseUnavailable as error:
                seconds = LOOK_SECONDS
                log.warning("could not look back", reason=str(error))
            except Exception:
                seconds = LOOK_SECONDS
                log.exception("could not look back")
            await asyncio.sleep(seconds)

    async def _until_quiet(self) -> None:
        """Wait while turns run: what people wait for comes first, and turns are found without this as well."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        while (now := loop.time()) - self.busy_at() < QUIET_SECONDS and now < until:
            if self._steps:
                self._steps -= 1
                return
            await asyncio.sleep(QUIET_SECONDS)
        self._steps = STEPS_IN_A_ROW if now >= until else 0

    async def make_findable(self) -> bool:
        """The next few turns; False: all are. Their sessions are looked back at when they have ended."""
        if not await self.database.read(memory_index.any_turn_due, single=True):
            return False

        def index(connection: Connection) -> None:
            for owner in set(memory_index.index_turns(connection)):
                memory_sessions.spoken(connection, owner, now_us())

        await self.database.write(index)
        return True

    async def look_back(self) -> bool:
        """At the next session that is due; False: none is."""
        if not await self.database.read(memory_sessions.any_due, single=True):
            return False
        taken = await self.database.write(memory_sessions.take)
        if taken is None:
            return False
        try:
            await self._at(taken)
        except Exception:
            await self.database.write(partial(memory_sessions.put_off, taken=taken, seconds=AGAIN_SECONDS))
            raise
        return True

    async def _at(self, taken: Session) -> None:
        def know(connection: Connection) -> tuple[list[memory.Note], bool]:
            spent = spending.of_today(connection, taken.principal)
            allowed = (self.daily_budget_usd or 0) * 1e6 + spent.allowed_micro_usd
            affordable = self.daily_budget_usd is None or spent.micro_usd < allowed
            return memory.notes(connection, taken.principal, STANDING_NOTES), affordable

        standing, affordable = await self.database.read(know)
        found, paid = await looking_back.find(self.engine, self.thinks and affordable, taken, standing)
        await self.database.write(lambda connection: looking_back.write(connection, taken, found, paid))

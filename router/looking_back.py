"""Looks back at sessions that have ended, in the runner, when nobody waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy import Connection

from agent import looking_back
from agent.engine import Engine
from agent.looking_back import STANDING_NOTES
from workspace_store import memory, memory_sessions, spending
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.memory_sessions import Session

log = structlog.get_logger()

LOOK_SECONDS = 5.0
AGAIN_SECONDS = 600.0


@dataclass
class LookingBack:
    """``thinks``: the engine is a model. ``daily_budget_usd`` spent, it is done without one."""

    database: Database
    engine: Engine
    thinks: bool
    daily_budget_usd: float | None

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            try:
                while await self.look_back():
                    pass
            except DatabaseUnavailable as error:
                log.warning("could not look back", reason=str(error))
            except Exception:
                log.exception("could not look back")
            await asyncio.sleep(LOOK_SECONDS)

    async def look_back(self) -> bool:
        """At the next session that is due; False: none is."""
        if not await self.database.read(memory_sessions.any_due):
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

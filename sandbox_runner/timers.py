"""Running what sandboxes' crontabs say, when it is due: the sandbox is woken for it where it sleeps.

A line is moved on in the database before it is run, so it runs once, whichever host is quicker and whatever dies. What
was missed while nothing ran here runs once, and is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import structlog

from agent.sandbox import SandboxError
from sandbox_runner import crontab, texts
from sandbox_runner.guest_connection import GuestConnection
from sandbox_runner.seats import Seat, Seating
from workspace_store import tenancy as tenancies
from workspace_store import timers
from workspace_store.database import DatabaseUnavailable
from workspace_store.tenancy import StaleTenancy
from workspace_store.timers import Timer

log = structlog.get_logger()

LOOK_SECONDS = 2.0
AGAIN_SECONDS = 30.0
"""Until a line whose sandbox could not be woken is tried again."""

Wake = Callable[[UUID, object], Awaitable[GuestConnection]]
GiveBack = Callable[[UUID, object], Awaitable[None]]


@dataclass
class Timers:
    """``wake`` gives the guest of a sandbox that is awake, held by an object until ``give_back``."""

    seating: Seating
    wake: Wake
    give_back: GiveBack
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def keep(self) -> None:
        """Run what is due, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.run_due()
            except DatabaseUnavailable as error:
                log.warning("could not look for timers", reason=str(error))
            except Exception:
                log.exception("could not look for timers")

    async def run_due(self) -> None:
        """Start everything that is due now, and is for this host to run."""
        database = self.seating.database
        for found in await database.read(timers.due):
            held = await database.read(partial(tenancies.look, identifier=found.principal))
            if not self.seating.may_take(held):
                continue
            times = await database.write(partial(timers.claim, found=found))
            if times is not None:
                running = asyncio.create_task(self._run(found, times - 1))
                self._running.add(running)
                running.add_done_callback(self._running.discard)

    async def _run(self, found: Timer, missed: int) -> None:
        holder = object()
        try:
            guest = await self.wake(found.principal, holder)
            note = texts.timer_missed(found.line.command, missed) if missed else ""
            await guest.run_timer(found.line.command, found.line.environment, note)
        except SandboxError as error:
            log.warning("a timer could not be run", principal=str(found.principal), reason=str(error))
            await self.seating.database.write(lambda c: timers.postpone(c, found, AGAIN_SECONDS))
        finally:
            await self.give_back(found.principal, holder)

    async def changed(self, seat: Seat, guest: GuestConnection, text: str) -> None:
        """A crontab was written inside: keep its lines, and tell of those that will not run."""
        lines, problems = crontab.read(text)
        try:
            await self.seating.database.write(lambda connection: timers.replace(connection, seat.tenancy, lines))
        except (DatabaseUnavailable, StaleTenancy) as error:
            log.warning("a crontab could not be kept", principal=str(seat.principal), reason=str(error))
            problems.append(texts.CRONTAB_NOT_KEPT)
        if problems:
            await guest.note(problems)

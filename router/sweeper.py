"""The sweeper: every runner has one. It rings again what was lost, takes over what a dead runner left, and closes
approvals that nobody answered in time.

It serves what it finds in its own process, where a slot is free, so that a lost bell or a lost Redis costs a second or
two and no turn. A principal is looked at a second after its message came, and again after two; a dead owner's, and all
pending ones at the start, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import Connection

from workspace_store import approvals, inbox_counts, liveness, principal, unserved
from workspace_store.database import Database, DatabaseUnavailable, database_now_us

log = structlog.get_logger()

SWEEP_SECONDS = 1.0
RENEW_SECONDS = 3.0


@dataclass(frozen=True)
class Chore:
    """Something to do when its time has come: ``is_due`` is asked each second, by an index; ``do`` is a transaction."""

    is_due: Callable[[Connection], object]
    do: Callable[[Connection], object]


EXPIRY = Chore(approvals.any_due, approvals.expire_due)


@dataclass
class Sweeper:
    """``serve`` starts serving a principal in this process if a slot is free; ``held``: those it serves already."""

    owner: str
    database: Database
    lives: Path
    serve: Callable[[UUID], bool]
    held: Set[UUID]
    chores: tuple[Chore, ...] = ()
    leaving: bool = False
    """Leases in hand are renewed; all else is for other runners to find."""

    async def run(self) -> None:
        """Sweep until cancelled: everything pending at once, then each second."""
        again_after = 0
        renewed = 0.0
        while True:
            try:
                if asyncio.get_running_loop().time() - renewed > RENEW_SECONDS:
                    await self.database.write(lambda connection: principal.renew_leases(connection, self.owner))
                    renewed = asyncio.get_running_loop().time()
                if not self.leaving:
                    await self._sweep(again_after)
            except DatabaseUnavailable as error:
                log.warning("could not sweep", reason=str(error))
            except Exception:
                # Without a sweeper a lost bell is lost for good.
                log.exception("could not sweep")
            await asyncio.sleep(SWEEP_SECONDS)
            again_after = inbox_counts.RING_AGAIN_US

    async def _sweep(self, again_after: int) -> None:
        for chore in (EXPIRY, *self.chores):
            await self._do(chore)
        for found in await self.database.write(partial(self._find, again_after=again_after)):
            self.serve(found)

    async def _do(self, chore: Chore) -> None:
        """One that fails holds up no other. Raises DatabaseUnavailable."""
        try:
            if await self.database.read(chore.is_due):
                await self.database.write(chore.do)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("a chore failed", chore=getattr(chore.do, "__name__", ""))

    def _find(self, connection: Connection, again_after: int) -> list[UUID]:
        waiting = unserved.with_mail(connection, database_now_us(connection) - again_after)
        for owner, expired in unserved.owners(connection):
            if owner == self.owner:
                # A turn that ended without giving its lease back (the database was gone) is taken up again.
                waiting += [found for found in unserved.owned_by(connection, owner) if found not in self.held]
            elif liveness.is_dead(self.lives, owner, expired=expired):
                waiting += unserved.owned_by(connection, owner)
        unserved.rung(connection, waiting)
        return waiting

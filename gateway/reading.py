"""One reader: of several gateways, the one that reads a source which serves only one at a time.

The others stand by, and take over at once when its process has died, or when its lease has run out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from sqlalchemy.exc import IntegrityError

from workspace_store import liveness, readers
from workspace_store.database import Database, DatabaseUnavailable

log = structlog.get_logger()

RENEW_SECONDS = 3.0
LOOK_SECONDS = 1.0
MARGIN_SECONDS = 2.0


class Reading(Protocol):
    """The right to read."""

    async def while_ours(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        """Run ``read`` whenever the right to ``name`` is ours, until cancelled; it is cancelled when that has gone."""
        ...


class Alone:
    """For a gateway that knows of no other."""

    async def while_ours(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        await read()


@dataclass
class OneReader:
    """``holder``: the gateway's id, alive by its lock under ``lives``."""

    database: Database
    lives: Path
    holder: str

    async def while_ours(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        try:
            while True:
                if await self._hold(name):
                    await self._read(name, read)
                else:
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            with contextlib.suppress(DatabaseUnavailable):
                await asyncio.shield(self.database.write(partial(readers.leave, name=name, holder=self.holder)))

    async def _read(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        reading = asyncio.ensure_future(read())
        renewed = asyncio.get_running_loop().time()
        try:
            while True:
                done, _ = await asyncio.wait({reading}, timeout=RENEW_SECONDS)
                if done:
                    return reading.result()
                held = await self._hold(name)
                now = asyncio.get_running_loop().time()
                if held:
                    renewed = now
                elif held is False or now - renewed > readers.LEASE_SECONDS - MARGIN_SECONDS:
                    log.warning("another gateway reads this now", source=name)
                    return None
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _hold(self, name: str) -> bool | None:
        """Whether it is ours; None: the database does not say."""
        hold = partial(readers.hold, name=name, holder=self.holder, is_dead=partial(liveness.is_dead, self.lives))
        try:
            return await self.database.write(hold)
        except IntegrityError:
            return False
        except DatabaseUnavailable as error:
            log.warning("could not look who reads", source=name, reason=str(error))
            return None

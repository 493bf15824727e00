"""How long generations of a volume are kept: by count, by age and by the space that all of them take.

Runs when a sandbox has gone to sleep, off any turn's path. The database forgets first, then the volume: a crash between
leaves files that the next round removes, and never a listed generation without its files. The newest generation is
always kept, and nothing that a kept one names is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog
from sqlalchemy import Connection

from workspace_store import checkpoints, journal
from workspace_store.database import Database, now_us
from workspace_store.journal import Event
from workspace_store.principal import Lease
from workspace_store.volumes import Volume

log = structlog.get_logger()

DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Retention:
    """``bytes``: what the objects of all kept generations may take on the disk."""

    generations: int = 200
    days: float = 90.0
    bytes: int = 4096 << 20


@dataclass
class Pruner:
    """Prunes one volume at a time; the caller holds the principal's lease and the volume's tenancy."""

    database: Database
    retention: Retention
    now: Callable[[], int] = now_us

    async def prune(self, owner: UUID, volume: Volume, lease: Lease) -> list[int]:
        """Drop what is due; the numbers of the generations that went. Raises VolumeError, OSError."""
        dropped = await self._forget(owner, lease, self.retention.generations)
        await self._sweep(owner, volume, bool(dropped))
        while await asyncio.to_thread(lambda: volume.stored_bytes) > self.retention.bytes:
            kept = await self.database.read(lambda c: checkpoints.generation_numbers(c, owner))
            more = await self._forget(owner, lease, len(kept) // 2) if len(kept) > 1 else []
            if not more:
                break
            dropped += more
            await self._sweep(owner, volume, True)
        if dropped:
            log.info("dropped old generations", principal=str(owner), generations=len(dropped))
        return dropped

    async def _forget(self, owner: UUID, lease: Lease, most: int) -> list[int]:
        before = self.now() - int(self.retention.days * DAY_US)

        def due(connection: Connection) -> list[int]:
            return checkpoints.generations_beyond(connection, owner, max(most, 1), before)

        def transaction(connection: Connection) -> list[int]:
            found = due(connection)
            if found:
                body = {"generations": len(found), "first": found[0], "last": found[-1]}
                journal.append(connection, owner, [Event("workspace.pruned", body)], under=lease)
                checkpoints.forget_generations(connection, owner, found)
            return found

        if not await self.database.read(due):
            return []
        return await self.database.write(transaction)

    async def _sweep(self, owner: UUID, volume: Volume, certainly: bool) -> None:
        """Make the volume hold what the database lists; also after a crash between the two."""
        kept = await self.database.read(lambda connection: checkpoints.generation_numbers(connection, owner))
        if certainly or await asyncio.to_thread(volume.numbers) - set(kept):
            await asyncio.to_thread(volume.prune, kept)

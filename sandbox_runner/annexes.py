"""Annexes: the workspaces of users who were merged into a seat's, seen in its sandbox under ``/workspace/merged``.

Each is a seat of its own, with the tenancy of its own volume, held as long as the sandbox that shows it; what changes
there becomes a generation of that volume. Nothing is copied, so that an unmerging gives each what is theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import Connection

from agent.sandbox import SandboxUnavailable
from identity import merging
from sandbox_runner import kept_state, texts
from sandbox_runner.published import Snapshot, snapshot_of
from sandbox_runner.seats import Annex, Seat, Seating
from sandbox_runner.uids import strip_special_bits, take_ownership
from workspace_store import tenancy as tenancies
from workspace_store.beneath import UnsafePath
from workspace_store.packs import VolumeError

log = structlog.get_logger()

FOLDER = "workspace/merged"
PATIENCE_SECONDS = 15.0

Wanted = list[tuple[UUID, str]]


@dataclass
class Annexes:
    """``held``: the absorbed principals whose volumes are in use, and in whose sandbox."""

    seating: Seating
    held: dict[UUID, UUID] = field(default_factory=dict)

    async def wanted(self, owner: UUID) -> Wanted:
        """(absorbed principal, folder) of every workspace that belongs into a principal's sandbox and has files."""

        def query(connection: Connection) -> Wanted:
            found = merging.mounts(connection, owner)
            return [one for one in found if tenancies.look(connection, one[0]).volume_id is not None]

        return await self.seating.database.read(query)

    async def stale(self, seat: Seat) -> bool:
        """Whether a sandbox shows what no longer belongs into it."""
        shown = {annex.seat.principal for annex in seat.annexes}
        return bool(shown) and not shown <= {absorbed for absorbed, _ in await self.wanted(seat.principal)}

    async def take(self, seat: Seat, wanted: Wanted, asleep: Callable[[UUID], Awaitable[bool]]) -> list[str]:
        """Hold what is wanted, for a sandbox that is about to start; what could not be had, a sentence each.

        ``asleep`` puts the absorbed one's own sandbox to sleep; False: a turn is in it.
        """
        missing = []
        for absorbed, folder in wanted:
            try:
                if not await asleep(absorbed):
                    raise SandboxUnavailable(texts.annex_busy())
                await self._take(seat, absorbed, folder)
            except (SandboxUnavailable, VolumeError, UnsafePath, OSError) as error:
                log.warning("a merged workspace is not shown", absorbed=str(absorbed), reason=str(error))
                missing.append(texts.annex_missing(folder, str(error)))
        return missing

    async def _take(self, seat: Seat, absorbed: UUID, folder: str) -> None:
        await asyncio.to_thread(seat.volume.make_folder, f"{FOLDER}/{folder}")
        lent = await self.seating.take(absorbed)
        try:
            if seat.host_uid is not None:
                await asyncio.to_thread(take_ownership, lent.volume.workspace, seat.host_uid)
        except BaseException:
            await self.seating.give_back(lent)
            raise
        self.held[absorbed] = seat.principal
        seat.annexes.append(Annex(lent, folder))

    async def give_back(self, seat: Seat) -> None:
        """Release everything that a dismantled sandbox has shown; what is wrong with one keeps no other."""
        while seat.annexes:
            lent = seat.annexes.pop().seat
            self.held.pop(lent.principal, None)
            try:
                await asyncio.to_thread(strip_special_bits, lent.volume.workspace)
            except OSError as error:
                log.warning("special bits may be left in a workspace", absorbed=str(lent.principal), reason=str(error))
            await self.seating.give_back(lent)

    async def until_free(self, absorbed: UUID) -> None:
        """Wait until a volume is in nobody else's sandbox. Raises SandboxUnavailable."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while absorbed in self.held:
            if asyncio.get_running_loop().time() > deadline:
                raise SandboxUnavailable(texts.annex_busy())
            await asyncio.sleep(0.05)

    async def publish(self, seat: Seat, note: str, *, moving: bool) -> tuple[Snapshot, ...]:
        """A generation of each volume that changed, to be committed with the seat's own."""
        found = []
        for annex in seat.annexes:
            lent = annex.seat
            held = await self.seating.database.read(partial(tenancies.look, identifier=lent.principal))
            published = await asyncio.to_thread(lent.volume.snapshot, held.generation, note=note, moving=moving)
            if published.changed:
                await asyncio.to_thread(lent.volume.hand_in, published)
                seen = await asyncio.to_thread(kept_state.see, lent.volume, held, published.number)
                found.append(snapshot_of(lent.tenancy, published, note, seen))
        return tuple(found)

"""A seat: the right to one principal's volume on this host, and the sandbox that is warm in it, if any.

Taking a seat mounts and verifies: the volume's marker, the database's generation and the tenancy must agree; what is
provably left over is repaired, anything else is refused, never guessed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import structlog
from sqlalchemy import Connection

from agent.sandbox import SandboxUnavailable, WakeReport
from sandbox_runner import kept_state, texts
from sandbox_runner.backend import RunningSandbox
from sandbox_runner.disk_watch import Watched
from sandbox_runner.guest_connection import GuestConnection
from sandbox_runner.sandboxes import VolumeRefused
from sandbox_runner.uids import HostUids, take_ownership
from workspace_store import liveness, resting
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.markers import VolumeDamaged
from workspace_store.packs import VolumeError
from workspace_store.tenancy import StaleTenancy, Tenancy, Tenant
from workspace_store.volume_rights import ClaimOutdated
from workspace_store.volumes import Volume, Volumes

log = structlog.get_logger()

T = TypeVar("T")

HAND_OVER_SECONDS = 15.0
"""As long as another host may take to put it to sleep, or to be seen to be gone."""
ASK_SECONDS = 5.0
LOOK_SECONDS = 0.1
MARGIN_SECONDS = 2.0
"""Before the end of its right, a sandbox is no more."""


def boottime() -> float:
    """Seconds since the host was booted, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Awake:
    """A running sandbox with its guest."""

    running: RunningSandbox
    guest: GuestConnection
    report: WakeReport
    ended: asyncio.Task[str]
    on_disk: Watched


@dataclass(frozen=True)
class Annex:
    """Another principal's seat whose workspace is seen in a sandbox, in a folder of ``/workspace/merged``."""

    seat: Seat
    folder: str


@dataclass
class Seat:
    """``holders``: connections whose turns use it; idle since ``idle_since`` (loop time) when there are none."""

    tenancy: Tenancy
    volume: Volume
    host_uid: int | None
    awake: Awake | None = None
    right_since: float = 0.0
    """When its tenancy was taken or renewed last, or a little before (``boottime``)."""
    holders: set[object] = field(default_factory=set)
    idle_since: float = 0.0
    quiet: bool = True
    """Its sandbox is being ended: what ends in it now does not end by itself."""
    owes: bool = False
    """What is in its volume could not be stored where other hosts find it: it is kept here until it is."""
    stopped: set[int] = field(default_factory=set)
    """Tasks that somebody asked to stop."""
    annexes: list[Annex] = field(default_factory=list)
    fitted: list[tuple[UUID, str]] = field(default_factory=list)
    """What was to be shown of others when its sandbox was started, as ``Annexes.wanted`` says it."""

    @property
    def principal(self) -> UUID:
        return self.tenancy.principal

    def state_digest(self) -> str | None:
        return kept_state.digest(self.volume)


class AwakeElsewhere(SandboxUnavailable):
    """Another host has it awake."""


@dataclass
class Seating:
    """Takes and gives back seats for one manager. ``host``: the manager's id, alive by its lock."""

    host: str
    database: Database
    volumes: Volumes
    lives: Path
    host_uids: HostUids
    _owed: list[Tenancy] = field(default_factory=list)

    async def take(self, identifier: UUID) -> Seat:
        """Take the tenancy, mount and verify the volume. Raises SandboxUnavailable with what a person can do.

        What another host has awake is asked for there, and waited for a while.
        """
        try:
            held, tenancy, uid, asked_at = await self._asked_for(identifier)
        except tenancies.SandboxUidsExhausted as error:
            raise SandboxUnavailable(texts.volume_refused(str(error))) from error
        try:
            try:
                volume = await asyncio.to_thread(self._mount, tenancy, held, uid)
            except ClaimOutdated as error:
                # Whoever has the tenancy now has the right, unless the database is of an earlier time than the volume.
                advance = partial(tenancies.advance, held=tenancy, beyond=error.epoch)
                tenancy = await self.database.write(advance)
                volume = await asyncio.to_thread(self._mount, tenancy, held, uid)
            if held.volume_id is None:
                marker = volume.marker()
                await self.database.write(lambda connection: tenancies.bind_volume(connection, tenancy, marker.volume))
        except BaseException as error:
            await asyncio.shield(self._release(tenancy))
            if isinstance(error, VolumeDamaged):
                raise VolumeRefused(texts.volume_refused(str(error))) from error
            if isinstance(error, VolumeError | OSError):
                raise SandboxUnavailable(texts.volume_refused(str(error))) from error
            raise
        return Seat(tenancy, volume, uid, right_since=asked_at)

    async def _asked_for(self, identifier: UUID) -> tuple[Tenant, Tenancy, int | None, float]:
        clock = asyncio.get_running_loop().time
        until, asked = clock() + HAND_OVER_SECONDS, 0.0
        while True:
            asked_at = boottime()
            try:
                # Of a sandbox nothing comes before something else is written; and without power it is gone itself.
                taken = await self.database.write(lambda connection: self._take(connection, identifier), followed=True)
                return *taken, asked_at
            except AwakeElsewhere:
                if clock() >= until:
                    raise
            if clock() - asked > ASK_SECONDS / 2:
                asked = clock()
                rest = partial(resting.rest, identifiers=[identifier], seconds=ASK_SECONDS)
                await self.database.write(rest)
            await asyncio.sleep(LOOK_SECONDS)

    def _take(self, connection: Connection, identifier: UUID) -> tuple[Tenant, Tenancy, int | None]:
        held = tenancies.look(connection, identifier)
        if held.closed:
            raise SandboxUnavailable(texts.closed())
        if held.host not in (None, self.host) and not self._has_ended(held):
            raise AwakeElsewhere(texts.awake_elsewhere())
        tenancy = tenancies.take(connection, identifier, self.host, held)
        if tenancy is None:
            raise AwakeElsewhere(texts.awake_elsewhere())
        return held, tenancy, self._uid(connection, identifier)

    def may_take(self, held: Tenant) -> bool:
        """Whether the volume is this manager's already, or nobody's who lives."""
        return held.host in (None, self.host) or self._has_ended(held)

    def _has_ended(self, held: Tenant) -> bool:
        return held.host is None or liveness.is_dead(self.lives, held.host, expired=held.expired)

    def _may_come_back(self, held: Tenant) -> bool:
        """Of another home's manager nobody knows but that its right has ended: it may be paused, sandbox and all."""
        return held.host is not None and not liveness.is_of(liveness.home_name(self.lives), held.host)

    def _uid(self, connection: Connection, identifier: UUID) -> int | None:
        if os.geteuid() != 0:
            return None
        return tenancies.host_uid(connection, identifier, self.host_uids.base, self.host_uids.count)

    def _mount(self, tenancy: Tenancy, held: Tenant, uid: int | None) -> Volume:
        """Mount and verify. Raises SandboxUnavailable, VolumeError."""
        identifier = tenancy.principal
        if held.volume_id is not None and not self.volumes.exists(identifier):
            raise VolumeRefused(texts.volume_refused(texts.volume_missing(held.generation)))
        volume = self.volumes.open(identifier, owner=None if uid is None else (uid, uid))
        try:
            volume.follow(held.generation)
            _verify(volume, held, f"{tenancy.host} {tenancy.epoch}")
            if self._may_come_back(held) and not self.volumes.follows:
                volume.part()
            if uid is not None:
                for tree in (volume.workspace, volume.home):
                    take_ownership(tree, uid)
        except BaseException:
            volume.close()
            raise
        return volume

    async def see(self, identifier: UUID, read: Callable[[Volume], T], otherwise: T, *, seated: bool) -> T:
        """What ``read`` finds in the volume as it is, or was committed last; ``otherwise`` where there is none.

        Nothing is taken for that. ``seated``: this manager has it. Raises VolumeError, OSError.
        """
        held = None
        if self.volumes.follows and not seated:
            held = await self.database.read(partial(tenancies.look, identifier=identifier))
            if held.volume_id is None:  # no word to the store for whoever has no files
                return otherwise
        elif not await asyncio.to_thread(self.volumes.exists, identifier):
            return otherwise

        def look() -> T:
            with self.volumes.open(identifier) as volume:
                if held is not None:
                    volume.follow(held.generation, held.manifest_digest)
                return read(volume)

        return await asyncio.to_thread(look)

    async def give_back(self, seat: Seat) -> None:
        """Release the tenancy, now or when the database is back; the sandbox has been dismantled."""
        seat.volume.close()
        await self._release(seat.tenancy)

    async def _release(self, tenancy: Tenancy) -> None:
        try:
            await self.database.write(lambda connection: tenancies.release(connection, tenancy))
        except DatabaseUnavailable as error:
            log.warning("a volume is given back later", principal=str(tenancy.principal), reason=str(error))
            self._owed.append(tenancy)

    async def release_owed(self) -> None:
        """Release what could not be when it was given back. A tenancy taken anew meanwhile is another's."""
        owed, self._owed = self._owed, []
        for tenancy in owed:
            await self._release(tenancy)

    async def renew(self) -> set[UUID]:
        """Prolong every tenancy of this manager; whose they are."""
        return await self.database.write(lambda connection: tenancies.renew(connection, self.host))


def _verify(volume: Volume, held: Tenant, right: str) -> None:
    """What fits is claimed for ``right``. Raises VolumeRefused, VolumeError."""
    marker = volume.marker()
    if held.volume_id is not None and marker.volume != held.volume_id:
        raise VolumeRefused(texts.volume_refused(texts.volume_of_another()))
    if held.generation and not volume.generation_exists(held.generation):
        raise VolumeRefused(texts.volume_refused(texts.volume_behind(marker.generation, held.generation)))
    if held.manifest_digest is not None and volume.manifest(held.generation).digest != held.manifest_digest:
        raise VolumeRefused(texts.volume_refused(texts.volume_differs(held.generation)))
    volume.claim(right)
    if marker.generation > held.generation:
        # Published, and the runner died before it committed: the live files are what counts.
        dropped = volume.discard_after(held.generation)
        log.debug("dropped uncommitted generations", principal=str(volume.principal), generations=dropped)


__all__ = ["Awake", "Seat", "Seating", "StaleTenancy"]

"""Warm sandboxes and their seats: built on a mounted volume, published, dismantled.

Kills whole sandboxes, never processes by name. How they are put to sleep is ``keeper``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import structlog

from agent.sandbox import BackgroundTask, SandboxError, SandboxLimits, SandboxLost, WakeReport
from sandbox_runner import kept_state, texts
from sandbox_runner.annexes import Annexes
from sandbox_runner.backend import Backend, Launch, RunningSandbox
from sandbox_runner.base_system import BaseSystem, Facts
from sandbox_runner.checking import Checks
from sandbox_runner.disk_usage import DiskUsage
from sandbox_runner.disk_watch import DiskWatch
from sandbox_runner.egress.screening import Screen
from sandbox_runner.ends import TaskEnds
from sandbox_runner.guest_connection import GuestConnection, task_of
from sandbox_runner.guest_frames import Restored
from sandbox_runner.on_disk import OnDisk
from sandbox_runner.retention import Pruner, Retention
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import MARGIN_SECONDS, Awake, Seat, Seating, boottime
from sandbox_runner.timers import Timers
from sandbox_runner.way_out import WayOut
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.manifests import Generation
from workspace_store.principal import LEASE_SECONDS
from workspace_store.tenancy import StaleTenancy, Tenant
from workspace_store.volume_rights import VolumeTaken

log = structlog.get_logger()

ANSWER_SECONDS = 30.0
"""How long beyond a command's own timeout the guest may take to answer before its sandbox is killed."""
TASK_GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL, for a task whose sandbox goes to sleep."""


@dataclass(frozen=True)
class Believed:
    """What a sandbox is to come up with: what the database says, the process state, and the base it runs on."""

    held: Tenant
    state: kept_state.Found
    base: Facts


@dataclass
class Waker(ABC):
    """``ring`` is called for a principal that has mail, though nobody sent it just now."""

    seating: Seating
    backend: Backend
    guest: Path
    limits: SandboxLimits
    idle_seconds: float
    ring: Callable[[UUID], None]
    files: SeatFiles
    egress: WayOut | None = None
    task_grace: float = TASK_GRACE_SECONDS
    max_awake_seconds: float = 28_800
    """How long after the last turn a sandbox may ask to be kept awake."""
    retention: Retention = field(default_factory=Retention)
    screen: Screen | None = None
    """Knows the credentials that nothing of a sandbox may be written down with."""
    _seats: dict[UUID, Seat] = field(default_factory=dict)
    _locks: WeakValueDictionary[UUID, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """One lock a principal, as long as anybody holds or awaits it."""
    _tidying: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def database(self) -> Database:
        return self.seating.database

    def __post_init__(self) -> None:
        share = DiskUsage(self.limits.disk_mb << 20, self.limits.disk_files)
        self.disk = DiskWatch(self.seating.volumes.root, share)
        self.pruner = Pruner(self.seating.database, self.retention)
        self.annexes = Annexes(self.seating)
        self.checks = Checks(self.backend, self.guest, self.limits, self.disk)
        self.timers = Timers(self.seating, self._wake_for_timer, self.give_back)
        self.base = BaseSystem(self.backend.image)
        self.ends = TaskEnds(self.seating.database, lambda owner: self.ring(owner))

    def _lock(self, owner: UUID) -> asyncio.Lock:
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock

    @abstractmethod
    async def _asleep(self, owner: UUID) -> bool:
        """Put a sandbox to sleep whose volume is wanted elsewhere; whether it is free now."""

    @abstractmethod
    async def _wake_for_timer(self, owner: UUID, holder: object) -> GuestConnection:
        """The guest of a sandbox that is awake until it is given back."""

    @abstractmethod
    async def give_back(self, owner: UUID, holder: object) -> None:
        """Whoever held a sandbox is done with it."""

    # Seats

    async def _seat(self, owner: UUID, holder: object) -> Seat:
        seat = self._seats.get(owner)
        if seat is None:
            await self.annexes.until_free(owner)
            seat = await self.seating.take(owner)
            self._seats[owner] = seat
        if seat.awake is not None and seat.awake.ended.done():
            await self._dismantle(seat)
            await self.annexes.give_back(seat)
        seat.holders.add(holder)
        return seat

    async def _start(self, seat: Seat) -> Awake:
        """Build a sandbox on the mounted volume and restore process state into it."""
        sandbox_id = f"{seat.principal.hex[:12]}-{uuid4().hex[:8]}"
        await self.annexes.give_back(seat)
        seat.fitted = await self.annexes.wanted(seat.principal)
        missing = await self.annexes.take(seat, seat.fitted, self._asleep)
        launch = Launch(sandbox_id, seat.volume.workspace, seat.volume.home, self.guest, self.limits, seat.host_uid)
        launch = replace(launch, merged=tuple((annex.seat.volume.workspace, annex.folder) for annex in seat.annexes))
        if self.egress is not None:
            socket = self.egress.open(sandbox_id, seat.tenancy, seat.host_uid)
            launch = replace(launch, egress_socket=socket, trust_bundle=self.egress.trust_bundle)
        # Read while the sandbox starts, and before anything in it could write.
        believed = asyncio.create_task(self._believed(seat))
        try:
            running = await self.backend.start(launch)
        except BaseException:
            believed.cancel()
            self._close_egress(sandbox_id)
            await self.annexes.give_back(seat)
            raise
        early: list[BackgroundTask] = []

        def ended_inside(task: BackgroundTask) -> None:
            if seat.awake is None:
                early.append(task)
            else:
                self.ends.heard(seat, seat.awake, task)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                guest = await GuestConnection.over(
                    running.socket,
                    on_task_ended=ended_inside,
                    on_crontab=lambda text: self._crontab(seat, guest, text),
                    screen=self.screen,
                )
                self._let_live(seat, guest)
                seat.quiet = False
                restored = await self._restore(seat, guest, sandbox_id, await believed)
        except BaseException as error:
            believed.cancel()
            await running.stop()
            self._close_egress(sandbox_id)
            await self.annexes.give_back(seat)
            if isinstance(error, TimeoutError):
                raise SandboxLost(texts.guest_silent()) from error
            raise
        digest = await asyncio.to_thread(seat.state_digest)
        report = WakeReport(sandbox_id, True, digest, (*restored.notes, *missing), restored.terminals)
        ended = asyncio.create_task(running.wait())
        trees = (seat.volume.workspace, seat.volume.home, *(annex.seat.volume.workspace for annex in seat.annexes))
        on_disk = OnDisk(trees, running, guest, lambda: self._end(seat, running))
        seat.awake = Awake(running, guest, report, ended, on_disk)
        self.disk.add(on_disk)
        ended.add_done_callback(lambda _: self._beside(self._ended(seat)))
        for record in restored.ended:
            self.ends.left(seat, seat.awake, task_of(record))
        for task in early:
            self.ends.heard(seat, seat.awake, task)
        return seat.awake

    def _let_live(self, seat: Seat, guest: GuestConnection) -> None:
        """Until shortly before its right ends: then it ends by itself, also where this manager is paused."""
        seconds = LEASE_SECONDS - MARGIN_SECONDS - (boottime() - seat.right_since)
        if not self.database.is_sqlite and seconds > 0:
            self._beside(_tell(guest, seconds))

    def _crontab(self, seat: Seat, guest: GuestConnection, text: str) -> None:
        self._beside(self.timers.changed(seat, guest, text))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done by itself; whoever closes waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)

    async def _believed(self, seat: Seat) -> Believed:
        held = await self._held(seat)

        def read() -> Believed:
            return Believed(held, kept_state.find(seat.volume, held), self.base.describe())

        return await asyncio.to_thread(read)

    async def _restore(self, seat: Seat, guest: GuestConnection, life: str, believed: Believed) -> Restored:
        """Give the guest the process state that is to be believed, and what it seals its own with."""
        found = believed.state
        seal = {"life": life, "key": kept_state.life_key(believed.held, life), "number": found.number}
        restored = await guest.restore(found.data, seal, believed.base)
        if not found.notes:
            return restored
        log.warning("a process state was refused", principal=str(seat.principal), reason=found.notes[0])
        # In place of what was refused, before anything else looks at it.
        await guest.capture()
        return restored.model_copy(update={"notes": (*found.notes, *restored.notes)})

    async def _refit(self, seat: Seat) -> None:
        """End a sandbox whose annexes are others by now; the next one is built with them, its shells restored."""
        if seat.awake is not None:
            with contextlib.suppress(SandboxError, TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await seat.awake.guest.shutdown(grace=self.task_grace)
            await self._dismantle(seat)
        await self.annexes.give_back(seat)

    async def _ended(self, seat: Seat) -> None:
        """A sandbox ended by itself: out of memory, killed, or its guest died."""
        if seat.awake is not None and seat.awake.ended.done():
            log.warning("a sandbox ended", principal=str(seat.principal), reason=seat.awake.ended.result())
            await self._dismantle(seat)
            async with self._lock(seat.principal):
                # Where others cannot see its files it sleeps as an idle one does: with a generation of them.
                left = not (seat.holders or self.seating.volumes.follows)
                if left and seat.awake is None and self._seats.get(seat.principal) is seat:
                    await self._leave(seat)

    async def _end(self, seat: Seat, running: RunningSandbox) -> None:
        """End a sandbox that does not obey, if it still is this one."""
        if seat.awake is not None and seat.awake.running is running:
            await self._kill(seat)

    async def _kill(self, seat: Seat) -> None:
        if seat.awake is not None:
            await self._dismantle(seat)

    async def _dismantle(self, seat: Seat) -> None:
        """End a sandbox. Raises SandboxError where it would not end: then its volume must not be given to another."""
        awake = seat.awake
        if awake is not None:
            self.disk.remove(awake.on_disk)
            await awake.guest.close()
            await awake.running.stop()
            self._close_egress(awake.report.sandbox_id)
            seat.awake = None
            await asyncio.gather(awake.ended, return_exceptions=True)

    def _close_egress(self, sandbox_id: str) -> None:
        if self.egress is not None:
            self.egress.close(sandbox_id)

    async def _leave(self, seat: Seat) -> None:
        self._seats.pop(seat.principal, None)
        await self.annexes.give_back(seat)
        await self.seating.give_back(seat)

    async def _held(self, seat: Seat) -> Tenant:
        """What the database says of the volume. Raises StaleTenancy, its sandbox killed: it has gone to another."""
        held = await self.database.read(partial(tenancies.look, identifier=seat.principal))
        if (held.host, held.epoch) == (seat.tenancy.host, seat.tenancy.epoch):
            return held
        await self._lose(seat)
        raise StaleTenancy(texts.awake_elsewhere())

    async def _lose(self, seat: Seat) -> None:
        """Kill a sandbox whose volume has gone to another manager; nothing of it is written any more."""
        log.warning("tenancy lost; killing the sandbox", principal=str(seat.principal))
        with contextlib.suppress(SandboxError):
            await self._kill(seat)
        if self._seats.get(seat.principal) is seat:
            self._seats.pop(seat.principal)
        seat.volume.close()
        try:
            await self.annexes.give_back(seat)
        except DatabaseUnavailable as error:
            log.warning("could not give a merged workspace back", principal=str(seat.principal), reason=str(error))

    async def _publish(
        self, seat: Seat, parent: int, turn: UUID | None, note: str, *, lasting: bool = True
    ) -> Generation:
        """A generation of the volume; what runs meanwhile is frozen, or the generation marked ``moving``.

        ``lasting``: to be committed, so that another host must find it.
        """
        name = turn.hex if turn else None
        busy = seat.awake is not None and await self._has_tasks(seat.awake)
        frozen = busy and seat.awake is not None and await seat.awake.running.freeze()
        try:
            moving = busy and not frozen
            made = await asyncio.to_thread(seat.volume.snapshot, parent, turn=name, note=note, moving=moving)
        finally:
            if frozen and seat.awake is not None:
                await seat.awake.running.thaw()
        if lasting:
            await self._hand_in(seat, made)
        return made

    @staticmethod
    async def _hand_in(seat: Seat, made: Generation) -> None:
        """Raises VolumeError, and then the volume is not given back before it is stored."""
        # Before: also where nobody waits for the end of it any more.
        seat.owes = seat.owes or made.is_to_be_named
        try:
            await asyncio.to_thread(seat.volume.hand_in, made)
        except VolumeTaken:
            seat.owes = False  # another's by now: nothing here counts any more
            raise
        seat.owes = False

    @staticmethod
    async def _has_tasks(awake: Awake) -> bool:
        """Whether anything but the guest and one idle shell runs; the guest is asked only where that is not plain."""
        processes = awake.running.usage().processes
        if processes is not None and processes <= 2:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return any(task.state == "running" for task in await awake.guest.tasks())
        except (SandboxError, TimeoutError):
            return True


async def _tell(guest: GuestConnection, seconds: float) -> None:
    with contextlib.suppress(SandboxError):
        await guest.live(seconds)

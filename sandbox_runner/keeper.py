"""Warm sandboxes and their seats: started, dismantled, published, put to sleep when idle.

Sleeps them when idle, kills whole sandboxes, never processes by name. Putting to sleep is a small turn under the
principal's lease; it serves no messages (``manager`` serves turns on top of this).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from agent.sandbox import BackgroundTask, SandboxError, SandboxLimits, SandboxLost, WakeReport
from sandbox_runner import texts
from sandbox_runner.annexes import Annexes
from sandbox_runner.backend import Backend, Launch, RunningSandbox
from sandbox_runner.disk_usage import DiskUsage
from sandbox_runner.disk_watch import DiskWatch
from sandbox_runner.guest_connection import GuestConnection
from sandbox_runner.on_disk import OnDisk
from sandbox_runner.published import snapshot_of, write_annexes, write_checkpoint
from sandbox_runner.retention import Pruner, Retention
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import Awake, Seat, Seating
from sandbox_runner.uids import strip_special_bits
from sandbox_runner.way_out import WayOut
from workspace_store import journal, principal, task_ends
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.journal import Event
from workspace_store.manifests import Generation
from workspace_store.packs import VolumeError
from workspace_store.principal import LEASE_SECONDS, Lease, StaleLease
from workspace_store.tenancy import StaleTenancy

log = structlog.get_logger()

IDLE_POLL_SECONDS = 0.5
RENEW_SECONDS = 3.0
MARGIN_SECONDS = 2.0
ANSWER_SECONDS = 30.0
"""How long beyond a command's own timeout the guest may take to answer before its sandbox is killed."""
TOLD_AFTER_SECONDS = 10.0
"""A process that a command merely left behind is told of when it ends only if it ran for longer."""
TASK_GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL, for a task whose sandbox goes to sleep."""


def boottime() -> float:
    """Seconds since the host was booted, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Keeper:
    """``ring`` is called for a principal whose mail arrived while its sandbox was put to sleep."""

    seating: Seating
    backend: Backend
    guest: Path
    limits: SandboxLimits
    idle_seconds: float
    ring: Callable[[UUID], None]
    files: SeatFiles
    egress: WayOut | None = None
    task_grace: float = TASK_GRACE_SECONDS
    retention: Retention = field(default_factory=Retention)
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

    def _lock(self, owner: UUID) -> asyncio.Lock:
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock

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
        try:
            running = await self.backend.start(launch)
        except BaseException:
            self._close_egress(sandbox_id)
            await self.annexes.give_back(seat)
            raise
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                guest = await GuestConnection.over(
                    running.socket, on_task_ended=lambda task: self._tell_end(seat, sandbox_id, task)
                )
                seat.quiet = False
                restored = await guest.restore()
        except BaseException as error:
            await running.stop()
            self._close_egress(sandbox_id)
            await self.annexes.give_back(seat)
            if isinstance(error, TimeoutError):
                raise SandboxLost(texts.guest_silent()) from error
            raise
        digest = await asyncio.to_thread(seat.state_digest)
        report = WakeReport(sandbox_id, True, digest, (*restored.notes, *missing))
        ended = asyncio.create_task(running.wait())
        trees = (seat.volume.workspace, seat.volume.home, *(annex.seat.volume.workspace for annex in seat.annexes))
        on_disk = OnDisk(trees, running, guest, lambda: self._end(seat, running))
        seat.awake = Awake(running, guest, report, ended, on_disk)
        self.disk.add(on_disk)
        ended.add_done_callback(lambda _: self._tidy(seat))
        return seat.awake

    async def _refit(self, seat: Seat) -> None:
        """End a sandbox whose annexes are others by now; the next one is built with them, its shells restored."""
        if seat.awake is not None:
            with contextlib.suppress(SandboxError, TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await seat.awake.guest.shutdown(grace=self.task_grace)
            await self._dismantle(seat)
        await self.annexes.give_back(seat)

    def _tell_end(self, seat: Seat, sandbox_id: str, task: BackgroundTask) -> None:
        """A task ended by itself: that is an event of its own, whether anybody is there or not."""
        if seat.quiet or task.task in seat.stopped or seat.awake is None:
            return
        telling = asyncio.create_task(self._record_end(seat, seat.awake, sandbox_id, task))
        self._tidying.add(telling)
        telling.add_done_callback(self._tidying.discard)

    async def _record_end(self, seat: Seat, awake: Awake, sandbox_id: str, task: BackgroundTask) -> None:
        told = task.argv[:2] == ("bash", "-c") or time.time() - task.started_at > TOLD_AFTER_SECONDS
        output = ""
        with contextlib.suppress(SandboxError):
            output = await awake.guest.task_output(task.task, 2048) if told else ""
        text = texts.task_ended(task.task, task.argv, task.exit_code, output) if told else ""
        body: dict[str, object] = {
            "task": task.task, "argv": list(task.argv), "exit_code": task.exit_code, "starts": task.starts,
        }  # fmt: skip
        try:
            if await self.database.write(
                lambda connection: task_ends.record(connection, seat.tenancy, sandbox_id, body, text)
            ):
                self.ring(seat.principal)
        except (DatabaseUnavailable, StaleTenancy) as error:
            log.warning("a task's end could not be told", principal=str(seat.principal), reason=str(error))

    def _tidy(self, seat: Seat) -> None:
        task = asyncio.get_running_loop().create_task(self._ended(seat))
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)

    async def _ended(self, seat: Seat) -> None:
        """A sandbox ended by itself: out of memory, killed, or its guest died."""
        if seat.awake is not None and seat.awake.ended.done():
            log.warning("a sandbox ended", principal=str(seat.principal), reason=seat.awake.ended.result())
            await self._dismantle(seat)
            async with self._lock(seat.principal):
                if not seat.holders and seat.awake is None and self._seats.get(seat.principal) is seat:
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

    async def _generation(self, owner: UUID) -> int:
        held = await self.database.read(partial(tenancies.look, identifier=owner))
        return held.generation

    async def _publish(self, seat: Seat, parent: int, turn: UUID | None, note: str) -> Generation:
        """A generation of the volume; what runs meanwhile is frozen, or the generation marked ``moving``."""
        name = turn.hex if turn else None
        busy = seat.awake is not None and await self._has_tasks(seat.awake)
        frozen = busy and seat.awake is not None and await seat.awake.running.freeze()
        try:
            moving = busy and not frozen
            return await asyncio.to_thread(seat.volume.snapshot, parent, turn=name, note=note, moving=moving)
        finally:
            if frozen and seat.awake is not None:
                await seat.awake.running.thaw()

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

    # Sleep

    async def keep(self) -> None:
        """Put idle sandboxes to sleep and keep tenancies, until cancelled."""
        renewing = asyncio.create_task(self._keep_tenancies())
        watching = asyncio.create_task(self.disk.run())
        sleeping: dict[UUID, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(IDLE_POLL_SECONDS)
                await self._release_safely()
                sleeping = {owner: task for owner, task in sleeping.items() if not task.done()}
                for owner in [*self._idle(), *await self._to_end()]:
                    if owner not in sleeping:
                        sleeping[owner] = asyncio.create_task(self._sleep_safely(owner))
        finally:
            renewing.cancel()
            watching.cancel()

    async def _release_safely(self) -> None:
        try:
            await self.release_what_is_not_seated()
        except DatabaseUnavailable as error:
            log.warning("could not look for leases left behind", reason=str(error))
        except Exception:
            log.exception("could not look for leases left behind")

    def _idle(self) -> list[UUID]:
        now = asyncio.get_running_loop().time()
        return [
            owner
            for owner, seat in self._seats.items()
            if not seat.holders and now - seat.idle_since >= self.idle_seconds
        ]

    async def _to_end(self) -> list[UUID]:
        """Sandboxes of the blocked, and those that show what is no longer theirs: to sleep when no turn is in them."""
        try:
            found = await self.database.read(partial(principal.closed_on, host=self.seating.host))
            found += [owner for owner, seat in list(self._seats.items()) if await self.annexes.stale(seat)]
        except DatabaseUnavailable:
            return []
        return [owner for owner in found if owner in self._seats and not self._seats[owner].holders]

    async def _keep_tenancies(self) -> None:
        """Renew in one statement; with SQLite the manager's lock alone counts, and there is nothing to renew."""
        renewed = boottime()
        while not self.database.is_sqlite:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    held = await self.seating.renew()
                renewed = boottime()
            except (DatabaseUnavailable, TimeoutError):
                if boottime() - renewed < LEASE_SECONDS - MARGIN_SECONDS - RENEW_SECONDS:
                    continue
                # Before others may take it: the next try would end after the tenancy has.
                held = set()
            except Exception:
                log.exception("could not renew tenancies")
                continue
            await self._kill_all_but(held)

    async def _kill_all_but(self, held: set[UUID]) -> None:
        """Kill the sandboxes whose tenancy is gone."""
        for owner, seat in list(self._seats.items()):
            if {owner, *(annex.seat.principal for annex in seat.annexes)} <= held:
                continue
            log.warning("tenancy lost; killing the sandbox", principal=str(owner))
            with contextlib.suppress(SandboxError):
                await self._kill(seat)
            self._seats.pop(owner, None)
            seat.volume.close()
            await self._let_annexes_go(seat)

    async def _let_annexes_go(self, seat: Seat) -> None:
        try:
            await self.annexes.give_back(seat)
        except DatabaseUnavailable as error:
            log.warning("could not give a merged workspace back", principal=str(seat.principal), reason=str(error))

    async def _asleep(self, owner: UUID) -> bool:
        """Put a sandbox to sleep whose volume is wanted elsewhere; whether it is free now."""
        if owner in self._seats:
            await self.sleep(owner)
        return owner not in self._seats and owner not in self.annexes.held

    async def _sleep_safely(self, owner: UUID) -> None:
        try:
            await self.sleep(owner)
        except (DatabaseUnavailable, StaleLease, StaleTenancy, SandboxError, VolumeError, OSError) as error:
            log.warning("could not put a sandbox to sleep", principal=str(owner), reason=str(error))
        except Exception:
            log.exception("could not put a sandbox to sleep", principal=str(owner))

    async def sleep(self, owner: UUID) -> bool:
        """Capture, commit a generation, dismantle and give the volume back; False: a turn runs, nothing was done."""
        async with self._lock(owner):
            seat = self._seats.get(owner)
            if seat is None or seat.holders:
                return False
            lease = await self._lease(owner)
            if lease is None:
                return False
            try:
                await self._sleep(seat, lease)
            finally:
                try:
                    await self._release(lease)
                finally:
                    if seat.awake is None:
                        await self._leave(seat)
        if await self.database.read(partial(principal.waiting, identifier=owner)):
            self.ring(owner)
        return True

    async def _lease(self, owner: UUID) -> Lease | None:
        host = self.seating.host

        def transaction(connection: Connection) -> Lease | None:
            seen = principal.look(connection, owner)
            # What a dead runner holds is a turn that another runner takes up: not idle. Our own is one that could not
            # be given back.
            if seen is None or seen.owner not in (None, host):
                return None
            return principal.take(connection, owner, host, seen)

        return await self.database.write(transaction)

    async def release_what_is_not_seated(self) -> None:
        """Give back leases of this manager that a failed sleep has left behind: nobody else may take them."""
        host = self.seating.host

        def transaction(connection: Connection) -> list[UUID]:
            left = [owner for owner in principal.owned_by(connection, host) if owner not in self._seats]
            principal.abandon_all(connection, host, left)
            return left

        if await self.database.read(lambda connection: principal.owned_by(connection, host)):
            for owner in await self.database.write(transaction):
                self.ring(owner)

    async def _release(self, lease: Lease) -> None:
        await self.database.write(partial(principal.abandon, lease=lease))

    async def _sleep(self, seat: Seat, lease: Lease) -> None:
        notes = await self._shut(seat)
        parent = await self._generation(seat.principal)
        published = await self._publish(seat, parent, None, texts.SLEEP_NOTE)
        digest = await asyncio.to_thread(seat.state_digest)
        merged = await self.annexes.publish(seat, texts.SLEEP_NOTE, moving=False)
        snapshot = replace(snapshot_of(seat.tenancy, published, texts.SLEEP_NOTE, digest), merged=merged)

        def transaction(connection: Connection) -> None:
            body = {"state_digest": digest, "files_changed": snapshot.changed, "notes": list(notes)}
            seq = journal.append(connection, seat.principal, [Event("sandbox.slept", body)], under=lease)
            write_checkpoint(connection, seat.principal, seq, None, snapshot)
            write_annexes(connection, snapshot)

        await self.database.write(transaction)
        await self._prune(seat, lease)

    async def _prune(self, seat: Seat, lease: Lease) -> None:
        """Drop old generations, unless somebody waits; what cannot be dropped now can be later."""
        try:
            if not await self.database.read(partial(principal.waiting, identifier=seat.principal)):
                await self.pruner.prune(seat.principal, seat.volume, lease)
        except (VolumeError, OSError) as error:
            log.warning("could not drop old generations", principal=str(seat.principal), reason=str(error))

    async def _shut(self, seat: Seat) -> tuple[str, ...]:
        """End the sandbox, if there is one, with its process state captured; what went wrong with that."""
        notes: tuple[str, ...] = ()
        seat.quiet = True
        if seat.awake is not None:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await seat.awake.guest.shutdown(grace=self.task_grace)
            except (SandboxError, TimeoutError) as error:
                notes = (f"process state was not captured at the end: {error}",)
            await self._dismantle(seat)
        for tree in (seat.volume.workspace, seat.volume.home):
            await asyncio.to_thread(strip_special_bits, tree)
        return notes

    async def close(self, seconds: float) -> None:
        """Put everything to sleep, within ``seconds``; what does not sleep in time keeps its last publication."""
        self.task_grace = min(self.task_grace, seconds / 2)
        for seat in self._seats.values():
            seat.holders.clear()
        sleeping = [asyncio.create_task(self._sleep_safely(owner)) for owner in list(self._seats)]
        if sleeping:
            await asyncio.wait(sleeping, timeout=seconds)
        for seat in list(self._seats.values()):
            # A turn was cut off in it: what its guest has published stands, the turn goes on elsewhere.
            with contextlib.suppress(DatabaseUnavailable, SandboxError):
                await self._kill(seat)
                await self._leave(seat)
        await self.backend.close()

    def awake(self) -> list[UUID]:
        return [owner for owner, seat in self._seats.items() if seat.awake is not None]

"""Warm sandboxes put to sleep when idle, and the right to their volumes kept.

Putting to sleep is a small turn under the principal's lease; it serves no messages (``manager`` serves turns on top of
this).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from sqlalchemy import Connection

from agent.sandbox import SandboxError
from sandbox_runner import kept_state, staying_awake, texts
from sandbox_runner.published import snapshot_of, write_annexes, write_checkpoint
from sandbox_runner.seats import MARGIN_SECONDS, Seat, boottime
from sandbox_runner.uids import strip_special_bits
from sandbox_runner.waking import ANSWER_SECONDS, Waker
from workspace_store import inbox_counts, journal, memory_sessions, principal, resting, unserved
from workspace_store.database import DatabaseUnavailable
from workspace_store.journal import Event
from workspace_store.packs import VolumeError
from workspace_store.principal import LEASE_SECONDS, Lease, StaleLease
from workspace_store.tenancy import StaleTenancy, Tenancy

if TYPE_CHECKING:
    from workspace_store.cache_room import CacheRoom

log = structlog.get_logger()

IDLE_POLL_SECONDS = 0.5
RENEW_SECONDS = 3.0
ROOM_SECONDS = 60.0


@dataclass
class Keeper(Waker):
    """A waker that lets its sandboxes sleep. ``closing``: because the house does, which ends nobody's session."""

    closing: bool = False

    leaving: bool = False
    room: CacheRoom | None = None
    """Of the cache, where volumes are in an object store."""

    def leave(self) -> None:
        """This host is to be left: what no turn uses sleeps at once, whatever it asked for."""
        self.leaving = True
        self.idle_seconds = self.max_awake_seconds = 0

    async def keep(self) -> None:
        """Put idle sandboxes to sleep and keep tenancies, until cancelled."""
        renewing = asyncio.create_task(self._keep_tenancies())
        watching = asyncio.create_task(self.disk.run())
        timing = asyncio.create_task(self.timers.keep())
        making_room = asyncio.create_task(self._make_room())
        sleeping: dict[UUID, asyncio.Task[None]] = {}
        try:
            await self.backend.warm(self.guest)
            while True:
                await asyncio.sleep(IDLE_POLL_SECONDS)
                await self._release_safely()
                sleeping = {owner: task for owner, task in sleeping.items() if not task.done()}
                for owner in [*await self._idle(), *await self._to_end()]:
                    if owner not in sleeping:
                        sleeping[owner] = asyncio.create_task(self._sleep_safely(owner))
        finally:
            renewing.cancel()
            watching.cancel()
            timing.cancel()
            making_room.cancel()

    async def _make_room(self) -> None:
        while self.room is not None:
            try:
                await self._make_room_once(self.room)
            except (DatabaseUnavailable, VolumeError, OSError) as error:
                log.warning("could not make room in the cache", reason=str(error))
            except Exception:
                log.exception("could not make room in the cache")
            await asyncio.sleep(ROOM_SECONDS)

    async def _make_room_once(self, room: CacheRoom) -> None:
        found = await asyncio.to_thread(room.too_much, time.time())
        left = room.excess
        for one in found:
            if left <= 0:
                return
            if one.volume is None:
                left -= one.bytes if await asyncio.to_thread(room.remove, one) else 0
                continue
            async with self._lock(one.volume):
                in_use = one.volume in self._seats or one.volume in self.annexes.held
                if not in_use and await asyncio.to_thread(room.remove, one):
                    log.info("a sleeping volume left the cache", principal=str(one.volume), bytes=one.bytes)
                    left -= one.bytes
        if left > 0:
            log.warning(
                "the cache stays larger than storage.cache_mb: the rest is in use or not stored yet", bytes=left
            )

    async def _release_safely(self) -> None:
        try:
            await self.seating.release_owed()
            await self.release_what_is_not_seated()
        except DatabaseUnavailable as error:
            log.warning("could not look for leases left behind", reason=str(error))
        except Exception:
            log.exception("could not look for leases left behind")

    async def _idle(self) -> list[UUID]:
        now = asyncio.get_running_loop().time()
        return [
            owner
            for owner, seat in list(self._seats.items())
            if not seat.holders
            and now - seat.idle_since >= self.idle_seconds
            and not (now - seat.idle_since < self.max_awake_seconds and await self._stays_awake(seat))
        ]

    async def _stays_awake(self, seat: Seat) -> bool:
        """Whether it asked to, and something runs in it for which it would."""
        awake = seat.awake
        if awake is None or time.time() >= await asyncio.to_thread(staying_awake.wished_until, seat.volume):
            return False
        return await self._has_tasks(awake)

    async def _to_end(self) -> list[UUID]:
        """Sandboxes of the blocked and of those who are being packed, and those that show what is no longer theirs: to
        sleep when no turn is in them."""
        try:
            found = await self.database.read(partial(resting.to_end_on, host=self.seating.host))
            found += [owner for owner, seat in list(self._seats.items()) if await self.annexes.stale(seat)]
        except DatabaseUnavailable:
            return []
        # One that is seen in another's sandbox sleeps with that.
        seen = dict.fromkeys(self.annexes.held.get(owner, owner) for owner in found)
        return [owner for owner in seen if owner in self._seats and not self._seats[owner].holders]

    async def _keep_tenancies(self) -> None:
        """Renew in one statement; with SQLite the manager's lock alone counts, and there is nothing to renew."""
        renewed = boottime()
        while not self.database.is_sqlite:
            await asyncio.sleep(RENEW_SECONDS)
            asked_at = boottime()
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    held = await self.seating.renew()
                renewed = boottime()
                self._renewed(held, asked_at)
            except (DatabaseUnavailable, TimeoutError):
                if boottime() - renewed < LEASE_SECONDS - MARGIN_SECONDS - RENEW_SECONDS:
                    continue
                # Before others may take it: the next try would end after the tenancy has.
                held = set()
            except Exception:
                log.exception("could not renew tenancies")
                continue
            await self._kill_all_but(held)

    def _renewed(self, held: set[UUID], asked_at: float) -> None:
        for owner, seat in self._seats.items():
            if owner in held:
                seat.right_since = asked_at
                if seat.awake is not None:
                    self._let_live(seat, seat.awake.guest)

    async def _kill_all_but(self, held: set[UUID]) -> None:
        """Kill the sandboxes whose tenancy is gone."""
        for owner, seat in list(self._seats.items()):
            if {owner, *(annex.seat.principal for annex in seat.annexes)} <= held:
                continue
            await self._lose(seat)

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
            right: Lease | Tenancy | None = await self._lease(owner)
            if right is None and (self.leaving or await self._is_wanted(owner)):
                # Whoever has the lease waits for just this, or will.
                right = seat.tenancy
            if right is None:
                return False
            try:
                await self._sleep(seat, right)
            finally:
                try:
                    if isinstance(right, Lease):
                        await self._release(right)
                finally:
                    if seat.awake is None and (not seat.owes or self.closing):
                        await self._leave(seat)
                    elif seat.owes:
                        # Again when it has been idle for as long once more.
                        seat.idle_since = asyncio.get_running_loop().time()
        if await self.database.read(partial(inbox_counts.waiting, identifier=owner)):
            self.ring(owner)
        return True

    async def _is_wanted(self, owner: UUID) -> bool:
        return await self.database.read(partial(resting.is_to_rest, identifier=owner))

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
            left = [owner for owner in unserved.owned_by(connection, host) if owner not in self._seats]
            principal.abandon_all(connection, host, left)
            return left

        if await self.database.read(lambda connection: unserved.owned_by(connection, host)):
            for owner in await self.database.write(transaction):
                self.ring(owner)

    async def _release(self, lease: Lease) -> None:
        await self.database.write(partial(principal.abandon, lease=lease))

    async def _sleep(self, seat: Seat, right: Lease | Tenancy) -> None:
        notes = await self._shut(seat)
        held = await self._held(seat)
        published = await self._publish(seat, held.generation, None, texts.SLEEP_NOTE)
        seen = await asyncio.to_thread(kept_state.see, seat.volume, held, published.number)
        merged = await self.annexes.publish(seat, texts.SLEEP_NOTE, moving=False)
        snapshot = replace(snapshot_of(seat.tenancy, published, texts.SLEEP_NOTE, seen), merged=merged)

        def transaction(connection: Connection) -> None:
            body = {"state_digest": seen.digest, "files_changed": snapshot.changed, "notes": list(notes)}
            seq = journal.append(connection, seat.principal, [Event("sandbox.slept", body)], under=right)
            write_checkpoint(connection, seat.principal, seq, None, snapshot)
            write_annexes(connection, snapshot)
            if not self.closing:
                memory_sessions.ended(connection, seat.principal, memory_sessions.REST_SECONDS)

        await self.database.write(transaction)
        if isinstance(right, Lease):
            await self._prune(seat, right)

    async def _prune(self, seat: Seat, lease: Lease) -> None:
        """Drop old generations, unless somebody waits; what cannot be dropped now can be later."""
        try:
            if not await self.database.read(partial(inbox_counts.waiting, identifier=seat.principal)):
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
        self.closing = True
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

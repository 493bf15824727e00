"""The sandbox manager: serves turns from the warm sandboxes of a host, so that they outlive a runner's crash.

What it keeps warm, and how that is put to sleep, is ``keeper``'s. When it dies, so do they.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

from agent.sandbox import BackgroundTask, CommandResult, OutputListener, Policy, SandboxError, SandboxLost, WakeReport
from sandbox_runner import kept_state, skills, texts
from sandbox_runner.guest_connection import GuestConnection
from sandbox_runner.keeper import Keeper
from sandbox_runner.published import Snapshot, snapshot_of
from sandbox_runner.sandboxes import Look
from sandbox_runner.seats import Seat
from sandbox_runner.waking import ANSWER_SECONDS
from workspace_store import differences
from workspace_store import tenancy as tenancies
from workspace_store.crash_points import Point, reached
from workspace_store.database import DatabaseUnavailable
from workspace_store.volumes import Volume

log = structlog.get_logger()

T = TypeVar("T")

FILES_NAMED = 10


@dataclass
class Manager(Keeper):
    """A keeper that turns ask."""

    # What a turn asks for

    async def wake(self, owner: UUID, holder: object) -> tuple[WakeReport, str]:
        """A warm sandbox as it is, or a new one with the process state restored; and the live directory's id."""
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            wanted, digest = seat.fitted, None
            if seat.awake is not None:
                wanted, digest = await asyncio.gather(self.annexes.wanted(owner), asyncio.to_thread(seat.state_digest))
            if wanted != seat.fitted:
                await self._refit(seat)
            awake = seat.awake
            if awake is not None:
                report = WakeReport(awake.report.sandbox_id, False, digest)
            else:
                report = (await self._start(seat)).report
                reached(Point.SANDBOX_WOKEN)
            return report, seat.volume.live_id()

    async def _wake_for_timer(self, owner: UUID, holder: object) -> GuestConnection:
        await self.wake(owner, holder)
        awake = self._seats[owner].awake
        if awake is None:
            raise SandboxLost(texts.sandbox_lost())
        return awake.guest

    async def run(
        self,
        owner: UUID,
        *,
        call_id: str,
        command: str,
        terminal: str,
        timeout: float | None,
        background: bool,
        on_output: OutputListener,
        policy: Policy = "restart",
    ) -> CommandResult:
        seconds = timeout or self.limits.command_timeout_seconds
        if (seat := self._seats.get(owner)) is not None and seat.awake is not None:
            await self.disk.before_command(seat.awake.on_disk)
        async with self._answering(owner, seconds) as guest:
            result = await guest.run(
                call_id, command, terminal=terminal, timeout=seconds, background=background, policy=policy,
                output_bytes=self.limits.output_bytes, on_output=on_output,
            )  # fmt: skip
        reached(Point.SANDBOX_RAN)
        return await self._with_digest(owner, result)

    async def assist(self, owner: UUID, *, call_id: str, helper: str, request: str, timeout: float) -> CommandResult:
        async with self._answering(owner, timeout) as guest:
            result = await guest.assist(call_id, helper, request, timeout=timeout)
        return await self._with_digest(owner, result)

    async def result(self, owner: UUID, call_id: str) -> CommandResult | None:
        async with self._answering(owner, self.limits.command_timeout_seconds) as guest:
            result = await guest.result(call_id)
        return await self._with_digest(owner, result) if result else None

    async def _with_digest(self, owner: UUID, result: CommandResult) -> CommandResult:
        """A result with the digest of what is really published, where its command has ended."""
        seat = self._seats.get(owner)
        if seat is None or result.status == "running":
            return replace(result, state_digest=None)
        return replace(result, state_digest=await asyncio.to_thread(seat.state_digest))

    @contextlib.asynccontextmanager
    async def answering(self, owner: UUID) -> AsyncIterator[GuestConnection]:
        """The guest of a sandbox that is awake, which has to answer soon or its sandbox is killed."""
        async with self._answering(owner, 0) as guest:
            yield guest

    @contextlib.asynccontextmanager
    async def _answering(self, owner: UUID, seconds: float) -> AsyncIterator[GuestConnection]:
        seat = self._seats.get(owner)
        if seat is None or seat.awake is None:
            raise SandboxLost(texts.sandbox_lost())
        try:
            async with asyncio.timeout(seconds + ANSWER_SECONDS):
                yield seat.awake.guest
        except TimeoutError as error:
            await self._kill(seat)
            raise SandboxLost(texts.guest_silent()) from error

    async def stop_task(self, owner: UUID, task: int) -> BackgroundTask:
        async with self._answering(owner, 0) as guest:
            self._seats[owner].stopped.add(task)
            return await guest.stop_task(task)

    async def start_task(self, owner: UUID, task: int, policy: Policy | None) -> BackgroundTask:
        async with self._answering(owner, 0) as guest:
            self._seats[owner].stopped.discard(task)
            return await guest.start_task(task, policy)

    async def look(self, owner: UUID) -> Look:
        """What is there, without waking anything."""

        def read(volume: Volume) -> Look:
            return Look(volume.live_id(), kept_state.digest(volume), *kept_state.shown(volume), skills.listed(volume))

        return await self._see(owner, read, Look(None, None))

    async def _see(self, owner: UUID, read: Callable[[Volume], T], otherwise: T) -> T:
        return await self.seating.see(owner, read, otherwise, seated=owner in self._seats)

    async def skill(self, owner: UUID, name: str) -> str:
        """The instructions of a skill, without waking anything. Raises SandboxError where there is none."""
        found = await self._see(owner, partial(skills.body, name=name), None)
        if found is None:
            raise SandboxError(texts.no_such_skill(name))
        return found

    async def changed_files(self, owner: UUID, holder: object) -> tuple[list[str], int]:
        """The first few files that differ from the last committed generation, and how many there are."""
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            parent = (await self._held(seat)).generation
            await self._publish(seat, parent, None, "", lasting=False)
            changes = await asyncio.to_thread(seat.volume.diff, parent, parent + 1)
        names = [str(change.path) for change in changes if not change.is_directory]
        names = [name for name in names if not name.startswith("home/.nightporter/")]
        return names[:FILES_NAMED], len(names)

    async def check(self, owner: UUID, holder: object, turn: UUID, command: str, seconds: float) -> CommandResult:
        """A command's result in a fresh sandbox, on a copy of the files as they are now. The live one is not touched.

        Raises SandboxError, VolumeError.
        """
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            parent = (await self._held(seat)).generation
            published = await self._publish(seat, parent, turn, texts.CHECK_NOTE, lasting=False)
            folder = await asyncio.to_thread(self.checks.lay_out, seat, published.number)
        return await self.checks.run(seat, folder, command, seconds)

    @contextlib.asynccontextmanager
    async def seated(self, owner: UUID, holder: object) -> AsyncIterator[Seat]:
        """The right to the volume, without waking anything in it."""
        async with self._lock(owner):
            yield await self._seat(owner, holder)

    async def snapshot(self, owner: UUID, holder: object, turn: UUID, note: str) -> Snapshot:
        """Serialize process state and publish the next generation, for the turn to commit."""
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            held, _ = await asyncio.gather(self._held(seat), self._capture(seat))
            published = await self._publish(seat, held.generation, turn, note)
            merged = await self.annexes.publish(seat, note, moving=published.moving)
            seen = await asyncio.to_thread(kept_state.see, seat.volume, held, published.number)
            reached(Point.SANDBOX_SAVED)
            return replace(snapshot_of(seat.tenancy, published, note, seen), merged=merged)

    @staticmethod
    async def _capture(seat: Seat) -> None:
        if seat.awake is not None:
            with contextlib.suppress(SandboxError, TimeoutError):
                # What was published after the last command stands where a terminal is busy.
                async with asyncio.timeout(ANSWER_SECONDS):
                    await seat.awake.guest.capture()

    # Going back in time, for a turn that holds the lease

    async def running_tasks(self, owner: UUID) -> list[BackgroundTask]:
        """What runs in the background now, or would again from the next wake on; nothing is woken to see."""
        seat = self._seats.get(owner)
        if seat is None or seat.awake is None:
            return await self._sleeping_tasks(owner)
        async with self._answering(owner, 0) as guest:
            return [task for task in await guest.tasks() if task.state == "running"]

    async def _sleeping_tasks(self, owner: UUID) -> list[BackgroundTask]:
        held = await self.database.read(partial(tenancies.look, identifier=owner))
        return await self._see(owner, partial(kept_state.sleeping_tasks, held=held), [])

    async def rest(self, owner: UUID, holder: object, turn: UUID, note: str) -> Snapshot:
        """End the sandbox, if there is one, and publish what is there as the next generation."""
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            await self._shut(seat)
            held = await self._held(seat)
            published = await self._publish(seat, held.generation, None, note)
            merged = await self.annexes.publish(seat, note, moving=False)
            seen = await asyncio.to_thread(kept_state.see, seat.volume, held, published.number)
            return replace(snapshot_of(seat.tenancy, published, note, seen), merged=merged)

    async def rewind(
        self,
        owner: UUID,
        holder: object,
        turn: UUID,
        *,
        to: int,
        number: int,
        path: str | None,
        root: str | None,
        note: str,
    ) -> Snapshot:
        """Make the volume equal to generation ``to``, or only what is at ``path`` in it, as generation ``number``.

        The same again does the same. Raises SandboxError, VolumeError, FileNotFoundError, UnsafePath.
        """
        async with self._lock(owner):
            seat = await self._seat(owner, holder)
            await self._shut(seat)
            held = await self._held(seat)
            if held.generation != number - 1:
                raise SandboxError(texts.moved_on())
            published = await asyncio.to_thread(
                seat.volume.restore, to, as_generation=number, path=path, root=root, turn=turn.hex, note=note
            )
            await self._hand_in(seat, published)
            # What an older generation or an archive holds was asked for by a person, whoever sealed it.
            wanted = path is None or kept_state.STATE_FILE.startswith(path)
            seen = await asyncio.to_thread(kept_state.see, seat.volume, held, published.number, wanted=wanted)
            return snapshot_of(seat.tenancy, published, note, seen)

    async def differences(self, owner: UUID, before: int, after: int) -> str:
        """What changed between two generations, to be read."""

        def read() -> str:
            with self.seating.volumes.open(owner) as volume:
                volume.refresh()
                return differences.between(volume, before, after)

        return await asyncio.to_thread(read)

    async def give_back(self, owner: UUID, holder: object) -> None:
        """A turn is done with a sandbox: it is idle from now on, if nobody else holds it."""
        async with self._lock(owner):
            seat = self._seats.get(owner)
            if seat is None:
                return
            seat.holders.discard(holder)
            seat.idle_since = asyncio.get_running_loop().time()
            if not seat.holders and seat.awake is None and not seat.owes:
                await self._leave(seat)

    async def let_go(self, holder: object) -> None:
        """A runner's connection has ended: what it held is idle."""
        held = [owner for owner, seat in self._seats.items() if holder in seat.holders]
        for owner in held:
            self._seats[owner].holders.discard(holder)
        for owner in held:
            try:
                await self.give_back(owner, holder)
            except DatabaseUnavailable as error:
                # It sleeps as an idle one does, once the database is back.
                log.warning("could not give a volume back", principal=str(owner), reason=str(error))

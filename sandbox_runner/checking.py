"""Checks of what was claimed, each in a sandbox of its own: fresh, on a copy of one generation, without network.

Nothing of the live sandbox is in it (no shell state, no process, no file that is not in the generation), and nothing
that the check does stays: the copy goes with the sandbox. So a check that was cut off may simply be run again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from agent.sandbox import CommandResult, SandboxLimits, SandboxLost
from sandbox_runner import texts
from sandbox_runner.backend import Backend, Launch, RunningSandbox
from sandbox_runner.disk_watch import DiskWatch
from sandbox_runner.guest_connection import GuestConnection
from sandbox_runner.on_disk import OnDisk
from sandbox_runner.seats import Seat
from workspace_store.beneath import remove_path

FOLDER = "checks"
OWN_FOLDER = ".nightporter"
START_SECONDS = 30.0
OUTPUT_BYTES = 64 << 10


@dataclass
class Checks:
    """Runs one check a principal at a time."""

    backend: Backend
    guest: Path
    limits: SandboxLimits
    disk: DiskWatch
    _running: dict[UUID, RunningSandbox] = field(default_factory=dict)

    def lay_out(self, seat: Seat, generation: int) -> Path:
        """A copy of a generation, with nothing else in it. Raises VolumeError, OSError. Blocking."""
        folder = seat.volume.path / FOLDER
        remove_path(folder)  # what a killed manager left
        folder.mkdir(mode=0o700)
        seat.volume.lay_out(generation, folder)
        remove_path(folder / "home" / OWN_FOLDER)  # whose shells and background tasks would come back
        return folder

    async def run(self, seat: Seat, folder: Path, command: str, seconds: float) -> CommandResult:
        """The command's result in a fresh sandbox on ``folder``, which goes with it. Raises SandboxError."""
        owner = seat.principal
        launch = Launch(
            f"check-{owner.hex[:12]}-{uuid4().hex[:8]}", folder / "workspace", folder / "home", self.guest, self.limits,
            seat.host_uid,
        )  # fmt: skip
        try:
            running = self._running[owner] = await self.backend.start(launch)
            try:
                return await self._run(running, folder, command, seconds)
            finally:
                await running.stop()
        finally:
            self._running.pop(owner, None)
            await asyncio.to_thread(remove_path, folder)

    async def _run(self, running: RunningSandbox, folder: Path, command: str, seconds: float) -> CommandResult:
        try:
            async with asyncio.timeout(START_SECONDS):
                guest = await GuestConnection.over(running.socket)
                await guest.restore()
            watched = OnDisk((folder / "workspace", folder / "home"), running, guest, running.stop)
            self.disk.add(watched)
            try:
                async with asyncio.timeout(seconds + START_SECONDS):
                    return await guest.run("check", command, timeout=seconds, output_bytes=OUTPUT_BYTES)
            finally:
                self.disk.remove(watched)
                await guest.close()
        except TimeoutError as error:
            raise SandboxLost(texts.guest_silent()) from error

    async def stop(self, owner: UUID) -> None:
        """End a principal's check, if one runs: whoever waits for it is told that its sandbox is lost."""
        if (running := self._running.get(owner)) is not None:
            await running.stop()

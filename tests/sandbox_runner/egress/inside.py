"""A real sandbox with its real guest and relay, whose way out is the yard's proxy."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from agent.sandbox import CommandResult, SandboxLimits
from sandbox_runner.backend import Backend, Launch, RunningSandbox
from sandbox_runner.guest_connection import GUEST_FOLDER, GuestConnection
from sandbox_runner.testing import own_uid, volume
from tests.sandbox_runner.egress.yard import Yard

_numbers = itertools.count(1)


@dataclass
class Inside:
    sandbox: RunningSandbox
    guest: GuestConnection
    workspace: Path

    async def run(self, command: str, seconds: float = 60) -> CommandResult:
        return await self.guest.run(f"call-{next(_numbers)}", command, timeout=seconds)

    async def output(self, command: str, seconds: float = 60) -> str:
        return (await self.run(command, seconds)).output.strip()


@contextlib.asynccontextmanager
async def inside(
    made: Yard, backend: Backend, folder: Path, number: int = 1, *, state: bytes | None = None
) -> AsyncIterator[Inside]:
    """A sandbox of the yard's owner, woken from a process state."""
    uid = own_uid(number)
    workspace, home = volume(folder, uid)
    name = f"egress-{os.getpid()}-{next(_numbers)}"
    socket = made.door.open(name, made.tenancy, uid)
    limits = SandboxLimits(memory_mb=512, processes=128, disk_mb=64, environment=made.settings.environment())
    launch = Launch(name, workspace, home, GUEST_FOLDER, limits, uid, socket, made.door.trust_bundle)
    sandbox = await backend.start(launch)
    try:
        guest = await GuestConnection.over(sandbox.socket)
        await guest.restore(state)
        yield Inside(sandbox, guest, workspace)
        await guest.close()
    finally:
        await sandbox.stop()
        made.door.close(name)

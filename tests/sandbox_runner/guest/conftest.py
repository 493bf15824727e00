"""A real guest agent as a subprocess of the test, with HOME and workspace under ``tmp_path``."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.sandbox import BackgroundTask, CommandResult
from sandbox_runner.guest_connection import GuestConnection, guest_arguments
from sandbox_runner.guest_frames import Restored


class Guest:
    """One life of a guest, and shorthands for asking it."""

    def __init__(
        self, connection: GuestConnection, process: subprocess.Popen[bytes], restored: Restored | None
    ) -> None:
        self.connection = connection
        self.process = process
        self.restored = restored
        self.ended_tasks: asyncio.Queue[BackgroundTask] = asyncio.Queue()
        self._calls = 0

    async def run(self, command: str, *, timeout: float = 20.0, **options: Any) -> CommandResult:
        self._calls += 1
        call_id = options.pop("call_id", f"{self.process.pid}-{self._calls}")
        return await self.connection.run(call_id, command, timeout=timeout, **options)

    async def output(self, command: str, **options: Any) -> str:
        result = await self.run(command, **options)
        assert result.status == "exited", result
        return result.output

    async def kill(self) -> None:
        """As a host that dies: nothing is asked of the guest."""
        await self.connection.close()
        self.process.wait(10)


class House:
    """What outlives a guest: its home and workspace."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.temporary = folder / "tmp"
        for path in (self.home, self.workspace, self.temporary):
            path.mkdir()
        self.guests: list[Guest] = []

    @property
    def state_path(self) -> Path:
        return self.home / ".nightporter" / "session_state.json"

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.state_path.read_text())
        return state

    def kept(self) -> bytes | None:
        """What a host would hand over: here whatever is there, authentic or not."""
        try:
            return self.state_path.read_bytes()
        except OSError:
            return None

    async def wake(
        self,
        *,
        environment: dict[str, str] | None = None,
        processes: int | None = None,
        restore: bool = True,
    ) -> Guest:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            guest_arguments(sys.executable, theirs.fileno(), workspace=str(self.workspace), processes=processes),
            pass_fds=[theirs.fileno()],
            cwd="/",
            env={
                "HOME": str(self.home),
                "PATH": os.environ["PATH"],
                "TMPDIR": str(self.temporary),
                **(environment or {}),
            },
        )
        theirs.close()
        ended: list[Callable[[BackgroundTask], None]] = []
        connection = await GuestConnection.over(
            ours, on_task_ended=lambda task: [tell(task) for tell in ended] and None
        )
        await connection.hello()
        guest = Guest(connection, process, await connection.restore(self.kept()) if restore else None)
        ended.append(guest.ended_tasks.put_nowait)
        self.guests.append(guest)
        return guest


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    for guest in house.guests:
        await guest.kill()


@pytest.fixture
async def guest(house: House) -> Guest:
    return await house.wake()

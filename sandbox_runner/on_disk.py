"""An awake sandbox as the watch on the disk needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox_runner.backend import RunningSandbox
from sandbox_runner.guest_connection import GuestConnection


@dataclass(frozen=True, eq=False)
class OnDisk:
    """See ``disk_watch.Watched``. ``end`` ends the sandbox if it still is this one."""

    trees: tuple[Path, ...]
    running: RunningSandbox
    guest: GuestConnection
    end: Callable[[], Awaitable[None]]

    @property
    def first_pid(self) -> int | None:
        return self.running.pid or None

    async def hold(self, note: str) -> None:
        await self.guest.hold(note)

    async def release(self) -> None:
        await self.guest.release()

    async def give_up(self) -> None:
        await self.end()

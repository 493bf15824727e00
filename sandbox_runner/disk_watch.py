"""The watch on the disk: a sandbox that takes more than its share is paused, and told how to go on.

Works for root and for an ordinary user, on any filesystem. Five times a second one look at the filesystem says whether
a sandbox can have grown past its limit at all; only then its tree is measured. Whatever wrote is paused (SIGSTOP, by
the guest, which keeps its terminals usable: what helps is deleting files) and goes on by itself once there is room.
A guest that does not obey at once loses its sandbox. Who keeps writing beyond the limit waits ever longer for the next
command.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from agent.sandbox import SandboxError
from sandbox_runner import texts
from sandbox_runner.disk_usage import NOTHING, DiskUsage, Filesystem, measure
from workspace_store.beneath import TreeMoved

log = structlog.get_logger()

LOOK_SECONDS = 0.2
MEASURE_AGAIN_SECONDS = 1.0
"""While something runs, whatever the filesystem says: another's deletions may hide growth."""
LOAD = 0.1
"""The share of one processor that measuring may take."""
OBEY_SECONDS = 1.0
SLACK_BYTES = 8 << 20
SLACK_FILES = 200
NOISE_BYTES = 64 << 10
MOST_WAIT_SECONDS = 60.0


class Watched(Protocol):
    """A sandbox as the watch needs it."""

    @property
    def trees(self) -> Sequence[Path]: ...

    @property
    def first_pid(self) -> int | None:
        """The host's pid of its first process; None: it has none that could be looked at."""
        ...

    async def hold(self, note: str) -> None:
        """Pause whatever runs, and tell. Raises SandboxError."""
        ...

    async def release(self) -> None:
        """Let what was paused go on. Raises SandboxError."""
        ...

    async def give_up(self) -> None:
        """End the sandbox."""
        ...


@dataclass
class _Meter:
    """What is known of one sandbox. Times are ``now``'s."""

    sandbox: Watched
    usage: DiskUsage = NOTHING
    filesystem: DiskUsage | None = None
    """What was used of the whole filesystem when it was measured; None: not measured yet."""
    measured_at: float = 0.0
    cost: float = 0.0
    held: DiskUsage | None = None
    """What it took when it was paused last; None: it is within its limit."""
    strikes: int = 0
    free_at: float = 0.0
    """When the next command may begin."""
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class DiskWatch:
    """Watches the sandboxes it is given. ``root``: a path on the filesystem of the volumes."""

    root: Path
    limit: DiskUsage
    now: Callable[[], float] = time.monotonic
    _meters: dict[Watched, _Meter] = field(default_factory=dict)

    def add(self, sandbox: Watched) -> None:
        self._meters[sandbox] = _Meter(sandbox)

    def remove(self, sandbox: Watched) -> None:
        self._meters.pop(sandbox, None)

    async def before_command(self, sandbox: Watched) -> None:
        """Wait where this sandbox went on writing beyond its limit."""
        meter = self._meters.get(sandbox)
        if meter is not None and meter.held is not None and (wait := meter.free_at - self.now()) > 0:
            await asyncio.sleep(wait)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._meters:
                continue
            try:
                filesystem = (await asyncio.to_thread(Filesystem.of, self.root)).used
            except OSError as error:
                log.warning("could not look at the disk", reason=str(error))
                continue
            due = [meter for meter in self._meters.values() if not meter.busy.locked() and self._due(meter, filesystem)]
            await asyncio.gather(*(self._check(meter) for meter in due))

    def _due(self, meter: _Meter, filesystem: DiskUsage) -> bool:
        """Whether it can have crossed its limit, either way, since it was measured."""
        if meter.filesystem is None:
            return True
        grown = filesystem.bytes - meter.filesystem.bytes
        more = filesystem.files - meter.filesystem.files
        since = self.now() - meter.measured_at
        if since >= max(MEASURE_AGAIN_SECONDS, meter.cost * len(self._meters) / LOAD):
            return True
        if meter.held is not None:
            return abs(grown) > NOISE_BYTES or more != 0
        return grown > self.limit.bytes - meter.usage.bytes or more > self.limit.files - meter.usage.files

    async def _check(self, meter: _Meter) -> None:
        async with meter.busy:
            if meter.sandbox not in self._meters:
                return
            await self._measure(meter)
            try:
                await self._judge(meter)
            except (SandboxError, TimeoutError) as error:
                log.warning("a sandbox beyond its disk limit does not obey; ending it", reason=str(error))
                with contextlib.suppress(SandboxError):
                    await meter.sandbox.give_up()

    async def _measure(self, meter: _Meter) -> None:
        began = self.now()
        filesystem = (await asyncio.to_thread(Filesystem.of, self.root)).used
        try:
            usage = await asyncio.to_thread(measure, meter.sandbox.trees, meter.sandbox.first_pid)
        except (TreeMoved, OSError) as error:
            # What hides its size has grown as much as the filesystem has.
            before = meter.filesystem or filesystem
            grown = max(0, filesystem.bytes - before.bytes)
            usage = DiskUsage(meter.usage.bytes + grown, meter.usage.files)
            log.debug("a sandbox's tree could not be measured", reason=str(error))
        meter.usage, meter.filesystem = usage, filesystem
        meter.measured_at = self.now()
        meter.cost = meter.measured_at - began

    async def _judge(self, meter: _Meter) -> None:
        usage = meter.usage
        if not usage.over(self.limit):
            if meter.held is not None:
                meter.held, meter.strikes = None, 0
                async with asyncio.timeout(OBEY_SECONDS):
                    await meter.sandbox.release()
            return
        if meter.held is not None:
            slack = DiskUsage(meter.held.bytes + SLACK_BYTES, meter.held.files + SLACK_FILES)
            if not usage.over(slack):
                if usage.bytes < meter.held.bytes or usage.files < meter.held.files:
                    meter.held, meter.strikes = usage, 0
                return
            meter.strikes += 1
            meter.free_at = self.now() + min(2.0**meter.strikes, MOST_WAIT_SECONDS)
        first = meter.held is None
        meter.held = usage
        async with asyncio.timeout(OBEY_SECONDS):
            await meter.sandbox.hold(texts.disk_full(usage.bytes, self.limit.bytes, usage.files, self.limit.files))
        if first:
            log.info("a sandbox is beyond its disk limit and was paused", bytes=usage.bytes, files=usage.files)

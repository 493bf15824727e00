"""A sandbox that writes beyond its share of the disk: paused within a second of the write that went beyond it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path

import structlog

from agent.sandbox import SandboxLimits
from bench.sandbox import managing, run
from bench.table import Row, show

LIMIT_MB = 64
# It says when it went beyond the limit, and when it last wrote: by its own clock, and so until it was stopped.
WRITER = """
python3 - <<'END'
import os, time
chunk, crossed = bytes(1 << 20), None
for number in range(4000):
    with open(f"f{number}", "wb") as file:
        file.write(chunk)
    now = time.monotonic()
    if crossed is None and number >= 64:
        crossed = now
    if crossed is not None:
        with open("/tmp/beyond", "w") as said:
            said.write(str((now - crossed) * 1000))
    time.sleep(0.002)
END
"""


async def measured(count: int) -> list[Row]:
    beyond = []
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        async with managing(Path(folder), SandboxLimits(cpus=2.0, disk_mb=LIMIT_MB)) as (manager, owner):
            for _ in range(count):
                await manager.wake(owner, "bench")
                await run(manager, owner, "rm -f f*")
                await run(manager, owner, WRITER)
                beyond.append(float(await run(manager, owner, "cat /tmp/beyond")))
                await run(manager, owner, "rm -f f*")
                await manager._kill(manager._seats[owner])
    return [Row("beyond the disk limit until paused", beyond, 1000, "ms")]


def measure(count: int = 5) -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return asyncio.run(measured(count))


if __name__ == "__main__":
    show(measure())

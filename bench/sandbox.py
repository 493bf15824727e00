"""A sandbox by itself: wake (mount and restore) 60 ms, capture 15 ms, teardown 50 ms and 250 ms when it is full.

The manager's own steps are measured, with a database, a volume and process state as a principal has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from uuid import UUID

import structlog

from agent.sandbox import SandboxLimits
from bench.table import Row, show
from identity import users
from identity.users import Claim
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.manager import Manager
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import Seating
from sandbox_runner.uids import HostUids
from workspace_store import schema
from workspace_store.blobs import DirectoryBlobs
from workspace_store.database import Database
from workspace_store.liveness import Life
from workspace_store.volumes import Volumes

STATE = """
export FOO=1 PATH=$PATH:/workspace/bin; declare -a list=(one two "three four"); declare -A map=([a]=1 [b]=2)
greet() { echo "hello $1"; }; alias ll='ls -l'; trap 'echo bye' EXIT; umask 027; set -o noclobber; shopt -s extglob
cd /tmp
"""
# Two hundred processes that hold half a gigabyte, every way of leaving one's parent among them.
FULL = """
python3 - <<'END' >/dev/null 2>&1 &
import os, time
for number in range(190):
    if os.fork() == 0:
        if number % 3 == 0: os.setsid()
        if number % 3 == 1 and os.fork(): os._exit(0)
        data = bytearray(os.urandom(4096) * 640)
        open(f'/tmp/full-{number}', 'w').close()
        time.sleep(1000)
time.sleep(1000)
END
for _ in {1..600}; do set -- /tmp/full-*; [ $# -ge 190 ] && break; sleep 0.05; done; echo $#
"""


@contextlib.asynccontextmanager
async def managing(folder: Path, limits: SandboxLimits | None = None) -> AsyncIterator[tuple[Manager, UUID]]:
    """A sandbox manager as a host has one, and somebody to keep sandboxes for."""
    url = f"sqlite:///{folder}/nightporter.db"
    schema.upgrade(url)
    database = Database(url)
    owner = database.write_now(
        lambda connection: users.create(connection, Claim("local", "", "owner", "owner", "token"), "admin")
    ).id
    (folder / "run").mkdir()
    uids = HostUids.of(folder)
    backend = BubblewrapBackend(folder / "run", host_uids=uids)
    backend.reap()
    life = Life(folder / "lives", "sandbox-manager", "bench")
    seating = Seating(life.id, database, Volumes(folder / "volumes"), folder / "lives", uids)
    limits = limits or SandboxLimits(cpus=2.0)
    files = SeatFiles(DirectoryBlobs(folder / "blobs"))
    manager = Manager(seating, backend, GUEST_FOLDER, limits, 300, lambda _: None, files)
    keeping = asyncio.create_task(manager.keep())
    try:
        probe = await backend.probe()
        if not probe.works:
            raise SystemExit(f"no sandbox works here: {probe.reason} {probe.remedy}")
        await backend.warm(GUEST_FOLDER)
        yield manager, owner
    finally:
        keeping.cancel()
        await manager.close(5)
        life.end()
        database.close()


async def timed(step: Awaitable[object]) -> float:
    start = time.perf_counter()
    await step
    return (time.perf_counter() - start) * 1000


async def run(manager: Manager, owner: UUID, command: str) -> str:
    result = await manager.run(
        owner, call_id=f"bench-{time.monotonic_ns()}", command=command, terminal="main", timeout=60, background=False,
        on_output=lambda _: None,
    )  # fmt: skip
    return result.output


async def measured(count: int) -> list[Row]:
    wakes, captures, ends, full = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        async with managing(Path(folder)) as (manager, owner):
            await manager.wake(owner, "bench")
            await run(manager, owner, STATE)
            for _ in range(count):
                await manager.give_back(owner, "bench")
                assert await manager.sleep(owner)
                wakes.append(await timed(manager.wake(owner, "bench")))
                assert await run(manager, owner, 'greet "$FOO ${list[2]}"; pwd') == "hello 1 three four\n/tmp\n"
                captures.append(await timed(run(manager, owner, ":")))
                ends.append(await timed(manager._dismantle(manager._seats[owner])))
                await manager.wake(owner, "bench")
            for _ in range(max(3, count // 8)):
                left = await run(manager, owner, FULL)
                assert left.split()[-1] == "190", left
                full.append(await timed(manager._dismantle(manager._seats[owner])))
                await manager.wake(owner, "bench")
    return [
        Row("wake: mount and restore", wakes, 60, "ms"),
        Row("capture, with the command it follows", captures, 15, "ms"),
        Row("teardown", ends, 50, "ms"),
        Row("teardown of 200 processes with 500 MB", full, 250, "ms"),
    ]


def measure(count: int = 30) -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return asyncio.run(measured(count))


if __name__ == "__main__":
    show(measure())

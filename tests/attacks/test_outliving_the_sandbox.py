"""No process outlives its sandbox: not by setsid, nohup or a double fork, not when its manager is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sandbox import SandboxLimits
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.cgroups import CgroupParents
from sandbox_runner.reaper import identify
from sandbox_runner.testing import shell

MANY = (
    "for i in $(seq 66); do setsid sleep {n} & nohup sleep {n} & (setsid sleep {n} &) & done > /dev/null 2>&1; "
    "trap '' TERM HUP INT; sleep 0.3"
)


def sleeping(seconds: int) -> list[int]:
    return [pid for pid in _pids() if _cmdline(pid) == f"sleep\0{seconds}\0".encode()]


async def test_stop_ends_two_hundred_detached_processes(backend: BubblewrapBackend, tmp_path: Path) -> None:
    seconds = 40_000 + os.getpid() % 10_000
    async with shell(backend, tmp_path, limits=SandboxLimits(memory_mb=512, processes=256)) as inside:
        await inside.run(MANY.format(n=seconds))
        assert len(sleeping(seconds)) >= 190
        before = time.monotonic()
        await inside.sandbox.stop()
        took = time.monotonic() - before
        assert sleeping(seconds) == []
        assert identify(inside.sandbox.pid) is None
        assert took < 6, took  # two seconds, and what a loaded machine adds


HOLDING = """
import os, time
for number in range(200):
    if os.fork() == 0:
        if number % 3 == 1: os.setsid()
        if number % 3 == 2 and os.fork() > 0: os._exit(0)
        held = bytearray(os.urandom(1) * 2_500_000)
        time.sleep(1000)
        os._exit(0)
"""


@pytest.mark.slow
async def test_stop_ends_two_hundred_processes_with_five_hundred_megabytes_and_leaves_no_mount_or_group(
    backend: BubblewrapBackend, tmp_path: Path
) -> None:
    """Plain ones, those in sessions of their own and twice forked ones; and a fork bomb on top."""
    mounts = Path("/proc/self/mounts").read_text()
    limits = SandboxLimits(memory_mb=1024, processes=256)
    async with shell(backend, tmp_path, sandbox_id=f"heavy-{os.getpid()}", limits=limits) as inside:
        await inside.python(HOLDING)
        await inside.run("(setsid sh -c ':(){ :|:& };:' > /dev/null 2>&1 &); sleep 0.3; true")
        assert len(_of_this_test(tmp_path)) >= 150
        before = time.monotonic()
        await inside.sandbox.stop()
        took = time.monotonic() - before
    assert _of_this_test(tmp_path) == []
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not list(Path("/sys/fs/cgroup").glob(f"**/heavy-{os.getpid()}"))
    assert took < 10, took


async def test_stop_ends_a_frozen_and_a_stopped_sandbox(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path) as inside:
        await inside.run("sleep 5000 > /dev/null 2>&1 & kill -STOP $!")
        await inside.sandbox.freeze()
        async with asyncio.timeout(3):
            await inside.sandbox.stop()
        assert identify(inside.sandbox.pid) is None
        assert await inside.sandbox.wait() == "it was stopped"


MANAGER = """
import asyncio, json, sys
from pathlib import Path
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell

async def main():
    backend = BubblewrapBackend(Path(sys.argv[1]) / "run")
    async with shell(backend, Path(sys.argv[1]) / "volume") as inside:
        await inside.run("setsid sleep %(n)d > /dev/null 2>&1 &")
        await inside.run("(trap '' HUP TERM; exec sleep %(n)d) > /dev/null 2>&1 & sleep 0.3")
        print(json.dumps([inside.sandbox.pid, backend._spawner.pid]), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("victim", ["manager", "spawner"])
async def test_killing_the_manager_leaves_nothing(backend: BubblewrapBackend, tmp_path: Path, victim: str) -> None:
    seconds = 50_000 + os.getpid() % 10_000
    manager = _manager(MANAGER % {"n": seconds}, tmp_path)
    try:
        assert manager.stdout is not None
        pid, spawner = json.loads(manager.stdout.readline())
        assert len(sleeping(seconds)) == 2
        os.kill(manager.pid if victim == "manager" else spawner, signal.SIGKILL)
        await _until(lambda: not sleeping(seconds) and identify(pid) is None and identify(spawner) is None)
    finally:
        manager.kill()
        manager.wait()
    assert len(backend.reap()) == 1  # its record and its control groups


@pytest.mark.slow
async def test_a_manager_killed_right_after_the_spawn_leaves_nothing(
    backend: BubblewrapBackend, tmp_path: Path
) -> None:
    """At many moments of a start, since ``--die-with-parent`` is set only after a while."""
    program = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell

def kill(after):
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    folder = Path(sys.argv[1])
    backend = BubblewrapBackend(folder / "run")
    backend._spawner._started()
    await asyncio.sleep(0.1)
    threading.Thread(target=kill, args=[float(sys.argv[2])], daemon=True).start()
    async with shell(backend, folder / "volume"):
        await asyncio.sleep(10)

asyncio.run(main())
"""
    for step in range(12):
        manager = _manager(program, tmp_path, str(step * 0.0025))
        manager.wait()
        assert manager.returncode == -signal.SIGKILL
        await _until(lambda: not _of_this_test(tmp_path))
        backend.reap()
        assert _of_this_test(tmp_path) == []


async def test_reaping_finds_a_group_that_another_manager_made_elsewhere(
    backend: BubblewrapBackend, tmp_path: Path
) -> None:
    if backend._cgroups is None:
        pytest.skip("no control group is writable here")
    elsewhere = {name: path.parent / f"{path.name}-old" for name, path in backend._cgroups.parents.items()}
    group = CgroupParents(backend._cgroups.version, elsewhere).create("lost")
    process = subprocess.Popen(["sleep", "60"])
    for path in group.procs:
        Path(path).write_text(str(process.pid))
    backend._records.intend("lost", group)
    assert backend.reap() == ["lost"]
    assert process.wait(5) == -signal.SIGKILL
    assert not any(path.exists() for path in elsewhere.values())


async def test_reaping_ends_what_is_recorded_and_nothing_else(backend: BubblewrapBackend, tmp_path: Path) -> None:
    """A recorded pid that belongs to another process by now is left alone."""
    innocent = subprocess.Popen(["sleep", "60"])
    guilty = subprocess.Popen(["sleep", "60"])
    try:
        records = backend._records
        records.started(records.intend("old"), guilty.pid)
        records.started(records.intend("mistaken"), innocent.pid)
        path = records.folder / "mistaken.json"
        ticks = identify(innocent.pid)
        assert ticks is not None
        path.write_text(path.read_text().replace(str(ticks.start_ticks), str(ticks.start_ticks - 1)))
        assert backend.reap() == ["mistaken", "old"]
        assert guilty.wait(5) == -signal.SIGKILL
        assert innocent.poll() is None
        assert backend.reap() == []
    finally:
        for process in (innocent, guilty):
            process.kill()
            process.wait()


def _manager(program: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def _until(condition: Callable[[], bool], seconds: float = 5) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def _of_this_test(folder: Path) -> list[int]:
    """Processes that have this test's volume mounted, or its manager's spawner as their origin."""
    found = []
    for pid in _pids():
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            continue
        if f"{folder.name}/volume/workspace" in mounts or f"{folder.name}/workspace" in mounts:
            found.append(pid)
    return found


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

"""From inside, PID 1 cannot be killed, traced or read into; where it ends, the sandbox ends with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.reaper import identify
from sandbox_runner.testing import Shell, shell


@pytest.mark.parametrize("name", ["KILL", "STOP", "TERM", "SEGV"])
async def test_signal_to_pid_1_has_no_effect(inside: Shell, name: str) -> None:
    await inside.run(f"kill -{name} 1")
    assert await inside.run("echo alive") == "alive"


async def test_killing_everything_reaches_nothing_outside(inside: Shell) -> None:
    await inside.run("kill -KILL -1")
    assert await inside.run("echo alive") == "alive"
    assert await inside.run("kill -0 $PPID && ls /proc | grep -c '^[0-9]'") in ("3", "4", "5")


async def test_memory_of_pid_1_is_not_reached_by_calls(inside: Shell) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno(), libc.process_vm_readv(1, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
    assert await inside.python(program) == "-1 1 -1 1"


async def test_the_end_of_pid_1_is_the_end_of_the_sandbox(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path) as inside:
        await inside.run("setsid sleep 5000 > /dev/null 2>&1 &")
        # Python's own handler for SIGINT is the one way in, and it leads out.
        with pytest.raises(ConnectionError):
            await inside.run("kill -INT 1; sleep 1")
        async with asyncio.timeout(3):
            assert "KeyboardInterrupt" in await inside.sandbox.wait()
        assert identify(inside.sandbox.pid) is None


async def test_nobody_else_s_processes_are_seen(inside: Shell) -> None:
    pids = [int(pid) for pid in (await inside.run("ls /proc | grep '^[0-9]'")).split()]
    assert 1 in pids
    assert len(pids) < 6

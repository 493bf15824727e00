"""Nothing of the host's environment is inside, neither in a shell nor in any process's /proc/PID/environ."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell


async def test_secret_of_the_caller_is_not_inside(
    backend: BubblewrapBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTPORTER_TEST_SECRET", "hunter2")
    async with shell(backend, tmp_path) as inside:
        # The stand-in is dumpable, so that this file can be read at all: an agent that is not would hide a leak.
        first = await inside.run("tr '\\0' '\\n' < /proc/1/environ | sort")
        assert "PATH=" in first
        assert "hunter2" not in await inside.run("cat /proc/[0-9]*/environ; env; cat /proc/[0-9]*/cmdline")
        names = {line.partition("=")[0] for line in first.splitlines()}
        assert names == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "PWD"}


async def test_pid_1_is_the_guest(backend: BubblewrapBackend, tmp_path: Path) -> None:
    """Bubblewrap's own PID 1 would keep its environment and options readable."""
    async with shell(backend, tmp_path) as inside:
        assert (await inside.run("tr '\\0' ' ' < /proc/1/cmdline")).startswith(
            "/opt/nightporter/bin/nightporter: guest -I -S -B"
        )
        assert "bwrap" not in await inside.run("cat /proc/*/comm")

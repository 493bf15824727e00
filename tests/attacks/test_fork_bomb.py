"""A fork bomb stays within its limit, and ends with its sandbox in a moment."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.sandbox import SandboxLimits
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell

BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""


@pytest.mark.parametrize("use_cgroups", [True, False])
async def test_fork_bomb(tmp_path: Path, backend: BubblewrapBackend, use_cgroups: bool) -> None:
    (tmp_path / "run2").mkdir()
    other = BubblewrapBackend(tmp_path / "run2", use_cgroups=use_cgroups)
    async with shell(other, tmp_path / "v", limits=SandboxLimits(memory_mb=512, processes=64)) as inside:
        await inside.run(
            "cat > /tmp/bomb.py <<'EOT'\n" + BOMB + "\nEOT\nsetsid python3 /tmp/bomb.py > /dev/null 2>&1 &"
        )
        await asyncio.sleep(1.0)
        counted = [path for path in Path("/proc").glob("[0-9]*") if _in_namespace(path, inside.sandbox.pid)]
        assert 30 < len(counted) <= 66
        before = time.monotonic()
        await inside.sandbox.stop()
        assert time.monotonic() - before < 6  # two seconds, and what a loaded machine adds
        assert not any(path.exists() and _is_bomb(path) for path in Path("/proc").glob("[0-9]*"))
    await other.close()


def _in_namespace(path: Path, pid: int) -> bool:
    """Whether it descends from the sandbox's PID 1 (orphans in a namespace are adopted by it)."""
    current = int(path.name)
    while current > 1:
        if current == pid:
            return True
        try:
            current = int(Path(f"/proc/{current}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _is_bomb(path: Path) -> bool:
    try:
        return b"/tmp/bomb.py" in (path / "cmdline").read_bytes()
    except OSError:
        return False

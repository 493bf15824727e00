"""Too much memory ends a process of the sandbox, in its own control group, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sandbox import SandboxLimits
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell

EAT = "python3 -c 'x = bytearray(400 << 20); print(len(x))'; echo $?"


async def test_memory_bomb_in_its_group(backend: BubblewrapBackend, tmp_path: Path) -> None:
    if "total memory is bounded" not in (await backend.probe()).promises:
        pytest.skip("no memory control group is writable here")
    async with shell(backend, tmp_path, limits=SandboxLimits(memory_mb=96)) as inside:
        assert inside.sandbox.oom_kills() == 0
        assert (await inside.run(EAT)).splitlines()[-1] == "137"
        assert inside.sandbox.oom_kills() >= 1
        assert await inside.run("echo alive") == "alive"
        usage = inside.sandbox.usage()
        assert usage.memory_bytes is not None
        assert 0 < usage.memory_bytes <= 96 << 20
        assert usage.processes is not None
        assert usage.processes >= 2


async def test_shared_memory_and_tmp_count(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path, limits=SandboxLimits(memory_mb=96)) as inside:
        for folder in ("/tmp", "/dev/shm"):
            file = f"{folder}/big"
            answer = await inside.run(
                f"head -c 80M /dev/zero > {file}; size=$(stat -c %s {file}); rm {file}; echo $size"
            )
            assert 20 << 20 < int(answer.splitlines()[-1]) <= 24 << 20


async def test_memory_of_a_process_is_bounded_without_groups(backend: BubblewrapBackend, tmp_path: Path) -> None:
    (tmp_path / "run2").mkdir()
    other = BubblewrapBackend(tmp_path / "run2", use_cgroups=False)
    async with shell(other, tmp_path / "v", limits=SandboxLimits(memory_mb=128)) as inside:
        assert "MemoryError" in await inside.run(EAT)
    await other.close()


async def test_a_file_cannot_be_larger_than_the_disk_limit(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path, limits=SandboxLimits(disk_mb=4)) as inside:
        await inside.run("head -c 8M /dev/zero > /workspace/big")
        assert (inside.workspace / "big").stat().st_size == 4 << 20

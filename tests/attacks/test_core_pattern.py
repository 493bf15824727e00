"""The kernel's settings cannot be opened for writing (as host uid 0 they could, without any capability)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.sandbox import SandboxUnavailable
from sandbox_runner.backend import Launch
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import Shell


@pytest.mark.parametrize(
    "path",
    ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/1/oom_score_adj"],
)
async def test_kernel_setting_is_not_writable(inside: Shell, path: str) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    answer = await inside.run(f"(exec 3>{path}) && [ {path} != /proc/1/oom_score_adj ] && echo opened")
    assert "opened" not in answer
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


async def test_it_cannot_protect_itself_from_the_host_s_out_of_memory_killer(inside: Shell) -> None:
    assert int(await inside.run("cat /proc/self/oom_score_adj")) > 0
    assert "Permission denied" in await inside.run("echo -1000 > /proc/self/oom_score_adj")


async def test_no_process_is_root_on_the_host(inside: Shell) -> None:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{inside.sandbox.pid}/status").read_text().splitlines())
    assert status["Uid"].split() == [str(inside.host_uid)] * 4
    assert inside.host_uid != 0
    if os.geteuid() == 0:
        assert status["Gid"].split() == [str(inside.host_uid)] * 4
        assert status["Groups"].split() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could start a sandbox as root")
@pytest.mark.parametrize("uid", [None, 0])
async def test_root_is_refused_as_the_host_uid(backend: BubblewrapBackend, tmp_path: Path, uid: int | None) -> None:
    with pytest.raises(SandboxUnavailable, match="never runs as root"):
        await backend.start(Launch("root", tmp_path, tmp_path, tmp_path, host_uid=uid))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may become anybody")
async def test_another_user_is_refused(backend: BubblewrapBackend, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="only root"):
        await backend.start(Launch("other", tmp_path, tmp_path, tmp_path, host_uid=os.geteuid() + 1))

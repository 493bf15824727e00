"""Files of the host, of root, of other principals and of the installation are not there to be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import Shell, shell

HOST_ONLY = ["/etc/shadow", "/etc/ssl/private", "/sys", "/boot", "/var/log", "/etc/machine-id"]


@pytest.mark.parametrize("path", [*HOST_ONLY, *(f"/proc/1/root{path}" for path in HOST_ONLY)])
async def test_host_path_is_absent(inside: Shell, path: str) -> None:
    assert await inside.run(f"[ -e {path} ] && echo there || echo absent") == "absent"


async def test_root_s_home_and_the_caller_s_home_are_empty(inside: Shell) -> None:
    home = str(Path.home())
    interpreter = "-path '*/.pyenv' -prune -o -path '*/.local/share/uv' -prune -o"
    assert await inside.run(f"find /root {home} {interpreter} -type f -print 2>/dev/null | head") == ""


async def test_another_volume_is_absent(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path / "a", number=1) as first, shell(backend, tmp_path / "b", number=2) as second:
        await first.run("echo of the first > /workspace/secret; echo of the first > ~/secret; chmod 644 ~/secret")
        assert (first.workspace / "secret").read_text() == "of the first\n"
        found = await second.run("find / -name secret -path '*e/*' 2>/dev/null; ls /workspace /home")
        assert found == "/home:\nporter\n\n/workspace:"
        absent = await second.run(f"cat {first.workspace}/secret {first.home}/secret")
        assert absent.count("No such file or directory") == 2


async def test_a_planted_link_leads_nowhere(inside: Shell, tmp_path: Path) -> None:
    (tmp_path / "host-file").write_text("of the host")
    os.symlink(tmp_path / "host-file", inside.workspace / "link")
    assert "No such file" in await inside.run("cat /workspace/link")


async def test_the_system_is_read_only(inside: Shell) -> None:
    for path in ("/usr", "/etc", "/", "/opt/nightporter", "/opt/nightporter/guest", "/dev", "/etc/ssl", "/run", "/var"):
        assert "Read-only file system" in await inside.run(f"touch {path}/new"), path


async def test_host_paths_are_in_no_command_line(inside: Shell) -> None:
    assert str(inside.workspace.parent) not in await inside.run("cat /proc/*/cmdline")

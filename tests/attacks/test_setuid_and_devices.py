"""A setuid file made inside gives nobody anything, and no device can be made."""

from __future__ import annotations

import os
import stat

from sandbox_runner.testing import Shell
from sandbox_runner.uids import strip_special_bits


async def test_setuid_has_no_effect_inside(inside: Shell) -> None:
    mounts = await inside.run('awk \'$5 == "/workspace" || $5 == "/home/porter" {print $6}\' /proc/self/mountinfo')
    assert [{"nosuid", "nodev"} <= set(line.split(",")) for line in mounts.splitlines()] == [True, True]


async def test_setuid_bits_are_cleared_on_the_host(inside: Shell) -> None:
    await inside.run(
        "cp /bin/true /workspace/tool; mkdir -p ~/deep/er; cp /bin/true ~/deep/er/; chmod 6755 /workspace/tool"
    )
    await inside.run("chmod 4755 ~/deep/er/true; chmod g+s ~/deep; ln -s /bin/true ~/link")
    tool, deep = inside.workspace / "tool", inside.home / "deep/er/true"
    assert tool.stat().st_mode & stat.S_ISUID
    assert strip_special_bits(inside.workspace) == 1
    assert strip_special_bits(inside.home) == 2
    for path in (tool, deep, inside.home / "deep"):
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755
    assert strip_special_bits(inside.home) == 0


async def test_no_device_node(inside: Shell) -> None:
    for folder in ("/workspace", "/home/porter", "/tmp", "/dev/shm"):
        for kind in ("c 1 3", "b 8 0"):
            assert "Operation not permitted" in await inside.run(f"mknod {folder}/node {kind}")
    assert not (inside.workspace / "node").exists()


async def test_devices_are_few(inside: Shell) -> None:
    names = set((await inside.run("ls /dev")).split())
    assert names <= {
        *("null", "zero", "full", "random", "urandom", "tty", "console", "core", "fd", "ptmx", "pts", "shm"),
        *("stdin", "stdout", "stderr"),
    }


async def test_the_host_s_suid_programs_give_nothing(inside: Shell) -> None:
    assert await inside.run("grep -E 'NoNewPrivs|CapEff' /proc/self/status | tr -d '\\t\\n'") == (
        "CapEff:0000000000000000NoNewPrivs:1"
    )
    assert os.stat("/usr/bin").st_uid == 0

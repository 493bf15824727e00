"""Each backend against the same contract, for real; where an engine is missing, skipped with the reason."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sandbox_runner import gvisor
from sandbox_runner.backend import Backend
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.containers import ContainerBackend, ContainerEngine
from sandbox_runner.testing import TEST_UIDS
from tests.sandbox_runner.contract import SandboxContract
from tests.sandboxes import probed, run_folder, skip_unless_it_works


async def working(backend: Backend, runtime: str = "") -> AsyncIterator[Backend]:
    await skip_unless_it_works(backend, runtime)
    yield backend
    await backend.close()
    backend.reap()


class TestBubblewrap(SandboxContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        async for backend in working(BubblewrapBackend(run_folder(tmp_path))):
            yield backend


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """A daemon of our own, as far away from the machine's own as it can be; skips where it does not start."""
    daemon = shutil.which("dockerd") or shutil.which("dockerd", path="/usr/sbin:/sbin")
    if daemon is None or shutil.which("docker") is None or os.geteuid():
        pytest.skip("docker needs its daemon installed, and root to start one")
    folder = Path("/tmp") / f"np-docker-{os.getpid()}"
    folder.mkdir(mode=0o700)
    socket = f"unix://{folder}/s"
    log = (tmp_path_factory.mktemp("docker") / "log").open("w")
    process = subprocess.Popen(
        [
            daemon, f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid",
            f"--host={socket}", "--iptables=false", "--ip6tables=false", "--bridge=none",
            "--exec-opt=native.cgroupdriver=cgroupfs",
        ],
        stdout=log, stderr=log,
    )  # fmt: skip
    command = ("docker", "--host", socket)
    for _ in range(100):
        if subprocess.run([*command, "info"], capture_output=True).returncode == 0:
            break
        if process.poll() is not None:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"dockerd does not start here: {Path(log.name).read_text()[-300:]}")
        time.sleep(0.2)
    yield command
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
class TestDocker(SandboxContract):
    @pytest.fixture
    async def backend(self, docker: tuple[str, ...], tmp_path: Path) -> AsyncIterator[Backend]:
        engine = ContainerEngine("docker", docker)
        async for backend in working(ContainerBackend(engine, run_folder(tmp_path), TEST_UIDS)):
            yield backend


@pytest.mark.slow
class TestPodman(SandboxContract):
    @pytest.fixture(scope="class")
    def podman(self) -> Iterator[tuple[str, ...]]:
        if shutil.which("podman") is None:
            pytest.skip("podman is not installed")
        folder = Path("/tmp") / f"np-podman-{os.getpid()}"
        yield ("podman", "--root", str(folder / "root"), "--runroot", str(folder / "run"))
        subprocess.run(["umount", "-q", str(folder / "root/overlay")], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

    @pytest.fixture
    async def backend(self, podman: tuple[str, ...], tmp_path: Path) -> AsyncIterator[Backend]:
        # Not every runtime works on every machine: the first that does.
        for runtime in ("", "runc"):
            backend = ContainerBackend(ContainerEngine("podman", podman, runtime), run_folder(tmp_path), TEST_UIDS)
            if (await probed(backend, runtime)).works:
                break
        async for found in working(backend, runtime):
            yield found


@pytest.mark.slow
class TestGvisor(SandboxContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        run_dir = run_folder(tmp_path)
        async for backend in working(gvisor.GvisorBackend(gvisor.engine(run_dir, ""), run_dir, TEST_UIDS)):
            yield backend

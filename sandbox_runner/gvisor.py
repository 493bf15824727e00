"""The gvisor backend: a kernel of its own for each sandbox, by upstream's ``runsc``, without a container engine.

``runsc`` is given an OCI bundle (https://github.com/opencontainers/runtime-spec/blob/main/config.md) of the same layout
that containers have. https://gvisor.dev/docs/user_guide/quick_start/oci/
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agent.sandbox import SandboxError
from sandbox_runner.backend import Launch
from sandbox_runner.container_layout import Layout, environment
from sandbox_runner.containers import ASK_SECONDS, ContainerBackend, ContainerEngine, ContainerSandbox

PLATFORM = "systrap"
_NOTHING: Mapping[str, list[str]] = {
    kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
}


def engine(run_dir: Path, platform: str, program: str = "runsc") -> ContainerEngine:
    """``platform``: how runsc catches system calls (``systrap``, ``kvm``, ``ptrace``)."""
    rootless = ("--rootless",) if os.geteuid() else ()
    options = (f"--root={run_dir / 'runsc'}", "--network=none", f"--platform={platform or PLATFORM}", "--host-uds=open")
    return ContainerEngine("gvisor", (program, *options, *rootless), "runsc")


@dataclass
class GvisorBackend(ContainerBackend):
    """Bundles are under the run directory while their sandbox runs."""

    PAUSE: ClassVar[str] = "pause"
    UNPAUSE: ClassVar[str] = "resume"

    def reap(self) -> list[str]:
        """Kill and remove what an earlier manager of this run directory left; their names. Blocking."""
        if not self._was_used():
            return []
        left = []
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            listing = [*self.engine.command, "list", "--format", "json"]
            said = subprocess.run(listing, capture_output=True, text=True, timeout=ASK_SECONDS).stdout
            left = [str(found["id"]) for found in json.loads(said or "null") or []]
            for name in left:
                remove = [*self.engine.command, "delete", "--force", name]
                subprocess.run(remove, capture_output=True, timeout=ASK_SECONDS)
        shutil.rmtree(self._bundles, ignore_errors=True)
        return left

    @property
    def _bundles(self) -> Path:
        return self.run_dir / "bundles"

    def _command(self, launch: Launch, container: str, uid: int, code: str | None) -> list[str]:
        folder = self._bundles / container
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        described = bundle(self.layout, launch, self._root, uid, code)
        (folder / "config.json").write_text(json.dumps(described))
        return [*self.engine.command, "run", f"--bundle={folder}", container]

    @property
    def _root(self) -> Path:
        return self.run_dir / self.layout.image_name().replace(":", "-")

    async def _prepare(self) -> None:
        self.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._root.exists():
            partial = self._root.with_suffix(f".{os.getpid()}")
            with tarfile.open(fileobj=io.BytesIO(self.layout.image())) as tar:
                # Ours, written by us: its links lead to what is bound into it.
                tar.extractall(partial, filter="fully_trusted")
            partial.rename(self._root)

    async def _pid(self, container: str) -> int | None:
        code, said = await self.ask("state", container)
        if code != 0:
            return None
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(said)
            return int(found["pid"]) if found["status"] == "running" else None
        return None

    async def remove(self, container: str) -> None:
        code, said = await self.ask("delete", "--force", container)
        if code != 0 and (await self.ask("state", container))[0] == 0:
            raise SandboxError(f"sandbox {container} does not end: {said.strip()[-300:]}")
        shutil.rmtree(self._bundles / container, ignore_errors=True)

    def forget(self, sandbox: ContainerSandbox) -> None:
        super().forget(sandbox)
        shutil.rmtree(self._bundles / sandbox.container, ignore_errors=True)


def bundle(layout: Layout, launch: Launch, root: Path, uid: int, code: str | None = None) -> dict[str, Any]:
    """The OCI description of a sandbox. Raises ValueError."""
    limits = launch.limits
    memory, temporary = limits.memory_mb << 20, max(limits.memory_mb // 4, 16) << 20
    size = limits.disk_mb << 20
    private = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "noexec"]},
        {
            "destination": "/tmp",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777", f"size={temporary}"],
        },
    ]
    binds = [
        {
            "destination": bind.target,
            "type": "bind",
            "source": bind.source,
            "options": ["bind", "nosuid", "nodev", "rw" if bind.writable else "ro"],
        }
        for bind in layout.binds(launch)
    ]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": uid},
            "args": layout.command(launch, code),
            "env": [f"{name}={value}" for name, value in environment(limits.environment).items()],
            "cwd": "/workspace",
            "capabilities": dict(_NOTHING),
            "noNewPrivileges": True,
            "rlimits": [
                {"type": "RLIMIT_FSIZE", "hard": size, "soft": size},
                {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": "nightporter",
        "mounts": [*private, *binds],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {
                "memory": {"limit": memory, "swap": memory},
                "pids": {"limit": limits.processes},
                "cpu": {"period": 100_000, "quota": max(1000, int(limits.cpus * 100_000))},
            },
        },
    }

"""What an isolation backend is: how a sandbox is asked for, what it gives back, what it honestly promises.

Owns the words that the sandbox manager and the backends share. It never falls back to running anything on the host:
where no backend works, the answer is a reason and a remedy.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.sandbox import SandboxLimits, SandboxUnavailable

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Probe:
    """Whether a backend works on this machine, found out by running a real sandbox."""

    works: bool
    reason: str
    """One sentence: what works, or why it does not."""
    remedy: str = ""
    """What a person can do about it; empty where it works."""
    promises: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()
    """What this backend cannot hold here (such as total memory without a memory cgroup)."""


@dataclass(frozen=True)
class Launch:
    """One sandbox to start.

    ``workspace`` and ``home`` are host directories that belong to the sandbox's host uid (``uids.take_ownership``).
    """

    sandbox_id: str
    """Unique among running sandboxes; letters, digits, ``-`` and ``_``, at most 64."""
    workspace: Path
    home: Path
    guest: Path
    """Directory with the guest agent's ``__main__.py``; seen inside as ``/opt/nightporter/guest``."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    host_uid: int | None = None
    """Whom the sandbox is on the host. Needed when the caller is root; None means the caller itself."""
    egress_socket: Path | None = None
    """Unix socket of the egress proxy; seen inside as ``/run/nightporter/egress.sock``."""
    trust_bundle: Path | None = None
    """Certificates to trust in place of the system's; seen inside as ``/run/nightporter/ca-bundle.crt``."""

    merged: tuple[tuple[Path, str], ...] = ()
    """(host directory, folder) of workspaces seen under ``/workspace/merged``; the folders are there."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.sandbox_id):
            raise ValueError(f"not a sandbox id: {self.sandbox_id!r}")


@dataclass(frozen=True)
class Usage:
    """What a sandbox uses now; None where the machine does not say."""

    memory_bytes: int | None
    processes: int | None


class RunningSandbox(Protocol):
    """A sandbox whose guest agent has been started as its PID 1."""

    @property
    def id(self) -> str: ...

    @property
    def pid(self) -> int:
        """Host pid of the sandbox's PID 1."""
        ...

    @property
    def socket(self) -> socket.socket:
        """Host end of the only connection: a stream socket, non-blocking. Closed by ``stop``."""
        ...

    async def wait(self) -> str:
        """Wait until it has ended, by itself or otherwise; a sentence that says why."""
        ...

    async def stop(self) -> None:
        """Kill everything inside, wait until it is gone, remove what it left on the host. Idempotent."""
        ...

    def usage(self) -> Usage: ...

    def oom_kills(self) -> int:
        """How many processes its own memory limit has killed; 0 where the machine does not say."""
        ...

    async def freeze(self) -> bool:
        """Suspend everything inside; False where this machine cannot (then nothing changed)."""
        ...

    async def thaw(self) -> None: ...

    def diagnostics(self) -> str:
        """The tail of what bubblewrap, the launcher and the guest wrote to standard error. Untrusted text."""
        ...


class Backend(Protocol):
    """A way to isolate."""

    @property
    def name(self) -> str: ...

    @property
    def image(self) -> str:
        """What the root of its sandboxes is made from; empty where that is this machine's system and nothing else."""
        ...

    def reap(self) -> list[str]:
        """Kill and remove what an earlier manager of this run directory left; ids of those sandboxes. Blocking."""
        ...

    async def probe(self) -> Probe:
        """Run a real sandbox once. Never raises for a machine that cannot: that is its answer."""
        ...

    async def warm(self, guest: Path) -> None:
        """Do ahead what a start need not wait for. Never raises."""
        ...

    async def start(self, launch: Launch) -> RunningSandbox:
        """Raises SandboxUnavailable with the reason; then nothing of the sandbox is left."""
        ...

    async def close(self) -> None:
        """Stop every sandbox that this backend started, and what it keeps for itself."""
        ...


async def choose(backends: Iterable[Backend]) -> tuple[Backend, Probe]:
    """The first of ``backends`` (strongest first) that works here.

    Raises SandboxUnavailable with each one's reason and remedy.
    """
    refusals = []
    for backend in backends:
        probe = await backend.probe()
        if probe.works:
            return backend, probe
        refusals.append(f"{backend.name}: {probe.reason} {probe.remedy}".strip())
    raise SandboxUnavailable(" ".join(["No sandbox works on this machine, so no tool will run.", *refusals]))

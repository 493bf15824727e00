"""The protocol of a sandbox: what tools may ask of it, and what it answers.

Owns the words only; the backends, the guest agent and the manager that keeps sandboxes warm are in
``sandbox_runner``. Everything a sandbox says is untrusted: it is size-capped and schema-checked there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

CommandStatus = Literal["exited", "running", "interrupted"]

Policy = Literal["restart", "ask", "never"]
"""What becomes of a background task that a sleep ends: started again, kept for a person's word, or neither."""


@dataclass(frozen=True)
class CommandResult:
    """What became of one command.

    ``status``: ``exited`` (``exit_code`` is set), ``running`` (past its timeout, or asked for in the background:
    it goes on as background task ``task``), ``interrupted`` (stopped by a person, a limit or a lost sandbox).
    """

    call_id: str
    status: CommandStatus
    exit_code: int | None
    output: str
    """Text with replacement characters for what is not UTF-8; head and tail where ``omitted_bytes`` is not 0."""
    omitted_bytes: int
    duration_ms: int
    terminal: str
    cwd: str
    task: int | None = None
    state_digest: str | None = None
    """Hex SHA-256 of ``session_state.json`` as published after the command; None while the command runs."""
    notes: tuple[str, ...] = ()
    """What a person should know: ``not kept: AWS_SECRET_ACCESS_KEY``, ``process limit reached; …``."""


@dataclass(frozen=True)
class BackgroundTask:
    """A process that outlives the command that started it."""

    task: int
    argv: tuple[str, ...]
    cwd: str
    state: Literal["running", "exited", "lost", "stopped"]
    """``stopped``: a sleep ended it, and it waits for a person's word."""
    exit_code: int | None
    log: str
    """Path of its log inside the sandbox; empty where the agent does not hold its output."""
    policy: Policy
    starts: int
    started_at: float
    """Unix seconds."""
    timer: bool = False
    """A line of the sandbox's crontab."""


@dataclass(frozen=True)
class PlacedFile:
    """What became of a file that was to go into the workspace: its ``path`` inside the sandbox, or a ``problem``."""

    path: str
    problem: str


@dataclass(frozen=True)
class FrozenFile:
    """A file of the workspace as it was when it was asked for: ``size`` in bytes, ``blob`` the hash of its bytes."""

    name: str
    size: int
    blob: str


@dataclass(frozen=True)
class WakeReport:
    """How a sandbox came up."""

    sandbox_id: str
    fresh: bool
    """False: it was warm already and kept its live processes."""
    state_digest: str | None
    """Digest of the state it was restored from; None: there was none."""
    notes: tuple[str, ...] = ()
    """What could not be restored and what was done instead, each a sentence for the briefing."""
    screens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each terminal showed last, a line each; of a fresh one only."""


ASSIST_SECONDS = 30.0

OutputListener = Callable[[str], None]


class SandboxError(Exception):
    """A sandbox could not do what was asked; the text says why and what to do."""


class SandboxLost(SandboxError):
    """The sandbox ended while a command ran; what the command did is not known."""


class SandboxUnavailable(SandboxError):
    """No backend works here; tools are refused and nothing runs on the host."""


class Sandbox(Protocol):
    """One principal's sandbox, warm or woken by the first call that needs it."""

    async def wake(self) -> WakeReport:
        """Idempotent. Raises SandboxUnavailable."""
        ...

    async def run(
        self,
        call_id: str,
        command: str,
        *,
        terminal: str = "main",
        timeout: float | None = None,
        background: bool = False,
        policy: Policy = "restart",
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run ``command`` in a named terminal (seconds for ``timeout``; None: the setting's).

        ``policy`` is for one in the background.

        At most once per ``call_id`` and sandbox: a second call with the same id waits for and returns the first's
        result. Raises SandboxLost, SandboxUnavailable.
        """
        ...

    async def assist(
        self, call_id: str, helper: str, request: Mapping[str, Any], *, timeout: float = ASSIST_SECONDS
    ) -> CommandResult:
        """Let a helper of the guest do one request: ``files``, ``fetch``, ``mcp`` or ``mcp_http``.

        Its output is JSON, and untrusted. At most once per ``call_id`` and sandbox, as ``run`` is. Raises SandboxLost,
        SandboxUnavailable.
        """
        ...

    async def result(self, call_id: str) -> CommandResult | None:
        """Wait for a command started earlier in *this* sandbox; None: this sandbox does not know it."""
        ...

    async def interrupt(self, terminal: str | None = None) -> None:
        """End what runs in the foreground of a terminal, or (None) of all of them, and what helpers do."""
        ...

    async def tasks(self) -> list[BackgroundTask]: ...

    async def task_output(self, task: int, tail_bytes: int = 8192) -> str: ...

    async def stop_task(self, task: int) -> BackgroundTask: ...

    async def start_task(self, task: int, policy: Policy | None = None) -> BackgroundTask:
        """Start one that is over again, where it was and into the same log; ``policy``: from now on."""
        ...

    async def capture(self) -> str | None:
        """Publish process state now; its digest. None where a terminal is busy and the last publication stands."""
        ...

    async def skill(self, name: str) -> str:
        """The instructions of a skill of the workspace, without waking. Raises SandboxError where there is none."""
        ...

    async def freeze_file(self, path: str) -> FrozenFile:
        """Keep a file of the volume as it is now, to be sent. Raises SandboxError with why it is not sent."""
        ...


@dataclass
class SandboxLimits:
    """Bounds of one sandbox, from the ``sandbox`` settings."""

    memory_mb: int = 1024
    processes: int = 256
    cpus: float = 1.0
    disk_mb: int = 2048
    disk_files: int = 500_000
    command_timeout_seconds: float = 120.0
    output_bytes: int = 1 << 20
    """Bytes of a command's output that are kept: half from its head, half from its tail."""
    environment: dict[str, str] = field(default_factory=dict)

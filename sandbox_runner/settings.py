"""Settings of the sandbox."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from workspace_store.section import PositiveFloat, PositiveInt, Section


class SandboxSettings(Section):
    """``[sandbox]``: where commands run, and within which limits."""

    backend: Literal["auto", "bubblewrap", "docker", "podman", "gvisor"] = "auto"
    """What isolates commands; `auto` takes the strongest that works here, and none is ever replaced by the host."""
    runtime: str = ""
    """Runtime of `docker` and `podman` (`runc`, `crun`, `runsc`, `kata`; empty: their own), or gVisor's platform."""
    idle_seconds: PositiveFloat = 300
    """How long a sandbox stays warm after its last turn, in seconds."""
    max_awake_seconds: PositiveFloat = 28800
    """How long a background task that asked for it may keep a sandbox awake, in seconds."""
    memory_mb: PositiveInt = 1024
    """Memory of one sandbox, in MB."""
    processes: Annotated[PositiveInt, Field(le=4_000_000)] = 256
    """Processes and threads that one sandbox may have at once."""
    cpus: Annotated[PositiveFloat, Field(le=10_000)] = 1.0
    """Processors that one sandbox may use."""
    disk_mb: PositiveInt = 2048
    """Disk space that a principal's workspace and home may take, in MB; what would write more is paused."""
    disk_files: PositiveInt = 500_000
    """Files and folders that they may have; what would make more is paused."""
    keep_generations: PositiveInt = 200
    """Generations of a workspace that are kept, the newest."""
    keep_days: PositiveFloat = 90
    """How long a generation is kept, in days; the newest always is."""
    history_mb: PositiveInt = 4096
    """Disk space that all generations of one workspace may take together, in MB; the oldest go first."""
    command_timeout_seconds: PositiveFloat = 120
    """When a command that still runs becomes a background task, in seconds."""

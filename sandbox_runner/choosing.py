"""Which backends there are, strongest first, and which of them this machine's settings ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

from sandbox_runner import gvisor
from sandbox_runner.backend import Backend
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.containers import ContainerBackend, ContainerEngine
from sandbox_runner.settings import SandboxSettings
from sandbox_runner.uids import HostUids

AUTO = ("gvisor", "bubblewrap", "podman", "docker")
"""A kernel of its own first; then a user namespace and our own filter; then what an engine promises."""


def candidates(run_dir: Path, home: Path, settings: SandboxSettings) -> list[Backend]:
    """What may be tried, in order: the backend that is set, or under ``auto`` each that is installed."""
    if settings.backend != "auto":
        return [make(settings.backend, run_dir, home, settings)]
    # Bubblewrap comes with us; of the others, an absent one is no news.
    programs = {"gvisor": "runsc", "podman": "podman", "docker": "docker"}
    there = [name for name in AUTO if name not in programs or shutil.which(programs[name])]
    return [make(name, run_dir, home, settings) for name in there]


def everyone(run_dir: Path, home: Path, settings: SandboxSettings) -> list[Backend]:
    """Each backend: an earlier manager may have used any, and left something."""
    return [make(name, run_dir, home, settings) for name in AUTO]


def make(name: str, run_dir: Path, home: Path, settings: SandboxSettings) -> Backend:
    host_uids = HostUids.of(home)
    if name == "bubblewrap":
        return BubblewrapBackend(run_dir, host_uids=host_uids)
    if name == "gvisor":
        return gvisor.GvisorBackend(gvisor.engine(run_dir, settings.runtime), run_dir, host_uids)
    return ContainerBackend(ContainerEngine(name, (name,), settings.runtime), run_dir, host_uids)

"""What each sandbox manager would make or find out anew, once for all: the guest's image, and whether it works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandbox_runner import guest_image
from sandbox_runner.backend import Backend, Probe
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.host_python import HostPython
from tests.once import once

_probes: dict[str, Probe] = {}


def run_folder(folder: Path) -> Path:
    """``run`` in a test's folder, a manager's own, with the image that it would compile for itself."""
    run = folder / "run"
    if not run.exists():
        run.mkdir()
        shutil.copytree(once("guest", _build) / "image", run / "guest", copy_function=shutil.copy)
    return run


def _build(folder: Path) -> None:
    guest_image.build(GUEST_FOLDER, folder / "image", HostPython.running().executable)


async def probed(backend: Backend, runtime: str = "") -> Probe:
    key = f"{backend.name} {runtime}"
    if key not in _probes:
        _probes[key] = await backend.probe()
    return _probes[key]


async def skip_unless_it_works(backend: Backend, runtime: str = "") -> None:
    probe = await probed(backend, runtime)
    if not probe.works:
        await backend.close()
        pytest.skip(f"{probe.reason} {probe.remedy}")

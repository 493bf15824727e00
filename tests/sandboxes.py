"""What each sandbox manager would make or find out anew, once for all: the guest's image, and whether it works."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from sandbox_runner import guest_image
from sandbox_runner.backend import Backend, Probe
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.host_python import HostPython

_probes: dict[str, Probe] = {}


def run_folder(folder: Path) -> Path:
    """``run`` in a test's folder, a manager's own, with the image that it would compile for itself."""
    run = folder / "run"
    if not run.exists():
        run.mkdir()
        shutil.copytree(_image(), run / "guest", copy_function=shutil.copy)
    return run


@functools.cache
def _image() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="np-guest-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    guest_image.build(GUEST_FOLDER, folder / "guest", HostPython.running().executable)
    return folder / "guest"


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

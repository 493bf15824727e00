"""What every worker of a run needs and one makes: in the run's own temporary folder, which pytest removes in time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

_FOLDER = "TESTS_ONCE_FOLDER"
"""Of the environment: processes that tests start are of the same run."""


def begin(factory: pytest.TempPathFactory) -> None:
    base = factory.getbasetemp()
    os.environ[_FOLDER] = str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that ``make`` has filled, whoever called first; nobody changes what is in it."""
    folder = Path(os.environ[_FOLDER])
    made = folder / f"once-{name}"
    with (folder / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            fresh = Path(tempfile.mkdtemp(dir=folder))
            make(fresh)
            fresh.rename(made)
    return made

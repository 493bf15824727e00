"""Real sandboxes for tests: skipped, with the reason, only where the machine cannot run one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import Shell, shell
from tests.sandboxes import run_folder, skip_unless_it_works


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[BubblewrapBackend]:
    backend = BubblewrapBackend(run_folder(tmp_path))
    await skip_unless_it_works(backend)
    yield backend
    left = backend.reap()
    await backend.close()
    assert left == [], "a test left something of a sandbox behind"


@pytest.fixture
async def inside(backend: BubblewrapBackend, tmp_path: Path) -> AsyncIterator[Shell]:
    """One running sandbox."""
    async with shell(backend, tmp_path / "volume") as started:
        yield started

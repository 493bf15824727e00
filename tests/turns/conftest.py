from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandboxes import skip_unless_it_works
from tests.turns.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, sqlite_url)
    async with stage.managing() as manager:
        await skip_unless_it_works(manager.backend)
        stage.manager = manager
        yield stage
    stage.database.close()

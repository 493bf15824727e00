"""Attacks run against real sandboxes, and a real mail server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sandbox_runner.conftest import backend, inside
from tests.turns.conftest import stage
from workspace_store.database import Database

if TYPE_CHECKING:
    from tests.mailrooms import Mailroom

__all__ = ["backend", "inside", "stage"]


@pytest.fixture
async def room(sqlite: Database, tmp_path: Path) -> AsyncIterator[Mailroom]:
    """A mail server that serves every proven stranger, so that only proof stands in the way."""
    # Here, so that attacks on sandboxes do not load what mail needs.
    from tests.mailrooms import mailroom

    async with mailroom(sqlite, tmp_path / "outgoing") as found:
        yield found

"""Making turns findable leaves whoever waits for an answer alone, and still gets done where it is never quiet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from router import looking_back
from router.looking_back import LookingBack
from workspace_store.database import Database


class Steps(LookingBack):
    """Counts its steps instead of doing them."""

    taken = 0

    async def make_findable(self) -> bool:
        self.taken += 1
        return True


def looker(sqlite: Database, busy_at: Any) -> Steps:
    engine: Any = None
    return Steps(sqlite, engine, False, None, busy_at)


async def test_it_waits_until_nobody_is_served(sqlite: Database) -> None:
    served = asyncio.get_running_loop().time
    busy = True
    found = looker(sqlite, lambda: served() if busy else 0.0)
    running = asyncio.create_task(found.run())
    await asyncio.sleep(looking_back.QUIET_SECONDS * 2)
    assert found.taken == 0
    busy = False
    async with asyncio.timeout(5):
        while not found.taken:
            await asyncio.sleep(0.01)
    running.cancel()


async def test_where_it_is_never_quiet_a_few_steps_are_taken(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking_back, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(looking_back, "QUIET_SECONDS", 0.05)
    found = looker(sqlite, asyncio.get_running_loop().time)
    running = asyncio.create_task(found.run())
    async with asyncio.timeout(5):
        while found.taken < 2 * looking_back.STEPS_IN_A_ROW:
            await asyncio.sleep(0.01)
    running.cancel()

"""Who serves in other homes, told through a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio

from router import presence
from router.bells import Ringer
from tests.servers import Valkey
from workspace_store.liveness import Life


@pytest.fixture
def ringer(valkey: Valkey) -> Iterator[Ringer]:
    found = Ringer(valkey.connect)
    yield found
    found.close()


@pytest.fixture
async def client(valkey: Valkey) -> AsyncIterator[redis.asyncio.Redis]:
    found = redis.asyncio.Redis(unix_socket_path=str(valkey.socket))
    yield found
    await found.aclose()


async def said(client: redis.asyncio.Redis, lives: Path, wanted: dict[str, int]) -> None:
    async with asyncio.timeout(10):
        while await presence.elsewhere(client, lives) != wanted:
            await asyncio.sleep(0.01)


async def test_another_home_sees_who_lives_and_forgets_who_is_silent(
    ringer: Ringer, client: redis.asyncio.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SAY_SECONDS", 0.1)
    monkeypatch.setattr(presence, "FORGOTTEN_SECONDS", 1)
    here, there = tmp_path / "here", tmp_path / "there"
    gateway = Life(here, "gateway", "here")
    runner, manager = Life(there, "runner", "there"), Life(there, "sandbox-manager", "there")
    assert await presence.elsewhere(client, here) == {"runner": 0, "sandbox-manager": 0}
    saying = asyncio.create_task(presence.keep(ringer, there))
    await said(client, here, {"runner": 1, "sandbox-manager": 1})
    # What its own locks say is not told twice.
    assert await presence.elsewhere(client, there) == {"runner": 0, "sandbox-manager": 0}
    manager.end()
    await said(client, here, {"runner": 1, "sandbox-manager": 0})
    saying.cancel()
    await said(client, here, {"runner": 0, "sandbox-manager": 0})
    runner.end()
    gateway.end()


async def test_redis_away_costs_nothing_but_the_word(
    ringer: Ringer, client: redis.asyncio.Redis, valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SAY_SECONDS", 0.1)
    life = Life(tmp_path / "there", "runner", "there")
    valkey.kill()
    saying = asyncio.create_task(presence.keep(ringer, tmp_path / "there"))
    await asyncio.sleep(0.3)
    assert not saying.done()
    valkey.start()
    await said(client, tmp_path / "here", {"runner": 1, "sandbox-manager": 0})
    saying.cancel()
    life.end()

"""Of several gateways one reads; another takes over when that one ends, dies or loses the right."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway import reading as reading_module
from gateway.reading import OneReader
from nightporter.testing.web import end, until
from workspace_store import readers
from workspace_store.database import Database
from workspace_store.liveness import Life


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reading_module, "RENEW_SECONDS", 0.05)


class Reader:
    def __init__(self, database: Database, lives: Path) -> None:
        self.life = Life(lives, "gateway", "here")
        self.reading = False
        self.database = database
        self.task = asyncio.create_task(OneReader(database, lives, self.life.id).while_ours("bot", self.read))

    async def read(self) -> None:
        self.reading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.reading = False


async def test_one_reads_and_the_other_follows_a_clean_stop_at_once(database: Database, tmp_path: Path) -> None:
    one = Reader(database, tmp_path)
    await until(lambda: one.reading, "the first reads")
    other = Reader(database, tmp_path)
    await asyncio.sleep(0.2)
    assert not other.reading
    await end(one.task)
    await until(lambda: other.reading, "the other reads", 5)
    await end(other.task)


async def test_a_dead_one_is_followed_long_before_its_lease_ends(database: Database, tmp_path: Path) -> None:
    dead = Life(tmp_path, "gateway", "here")
    await database.write(lambda connection: readers.hold(connection, "bot", dead.id, lambda _: False))
    other = Reader(database, tmp_path)
    await asyncio.sleep(0.2)
    assert not other.reading
    dead.end()
    await until(lambda: other.reading, "the other reads", 5)
    await end(other.task)


async def test_one_that_has_lost_the_right_reads_no_more(database: Database, tmp_path: Path) -> None:
    one = Reader(database, tmp_path)
    await until(lambda: one.reading, "the first reads")
    await database.write(lambda connection: readers.hold(connection, "bot", "thief", lambda _: True))
    life = Life(tmp_path, "thief", "here")
    await database.write(lambda connection: readers.hold(connection, "bot", life.id, lambda _: True))
    await until(lambda: not one.reading, "it stops", 5)
    await end(one.task)
    life.end()


async def test_an_error_of_the_reader_is_an_error_of_the_gateway(database: Database, tmp_path: Path) -> None:
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await OneReader(database, tmp_path, "gateway-one").while_ours("bot", broken)
    assert await database.write(lambda connection: readers.hold(connection, "bot", "another", lambda _: False))

"""The sweeper makes good what was lost: bells, and what a dead runner left behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection

from router.sweeper import Chore, Sweeper
from tests.workspace_store.people import lease, person, receive
from workspace_store import principal, unserved
from workspace_store.database import Database
from workspace_store.liveness import Life


@pytest.fixture
def lives(tmp_path: Path) -> Path:
    return tmp_path / "lives"


@dataclass
class Swept:
    """What a sweeper starts."""

    served: list[UUID] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def serve(self, owner: UUID) -> bool:
        self.served.append(owner)
        self.changed.set()
        return True

    async def until(self, *owners: UUID) -> None:
        async with asyncio.timeout(20):
            while not set(owners) <= set(self.served):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def sweep(database: Database, lives: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("router.sweeper.SWEEP_SECONDS", 0.01)
    tasks: list[asyncio.Task[None]] = []

    def start(life: Life, held: set[UUID] | None = None, **options: Any) -> Swept:
        swept = Swept()
        held = set() if held is None else held
        tasks.append(asyncio.create_task(Sweeper(life.id, database, lives, swept.serve, held, **options).run()))
        return swept

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lost_bell_is_made_good(database: Database, lives: Path, sweep: Any) -> None:
    owner = person(database)
    database.write_now(lambda connection, o=owner: receive(connection, o))
    swept = sweep(Life(lives, "runner", "here"))
    await swept.until(owner)


async def test_all_that_waits_at_the_start_is_served_at_once_whenever_it_was_rung(
    database: Database, lives: Path, sweep: Any
) -> None:
    owners = [person(database) for _ in range(5)]
    for owner in owners:
        database.write_now(lambda connection, o=owner: receive(connection, o))
    database.write_now(lambda connection: unserved.rung(connection, owners))
    swept = sweep(Life(lives, "runner", "here"))
    await swept.until(*owners)


async def test_a_dead_owners_principals_are_taken_up_and_a_living_ones_are_not(
    database: Database, lives: Path, sweep: Any
) -> None:
    dead, living = Life(lives, "runner", "dead"), Life(lives, "runner", "living")
    left, kept = person(database), person(database)
    for owner, life in ((left, dead), (kept, living)):
        database.write_now(lambda connection, o=owner: receive(connection, o))
        lease(database, owner, life.id)
    swept = sweep(Life(lives, "runner", "here"))
    dead.end()
    await swept.until(left)
    assert kept not in swept.served
    living.end()
    await swept.until(left, kept)


async def test_a_lease_of_ones_own_that_no_turn_holds_is_taken_up(database: Database, lives: Path, sweep: Any) -> None:
    here = Life(lives, "runner", "here")
    busy, left = person(database), person(database)
    for owner in (busy, left):
        database.write_now(lambda connection, o=owner: receive(connection, o))
        lease(database, owner, here.id)
    swept = sweep(here, {busy})
    await swept.until(left)
    assert busy not in swept.served


async def test_of_a_runner_with_another_home_a_lease_counts_until_it_ends(
    database: Database, lives: Path, sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, ended = person(database), person(database)
    for owner in (held, ended):
        database.write_now(lambda connection, o=owner: receive(connection, o))
    away = [Life(lives.parent / f"home-{number}", "runner", "there") for number in (1, 2)]
    lease(database, held, away[0].id)
    monkeypatch.setattr(principal, "LEASE_SECONDS", -1)
    lease(database, ended, away[1].id)
    monkeypatch.undo()
    monkeypatch.setattr("router.sweeper.SWEEP_SECONDS", 0.01)
    swept = sweep(Life(lives, "runner", "here"))
    await swept.until(ended)
    assert held not in swept.served


async def test_a_sweep_that_fails_is_not_the_last(
    database: Database, lives: Path, sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = person(database)
    database.write_now(lambda connection, o=owner: receive(connection, o))
    real, tried = unserved.with_mail, []

    def fails_once(connection: Connection, since: int) -> list[UUID]:
        tried.append(1)
        if len(tried) == 1:
            raise OSError(24, "too many open files")
        return real(connection, since)

    monkeypatch.setattr(unserved, "with_mail", fails_once)
    swept = sweep(Life(lives, "runner", "here"))
    await swept.until(owner)


async def test_a_chore_that_fails_holds_up_no_other(sweep: Any, database: Database, lives: Path) -> None:
    life, done = Life(lives, "runner", "here"), asyncio.Event()
    loop = asyncio.get_running_loop()

    def fail(connection: Connection) -> None:
        raise ValueError("it cannot be done")

    def do(connection: Connection) -> None:
        loop.call_soon_threadsafe(done.set)

    owner = person(database)
    database.write_now(lambda connection: receive(connection, owner))
    swept = sweep(life, chores=(Chore(lambda _: True, fail), Chore(lambda _: True, do)))
    await swept.until(owner)
    async with asyncio.timeout(20):
        await done.wait()

"""The ledger keeps what it could not write: one wrong row, an outage or a caller that left loses nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from sandbox_runner.egress.ledger import Ledger, Outgoing, outgoing
from tests.workspace_store.people import person
from workspace_store import effects
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.tenancy import Tenancy


def tenancy_of(database: Database) -> Tenancy:
    owner = person(database)
    held = database.read_now(lambda connection: tenancies.look(connection, owner))
    taken = database.write_now(lambda connection: tenancies.take(connection, owner, "here", held))
    assert taken is not None
    return taken


def hosts(database: Database, owner: UUID) -> list[str]:
    found = database.read_now(lambda connection: effects.recent(connection, owner, 500))
    return sorted(effect.host for effect in found)


def asked(tenancy: Tenancy, host: str) -> Outgoing:
    return outgoing(tenancy, host, 443, "GET", "/")


class Failing:
    """A database whose writes fail while ``why`` says so."""

    def __init__(self, database: Database, why: Callable[[], BaseException | None]) -> None:
        self._database, self._why = database, why

    async def write(self, transaction: Callable[..., Any]) -> Any:
        error = self._why()
        if error is not None:
            raise error
        return await self._database.write(transaction)


async def test_a_row_that_cannot_be_written_takes_no_other_with_it(database: Database) -> None:
    first, second = tenancy_of(database), tenancy_of(database)
    ledger = Ledger(database, "egress-here-1", "egress-here-")
    twice = asked(first, "twice.example.org")
    for going in (asked(first, "a.example.org"), twice, twice, asked(first, "b.example.org")):
        ledger.note(going)
    ledger.note(asked(second, "c.example.org"))
    await ledger.flush()
    assert hosts(database, first.principal) == ["a.example.org", "b.example.org", "twice.example.org"]
    assert hosts(database, second.principal) == ["c.example.org"]


async def test_an_outage_loses_no_batch_of_anybody(database: Database) -> None:
    owners = [tenancy_of(database) for _ in range(3)]
    away = [True]
    failing: Any = Failing(database, lambda: DatabaseUnavailable("away") if away[0] else None)
    ledger = Ledger(failing, "egress-here-1", "egress-here-")
    for tenancy in owners:
        ledger.note(asked(tenancy, "a.example.org"))
    await ledger.flush()
    away[0] = False
    await ledger.flush()
    assert [hosts(database, tenancy.principal) for tenancy in owners] == [["a.example.org"]] * 3


async def test_a_caller_that_is_cancelled_loses_nothing(database: Database) -> None:
    tenancy = tenancy_of(database)
    waiting = asyncio.Event()

    class Slow:
        async def write(self, transaction: Callable[..., Any]) -> Any:
            waiting.set()
            await asyncio.sleep(60)

    slow: Any = Slow()
    ledger = Ledger(slow, "egress-here-1", "egress-here-")
    refusing = asyncio.create_task(ledger.refuse(asked(tenancy, "a.example.org"), "not allowed"))
    await waiting.wait()
    refusing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await refusing
    ledger._database = database
    await ledger.flush()
    assert hosts(database, tenancy.principal) == ["a.example.org"]


@pytest.mark.parametrize("error", [DatabaseUnavailable("away"), RuntimeError("unexpected")])
async def test_how_effects_ended_is_kept_though_one_cannot_be_settled(database: Database, error: Exception) -> None:
    tenancy = tenancy_of(database)
    failures: list[Exception | None] = []
    failing: Any = Failing(database, lambda: failures.pop(0) if failures else None)
    ledger = Ledger(failing, "egress-here-1", "egress-here-")
    going = [asked(tenancy, f"{name}.example.org") for name in "abc"]
    for each in going:
        await ledger.intend(each)
    failures[:] = [error]
    for each in going:
        await ledger.settle(each, "settled")
    await ledger.flush()
    found = database.read_now(lambda connection: effects.recent(connection, tenancy.principal, 10))
    settled = sorted(effect.host for effect in found if effect.status == "settled")
    expected = ["a.example.org", "b.example.org", "c.example.org"]
    assert settled == (expected if isinstance(error, DatabaseUnavailable) else expected[1:])
    # What could not be settled is told once this proxy has ended.
    after = Ledger(database, "egress-here-2", "egress-here-")
    assert await after.give_up_left_over() == 3 - len(settled)

"""One reader: the right is one gateway's until it leaves, dies or lets it run out."""

from __future__ import annotations

import pytest

from workspace_store import readers
from workspace_store.database import Database


def hold(database: Database, holder: str, *dead: str) -> bool:
    return database.write_now(lambda connection: readers.hold(connection, "bot", holder, lambda other: other in dead))


def test_the_first_holds_it_and_renews(database: Database) -> None:
    assert hold(database, "a")
    assert not hold(database, "b")
    assert hold(database, "a")


def test_a_dead_holder_is_followed_at_once(database: Database) -> None:
    assert hold(database, "a")
    assert hold(database, "b", "a")
    assert not hold(database, "a")


def test_it_runs_out(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LEASE_SECONDS", -1)
    assert hold(database, "a")
    assert hold(database, "b")


def test_only_the_holder_gives_it_back(database: Database) -> None:
    assert hold(database, "a")
    database.write_now(lambda connection: readers.leave(connection, "bot", "b"))
    assert not hold(database, "b")
    database.write_now(lambda connection: readers.leave(connection, "bot", "a"))
    assert hold(database, "b")

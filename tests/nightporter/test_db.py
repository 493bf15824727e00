"""``nightporter db``: copies that can be restored, a move that is compared, and nothing written where it may not be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection

from identity.access import Access
from identity.users import Claim
from router.envelope import Envelope
from router.inbox import Inbox
from tests import warm
from tests.servers import PostgreSQL
from workspace_store import journal, memory, memory_search
from workspace_store.database import Database
from workspace_store.liveness import Life


class Home:
    """A home and its command line, without a running Nightporter."""

    def __init__(self, path: Path, url: str = "") -> None:
        path.mkdir(mode=0o700)
        self.path = path
        self.url = url or f"sqlite:///{path}/nightporter.db"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("NIGHTPORTER_")}
        return warm.run(
            [sys.executable, "-m", "nightporter", "db", *words],
            env={**clean, "NIGHTPORTER_HOME": str(self.path), "NIGHTPORTER_DATABASE_URL": self.url},
            timeout=120,
        )

    def done(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def refused(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return done.stderr

    async def live(self, count: int = 3) -> UUID:
        """Somebody says something, and a note is kept of it."""
        database = Database(self.url)
        door = Inbox(database, Access("allowlist", ()), lambda _: None)
        for number in range(count):
            claim = Claim("local", "", "owner", "owner", "token")
            said = Envelope("local", "", uuid4().hex, claim, "owner", "", f"number {number} äöü \x00")
            accepted = await door.accept(said)
        assert accepted is not None
        owner = accepted.principal
        await database.write(
            lambda c: memory.write_note(c, owner, uuid4().hex, "The gate's code is blue-heron-42", None)
        )
        database.close()
        return owner

    def found(self, owner: UUID, query: str) -> list[str]:
        database = Database(self.url)
        try:
            return [hit.body for hit in database.read_now(lambda c: memory_search.search(c, owner, query))]
        finally:
            database.close()

    def journal(self, owner: UUID) -> list[str]:
        database = Database(self.url)
        try:
            return [event.hash for event in database.read_now(lambda c: journal.read(c, owner))]
        finally:
            database.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    assert found.done("migrate")["migrated"] is True
    return found


@pytest.fixture
def empty_postgresql(postgresql: PostgreSQL) -> str:
    return postgresql.create()


async def test_a_sound_database_is_said_to_be_sound(home: Home) -> None:
    await home.live()
    found = home.done("check")
    assert (found["sound"], found["faults"], found["schema"]) == (True, [], found["head"])
    assert found["rows"]["inbox"] == 3
    assert found["events"] > 0
    assert home.done("migrate")["migrated"] is False


async def test_a_forged_journal_is_found(home: Home) -> None:
    owner = await home.live()
    database = Database(home.url)

    def forge(connection: Connection) -> None:
        # Whoever writes the file itself is not kept from it by its triggers.
        for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        connection.exec_driver_sql("UPDATE journal_event SET kind = 'turn.started' WHERE seq = 2")

    database.write_now(forge)
    database.close()
    done = home.run("check", "--json")
    assert done.returncode == 1
    assert str(owner) in json.loads(done.stdout)["faults"][0]


async def test_a_copy_is_restored_with_what_was_there_kept_beside_it(home: Home, tmp_path: Path) -> None:
    owner = await home.live()
    before, copy = home.journal(owner), tmp_path / "copy.db"
    home.done("backup", str(copy))
    assert copy.stat().st_mode & 0o077 == 0
    await home.live()
    assert len(home.journal(owner)) > len(before)
    assert "--replace" in home.refused("restore", str(copy))
    done = home.done("restore", str(copy), "--replace")
    assert home.journal(owner) == before
    assert Path(done["before"]).exists()
    assert home.found(owner, "heron") == ["The gate's code is blue-heron-42"]


@pytest.mark.slow
async def test_to_postgresql_and_back_everything_is_the_same(home: Home, tmp_path: Path, empty_postgresql: str) -> None:
    owner = await home.live()
    rows = home.done("check")["rows"]
    moved = home.done("move", empty_postgresql)
    assert moved["rows"] == rows
    there = Home(tmp_path / "there", empty_postgresql)
    assert there.done("check")["rows"] == rows
    assert there.journal(owner) == home.journal(owner)
    assert there.found(owner, "heron") == ["The gate's code is blue-heron-42"]
    # What counts up goes on behind what came along.
    await there.live()
    assert "not empty" in home.refused("move", empty_postgresql)
    copy = tmp_path / "copy.db"
    there.done("backup", str(copy))
    back = Home(tmp_path / "back")
    back.done("restore", str(copy))
    assert back.journal(owner) == there.journal(owner)
    assert len(back.found(owner, "heron")) == 2


@pytest.fixture
def running(home: Home) -> Iterator[None]:
    life = Life(home.path / "run" / "lives", "gateway", "here")
    yield
    life.end()


@pytest.mark.usefixtures("running")
async def test_while_it_runs_copies_are_made_and_nothing_is_put_in_place(home: Home, tmp_path: Path) -> None:
    await home.live()
    copy = tmp_path / "copy.db"
    home.done("backup", str(copy))
    assert "stop it first" in home.refused("restore", str(copy), "--replace")
    assert "stop it first" in home.refused("move", f"sqlite:///{tmp_path}/other.db")


@pytest.mark.slow
async def test_what_is_no_copy_changes_nothing(home: Home, tmp_path: Path) -> None:
    owner = await home.live()
    before, copy = home.journal(owner), tmp_path / "copy.db"
    home.done("backup", str(copy))
    whole = copy.read_bytes()
    for damaged in (b"", b"not a database at all" * 100, whole[: len(whole) // 2]):
        other = tmp_path / uuid4().hex
        other.write_bytes(damaged)
        assert home.refused("restore", str(other), "--replace")
        assert home.journal(owner) == before
    assert "exists already" in home.refused("backup", str(copy))
    assert copy.read_bytes() == whole
    assert "no such file" in home.refused("restore", str(tmp_path / "nothing"))
    assert list(home.path.glob(".restoring*")) == []


def test_a_home_that_was_never_used_has_nothing_to_keep(tmp_path: Path) -> None:
    fresh = Home(tmp_path / "fresh")
    for words in (("check",), ("backup", str(tmp_path / "copy.db")), ("move", f"sqlite:///{tmp_path}/other.db")):
        assert "never started" in fresh.refused(*words)
    assert not (fresh.path / "nightporter.db").exists()

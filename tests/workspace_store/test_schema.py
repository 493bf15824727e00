"""The schema: made once, looked at cheaply after, the same as the models on both databases."""

from __future__ import annotations

import importlib
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlmodel import SQLModel

from tests import processes
from tests.servers import PostgreSQL
from workspace_store import schema
from workspace_store.database import Database, create_engine

MODELS = (
    "continuations", "changes", "schedules", "hook_deliveries", "timers",
    "approvals", "principal", "inbox", "journal", "checkpoints", "outbox", "memory", "effects", "egress_grants",
    "attachments", "readers", "mailboxes", "spending", "tasks", "commitments", "facts",
    "memory_index", "imported", "memory_sessions", "context_heads", "cold_turns",
)  # fmt: skip
IDENTITY = ("users", "rooms", "pairing", "linking", "merging", "forgetting", "moves")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/new/folder/nightporter.db"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.create()


def at(url: str) -> str | None:
    engine = create_engine(url)
    with engine.begin() as connection:
        found = schema.version(connection)
    engine.dispose()
    return found


def test_an_empty_database_is_brought_to_this_release(empty_url: str) -> None:
    assert schema.upgrade(empty_url) is True
    assert at(empty_url) == schema.HEAD


LOOK = """
import sys
from workspace_store import schema
assert schema.upgrade(sys.argv[1]) is False
print([name for name in sys.modules if name.partition(".")[0] in ("alembic", "mako")])
"""


def test_a_start_that_finds_the_schema_does_not_import_alembic(database_url: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOOK, database_url], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.strip()) == ("", "[]")


def test_a_newer_schema_is_refused_and_left_as_it_is(database_url: str) -> None:
    database = Database(database_url)
    database.write_now(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(schema.SchemaTooNew, match=r"9999.*start the newer release"):
        schema.upgrade(database_url)
    assert at(database_url) == "9999"
    database.close()


def test_the_migrations_make_what_the_models_say(database_url: str) -> None:
    for name in MODELS:
        importlib.import_module(f"workspace_store.{name}")
    for name in IDENTITY:
        importlib.import_module(f"identity.{name}")
    engine = create_engine(database_url)
    with engine.connect() as connection:
        options = {"include_object": _ours, "compare_type": True}
        found: list[Any] = compare_metadata(MigrationContext.configure(connection, opts=options), SQLModel.metadata)
    engine.dispose()
    assert found == []


def _ours(thing: object, name: str | None, kind: str, reflected: bool, compared: object) -> bool:
    """Full-text search is made of statements of each database's own."""
    return not (name or "").startswith("memory_search")


def indexes(url: str) -> set[str]:
    """Every index word for word, its condition too, which alembic does not compare."""
    engine = create_engine(url)
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            rows = connection.execute(text("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
        else:
            rows = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"))
        found = {" ".join(row[0].split()) for row in rows}
    engine.dispose()
    return {index for index in found if not ("memory_search" in index or "alembic" in index)}


def test_the_migrations_make_the_indexes_of_the_models(database_url: str, empty_url: str) -> None:
    if database_url.partition(":")[0] != empty_url.partition(":")[0]:
        pytest.skip("compared with its own kind")
    for name in MODELS:
        importlib.import_module(f"workspace_store.{name}")
    for name in IDENTITY:
        importlib.import_module(f"identity.{name}")
    if empty_url.startswith("sqlite"):
        Path(empty_url.removeprefix("sqlite:///")).parent.mkdir(parents=True)
    engine = create_engine(empty_url)
    SQLModel.metadata.create_all(engine)
    engine.dispose()
    assert indexes(database_url) == indexes(empty_url)


def upgrade(url: str, said: multiprocessing.Queue[bool]) -> None:
    said.put(schema.upgrade(url))


def test_several_that_start_at_once_upgrade_once(empty_url: str) -> None:
    said = processes.Queue()
    starting = [processes.start(upgrade, empty_url, said) for _ in range(4)]
    assert sorted(said.get(timeout=60) for _ in starting) == [False, False, False, True]
    assert processes.codes(*starting) == [0, 0, 0, 0]


def test_a_migration_that_fails_leaves_nothing_behind(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from workspace_store import journal

    broken = ("CREATE TABLE half_way (id INTEGER)", "CREATE NONSENSE")
    for name in ("SQLITE_TRIGGERS", "POSTGRESQL_TRIGGERS"):
        monkeypatch.setattr(journal, name, broken)
    with pytest.raises(Exception, match=r"(?i)syntax error"):
        schema.upgrade(empty_url)
    monkeypatch.undo()
    assert at(empty_url) is None
    assert schema.upgrade(empty_url) is True

"""The schema: made once, looked at cheaply after, the same as the models on both databases."""

from __future__ import annotations

import importlib
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
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


@pytest.mark.slow
def test_a_start_that_finds_the_schema_does_not_import_alembic(database_url: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOOK, database_url], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.strip()) == ("", "[]")


def newer(database: Database, oldest: str) -> None:
    """As a newer release has left it, on which releases since ``oldest`` run."""

    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("DELETE FROM schema_floor"))
        connection.execute(text("INSERT INTO schema_floor (oldest) VALUES (:oldest)"), {"oldest": oldest})

    database.write_now(write)


def test_a_newer_schema_to_which_was_only_added_is_run_on(database_url: str) -> None:
    database = Database(database_url)
    newer(database, schema.HEAD)
    assert schema.upgrade(database_url) is False
    assert at(database_url) == "9999"
    database.close()


def test_a_newer_schema_is_refused_and_left_as_it_is(database_url: str) -> None:
    database = Database(database_url)
    newer(database, "9998")
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
    return not (name or "").startswith(("memory_search", "schema_floor"))


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


@pytest.mark.slow
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


def test_a_migrated_database_says_which_release_runs_on_it(empty_url: str) -> None:
    schema.upgrade(empty_url)
    engine = create_engine(empty_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT oldest FROM schema_floor")).scalar() == schema.OLDEST
    engine.dispose()


def shape(url: str) -> dict[str, Any]:
    """Columns of each table by name, and what rows have to keep to."""
    engine = create_engine(url)
    with engine.connect() as connection:
        seen = inspect(connection)
        found = {
            table: {
                "columns": {one["name"]: one for one in seen.get_columns(table)},
                "unique": {tuple(one["column_names"]) for one in seen.get_indexes(table) if one["unique"]}
                | {tuple(one["column_names"]) for one in seen.get_unique_constraints(table)},
                "checks": {one["sqltext"] for one in seen.get_check_constraints(table)},
            }
            for table in seen.get_table_names()
        }
    engine.dispose()
    return found


def only_adds(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What would stop a release that knows only the tables of before."""
    wrong = []
    for table, was in before.items():
        now = after.get(table)
        if now is None:
            wrong.append(f"{table} is gone")
            continue
        for name, column in was["columns"].items():
            there = now["columns"].get(name)
            if there is None:
                wrong.append(f"{table}.{name} is gone")
            elif (str(there["type"]), there["nullable"]) != (str(column["type"]), column["nullable"]):
                wrong.append(f"{table}.{name} is another")
        for name in now["columns"].keys() - was["columns"].keys():
            column = now["columns"][name]
            if not column["nullable"] and column["default"] is None:
                wrong.append(f"{table}.{name} has to be given")
        wrong += [f"{table} is unique by {columns}" for columns in now["unique"] - was["unique"]]
        wrong += [f"{table} has to keep to {rule}" for rule in now["checks"] - was["checks"]]
    return wrong


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_migration_since_the_oldest_only_adds(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The rule of CONTRIBUTING.md: a host of the release before goes on working on the new schema."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/step.db"
    else:
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create()
    revisions = sorted(path.stem[:4] for path in (schema.MIGRATIONS / "versions").glob("[0-9]*.py"))
    assert revisions[-1] == schema.HEAD
    before: dict[str, Any] = {}
    # From the one before: as long as this is the newest release, that is the one that runs beside it.
    for revision in [one for one in revisions if one >= min(schema.OLDEST, revisions[-2])]:
        step(url, revision)
        after = shape(url)
        assert only_adds(before, after) == [], revision
        before = after


def step(url: str, revision: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        command.upgrade(schema.alembic_config(connection), revision)
    engine.dispose()


def test_what_would_stop_an_older_host_is_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shape.db"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE a (x INTEGER NOT NULL, y TEXT)"))
        connection.execute(text("CREATE TABLE b (x INTEGER)"))
    before = shape(url)
    for statement in (
        "ALTER TABLE a ADD COLUMN fine TEXT", "ALTER TABLE a ADD COLUMN also INTEGER NOT NULL DEFAULT 1",
        "CREATE TABLE c (x INTEGER NOT NULL)", "CREATE INDEX quick ON a (x)",
    ):  # fmt: skip
        with engine.begin() as connection:
            connection.execute(text(statement))
    assert only_adds(before, shape(url)) == []
    for statement in ("DROP TABLE b", "CREATE UNIQUE INDEX only_one ON a (x)", "ALTER TABLE a DROP COLUMN y"):
        with engine.begin() as connection:
            connection.execute(text(statement))
    assert only_adds(before, shape(url)) == ["a.y is gone", "a is unique by ('x',)", "b is gone"]
    engine.dispose()

"""Databases and Redis as the tests need them: real ones, with nothing in them."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import compiled, once
from tests.buckets import FaultyWay, ObjectStore
from tests.servers import NotHere, PostgreSQL, Valkey
from tests.tallies import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown  # noqa: F401 - hooks
from workspace_store import schema
from workspace_store.database import Database

MIGRATED = "migrated"
FILE = "nightporter.db"

# Nothing here meets the world: one certificate to trust, where each client would read all of the system's (25 ms).
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("one_certificate.pem"))
compiled.share()
# How long an example takes says how much else the machine has to do.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# A logged error as plain lines: the panels of rich, with all variables, take a second of a processor each.
structlog.configure(
    [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session", autouse=True)
def made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    once.begin(tmp_path_factory)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server with a migrated database; skips where there is none."""
    try:
        server = PostgreSQL(once.once("postgresql", _postgresql_data) / "data")
    except NotHere as reason:
        pytest.skip(str(reason))
    yield server
    server.stop()


def _postgresql_data(folder: Path) -> None:
    server = PostgreSQL()
    server.admin(f"CREATE DATABASE {MIGRATED}")
    schema.upgrade(server.url(MIGRATED))
    server.shut()
    subprocess.run(["cp", "-a", server.data, folder / "data"], check=True)
    server.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """An S3 server."""
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture
def way(object_store: ObjectStore) -> Iterator[FaultyWay]:
    """To that server, through faults."""
    found = FaultyWay(object_store)
    yield found
    found.close()


@pytest.fixture(scope="session")
def sqlite_template() -> bytes:
    return (once.once("sqlite", _sqlite_file) / FILE).read_bytes()


def _sqlite_file(folder: Path) -> None:
    schema.upgrade(f"sqlite:///{folder / FILE}")


@pytest.fixture
def sqlite_url(sqlite_template: bytes, tmp_path: Path) -> str:
    """A migrated SQLite database."""
    path = tmp_path / FILE
    path.write_bytes(sqlite_template)
    return f"sqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> str:
    """A migrated PostgreSQL database with nothing in it."""
    postgresql.clean(MIGRATED)
    return postgresql.url(MIGRATED)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database, once of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    found = Database(database_url)
    yield found
    found.close()


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    found = Database(sqlite_url)
    yield found
    found.close()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = Valkey(tmp_path / "valkey")
    yield server
    server.stop()


gc.disable()  # while thousands of tests and modules are made that stay


def pytest_collection_finish() -> None:
    gc.freeze()  # no collection has to go through them
    gc.enable()


ON_BOTH = (
    "tests/workspace_store/",
    "tests/router/test_inbox.py",
    "tests/router/test_runner.py",
    "tests/router/test_schedules.py",
)
"""Where the database itself is the point; everything else meets PostgreSQL with the slow stories."""


MANY_TURNS = tuple(
    f"tests/workspace_store/test_archiving.py::test_{story}"
    for story in ("an_export_has", "words_of_a_forgotten_note", "what_is_not_yet_folded")
)
"""Hundreds of turns each: one story of them on PostgreSQL is enough for every day."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters is None or (item.nodeid.startswith(ON_BOTH) and not item.nodeid.startswith(MANY_TURNS)):
            continue
        if "postgresql" in parameters.params.values():
            item.add_marker(pytest.mark.slow)

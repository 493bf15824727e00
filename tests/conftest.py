"""Databases and Redis as the tests need them: real ones, with nothing in them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.buckets import ObjectStore
from tests.servers import NotHere, PostgreSQL, Valkey
from tests.tallies import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown  # noqa: F401 - hooks
from workspace_store import schema
from workspace_store.database import Database

# Nothing here meets the world: one certificate to trust, where each client would read all of the system's (25 ms).
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("one_certificate.pem"))
# A logged error as plain lines: the panels of rich, with all variables, take a second of a processor each.
structlog.configure(
    [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server; skips where there is none."""
    try:
        server = PostgreSQL()
    except NotHere as reason:
        pytest.skip(str(reason))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """An S3 server."""
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgresql_migrated(postgresql: PostgreSQL) -> str:
    postgresql.admin("CREATE DATABASE migrated")
    schema.upgrade(postgresql.url("migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("template") / "migrated.db"
    schema.upgrade(f"sqlite:///{path}")
    return path.read_bytes()


@pytest.fixture
def sqlite_url(sqlite_template: bytes, tmp_path: Path) -> str:
    """A migrated SQLite database."""
    path = tmp_path / "nightporter.db"
    path.write_bytes(sqlite_template)
    return f"sqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL, postgresql_migrated: str) -> str:
    """A migrated PostgreSQL database with nothing in it."""
    postgresql.clean(postgresql_migrated)
    return postgresql.url(postgresql_migrated)


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

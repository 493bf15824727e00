"""The database: one short transaction at a time, never on the event loop.

SQLite writes go through one thread of the process in ``BEGIN IMMEDIATE`` transactions (a read-then-write in a deferred
one fails at once with BUSY_SNAPSHOT whatever the timeout); reads have a few threads of their own. PostgreSQL uses the
same two doors. A transaction function takes the connection, does no waiting of any other kind, and may be run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import StaticPool
from sqlmodel import SQLModel

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 30
READERS = 4
CLASH_RETRIES = 5

# What neither PostgreSQL nor SQLite stores in a text: NUL, and halves of surrogate pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# PostgreSQL's own words for "not now": connection, resources, locks, an operator, the system; and a read-only server.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
UNAVAILABLE_CLASSES = ("08", "40", "53", "55", "57", "58")
READ_ONLY = "25006"
CLASHES = ("40001", "40P01")
# A server that does not answer is away after seconds, not after the kernel's quarter of an hour.
POSTGRESQL_PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}


CLOCK_KEPT_US = 2_000_000
_CLOCK = "nightporter_clock"
_ASK_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class DatabaseUnavailable(Exception):
    """The database cannot be reached or written now; nothing of the transaction happened."""


def table(model: type[SQLModel]) -> Table:
    """The Core table behind a model: hot paths use Core statements, the model stays the one definition."""
    found: Table = model.__table__  # type: ignore[attr-defined]
    return found


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL; None for another database."""
    parsed = sqlalchemy.make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _on_sqlite_connect(connection: sqlite3.Connection, _record: object) -> None:
    # The driver must not open transactions by itself: ours are always BEGIN IMMEDIATE.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()


def _sqlite_engine(url: str, begin: str) -> Engine:
    engine = sqlalchemy.create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def create_engine(url: str) -> Engine:
    """An engine for work outside the two doors (migrations, the command line)."""
    if sqlite_path(url) is not None:
        return _sqlite_engine(url, "BEGIN IMMEDIATE")
    return sqlalchemy.create_engine(
        _postgresql(url), pool_size=READERS, pool_pre_ping=True, connect_args=_patience(url)
    )


def _postgresql(url: str) -> sqlalchemy.URL:
    parsed = sqlalchemy.make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _patience(url: str) -> dict[str, int]:
    """What the URL itself does not say."""
    given = sqlalchemy.make_url(url).query
    return {key: value for key, value in POSTGRESQL_PATIENCE.items() if key not in given}


def _postgresql_engine(url: str, **options: Any) -> Engine:
    """For the two doors: a connection that turns out to be gone is taken anew (``Database._run``), not asked before."""
    return sqlalchemy.create_engine(_postgresql(url), pool_size=READERS, connect_args=_patience(url), **options)


def _set_read_only(connection: Any, _record: object) -> None:
    """A snapshot for each transaction: said once, when it connects."""
    from psycopg import IsolationLevel

    connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True


class Database:
    """Two doors to one database: ``write`` and ``read``, each running a function in a transaction off the loop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = sqlite_path(url) is not None
        self._writer = create_engine(url) if self.is_sqlite else _postgresql_engine(url)
        self._reading = None if self.is_sqlite else _postgresql_engine(url)
        if self._reading is not None:
            event.listen(self._reading, "connect", _set_read_only)
        # One connection is one transaction at a time, whichever thread comes.
        self._writing = threading.Lock() if self.is_sqlite else contextlib.nullcontext()
        self._local = threading.local()
        writers = 1 if self.is_sqlite else READERS
        self._write_threads = ThreadPoolExecutor(writers, "database-write", self._keep_connection)
        self._read_threads = ThreadPoolExecutor(READERS, "database-read", self._keep_connection)
        self._readers: list[Engine] = []
        self._kept: list[Connection] = []
        self._path = sqlite_path(url)
        self._file: tuple[int, int] | None = None
        """Device and inode of the file that was opened."""
        event.listen(self._writer, "connect", self._opened)
        self._sqlite: sqlite3.Connection | None = None
        if self.is_sqlite:
            event.listen(self._writer, "connect", self._keep)

    async def write(self, transaction: Callable[[Connection], T], *, followed: bool = False) -> T:
        """Run ``transaction`` and commit it durably before returning.

        ``followed``: nothing outside the database may come of it before another transaction, of whatever process, has
        made it durable as well. On SQLite it then costs no fsync: a killed process loses nothing, and a machine that
        loses its power loses it whole, with all that was written after it. PostgreSQL's commits are always durable:
        its clients outlive it.

        Raises DatabaseUnavailable where the database cannot be reached, is full, or stays locked; whatever the
        function raises rolls back and is passed on.
        """
        loop = asyncio.get_running_loop()
        run = partial(self.write_now, transaction, followed=followed)
        return await loop.run_in_executor(self._write_threads, run)

    async def read(self, query: Callable[[Connection], T], *, single: bool = False) -> T:
        """Run ``query`` on a consistent snapshot. Raises DatabaseUnavailable.

        ``single``: it is one statement, or several that need not agree; each is a snapshot by itself, and on PostgreSQL
        no transaction has to be begun and ended around it; there is none to refuse a write either.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, partial(self.read_now, query, single=single))

    def write_now(self, transaction: Callable[[Connection], T], *, followed: bool = False) -> T:
        """``write`` for callers that have no event loop (the command line, tests)."""
        with self._writing:
            self._check_file()
            with self._without_fsync() if followed else contextlib.nullcontext():
                return self._run(partial(self._begin, self._writer), transaction)

    @contextlib.contextmanager
    def _without_fsync(self) -> Iterator[None]:
        """https://www.sqlite.org/pragma.html#pragma_synchronous: with a WAL, NORMAL stays consistent and in order."""
        self._synchronous("NORMAL")
        try:
            yield
        finally:
            self._synchronous("FULL")

    def _synchronous(self, level: Literal["NORMAL", "FULL"]) -> None:
        # A connection that is closed is followed by another, which begins with FULL.
        with contextlib.suppress(sqlite3.ProgrammingError):
            if self._sqlite is not None:
                self._sqlite.execute(f"PRAGMA synchronous = {level}")

    def read_now(self, query: Callable[[Connection], T], *, single: bool = False) -> T:
        """``read`` for callers that have no event loop."""
        self._check_file()
        return self._run(partial(self._begin, self._reader(), single=single), query)

    def _reader(self) -> Engine:
        if self._reading is not None:
            return self._reading
        # A connection a thread: a reader never waits for the writer, nor for another reader.
        engine: Engine | None = getattr(self._local, "engine", None)
        if engine is None:
            engine = _sqlite_engine(self.url, "BEGIN")
            event.listen(engine, "connect", self._opened)
            event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON"))
            self._local.engine = engine
            self._readers.append(engine)
        return engine

    def _keep_connection(self) -> None:
        """A thread of one of the doors has a connection to PostgreSQL for itself: nothing is checked out or in."""
        self._local.keeps = not self.is_sqlite

    def _begin(self, engine: Engine, *, single: bool = False) -> AbstractContextManager[Connection]:
        """A transaction that is committed at the end of the context; its value is the connection."""
        if not getattr(self._local, "keeps", False):
            return engine.begin()
        kept: Connection | None = getattr(self._local, "kept", None)
        if kept is None:
            self._local.kept = kept = engine.connect()
            self._kept.append(kept)
        return _transaction(kept, single=single)

    def _check_file(self) -> None:
        """SQLite goes on with a file that was deleted or replaced: what is written there, nobody ever finds again."""
        if self._file is not None and self._identity() != self._file:
            raise DatabaseUnavailable(f"{self._path} was deleted or replaced; put it back and start again")

    def _keep(self, connection: sqlite3.Connection, _record: object) -> None:
        self._sqlite = connection

    def _opened(self, _connection: object, _record: object) -> None:
        if self._file is None:
            self._file = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path) if self._path is not None else None
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found is not None else None

    @staticmethod
    def _run(begin: Callable[[], AbstractContextManager[Connection]], function: Callable[[Connection], T]) -> T:
        with _errors_named():
            for _ in range(CLASH_RETRIES):
                committing = False
                try:
                    with begin() as connection:
                        found = function(connection)
                        committing = True
                    return found
                except DBAPIError as error:
                    # Two transactions wanted the same rows in another order; one of them was rolled back to go again.
                    if getattr(error.orig, "sqlstate", None) in CLASHES:
                        time.sleep(random.random() / 50)
                    elif committing or not error.connection_invalidated:
                        raise
                    # Else a connection that had been cut before: nothing of this was done, the next one is new.
            with begin() as connection:
                return function(connection)

    def close(self) -> None:
        self._write_threads.shutdown(wait=True)
        self._read_threads.shutdown(wait=True)
        for connection in self._kept:
            connection.close()
        for engine in [self._writer, *self._readers, *([self._reading] if self._reading is not None else [])]:
            engine.dispose()


@contextlib.contextmanager
def _transaction(connection: Connection, *, single: bool) -> Iterator[Connection]:
    with connection.begin():
        driver: Any = connection.connection.dbapi_connection
        if single:
            driver.autocommit = True
        try:
            yield connection
        finally:
            if single and not driver.closed:
                driver.autocommit = False


@contextlib.contextmanager
def _errors_named() -> Iterator[None]:
    """What means "not now" becomes DatabaseUnavailable; what will be no better next time is passed on."""
    try:
        yield
    except PoolTimeoutError as error:
        raise DatabaseUnavailable(str(error)) from error
    except DBAPIError as error:
        if not _is_unavailable(error):
            raise
        raise DatabaseUnavailable(str(error.orig)) from error


def _is_unavailable(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state.startswith(UNAVAILABLE_CLASSES) or state == READ_ONLY
    # SQLite: locked, full, read-only, no file; and, as the bare class, a file that is damaged.
    return isinstance(error, OperationalError) or type(error) is DatabaseError


def storable(text: str) -> str:
    """Text with U+FFFD in place of what no database stores, whoever said it: a sender, a program, a model."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("�", text)


def to_json(value: object) -> str:
    """JSON as the database keeps it."""
    return storable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def now_us() -> int:
    """Microseconds since the Unix epoch, UTC: the unit of every time in the database."""
    return time.time_ns() // 1000


def today() -> str:
    """The day (UTC) that is counted by, ``YYYY-MM-DD``."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def database_now_us(connection: Connection) -> int:
    """The database's own clock: what leases between hosts are compared by.

    A connection asks for it now and then; in between it goes on by this host's, that neither stops nor is ever set.
    """
    if connection.dialect.name == "sqlite":
        return now_us()
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    asked_at, ahead = connection.info.get(_CLOCK, (now - CLOCK_KEPT_US - 1, 0))
    if now - asked_at > CLOCK_KEPT_US:
        value: Any = connection.exec_driver_sql(_ASK_CLOCK).scalar()
        ahead = int(value) - now
        connection.info[_CLOCK] = (now, ahead)
    return now + int(ahead)

"""The two doors to the database: what is committed, what is refused and how, and that nobody waits who need not."""

from __future__ import annotations

import asyncio
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tests import processes
from tests.servers import PostgreSQL
from workspace_store import database as database_module
from workspace_store.database import Database, DatabaseUnavailable

COUNTER = "CREATE TABLE counter (name VARCHAR PRIMARY KEY, value INTEGER NOT NULL)"


@pytest.fixture
def counter(database: Database) -> Database:
    def make(connection: Connection) -> None:
        connection.execute(text(COUNTER))
        connection.execute(text("INSERT INTO counter VALUES ('a', 0), ('b', 0)"))

    database.write_now(make)
    return database


def value(connection: Connection, name: str = "a") -> int:
    return int(connection.execute(text("SELECT value FROM counter WHERE name = :name"), {"name": name}).scalar_one())


def set_value(connection: Connection, new: int, name: str = "a") -> None:
    connection.execute(text("UPDATE counter SET value = :new WHERE name = :name"), {"new": new, "name": name})


def read_then_write(connection: Connection) -> None:
    found = connection.execute(text("SELECT value FROM counter WHERE name = 'a'" + _lock(connection))).scalar_one()
    set_value(connection, int(found) + 1)


def _lock(connection: Connection) -> str:
    return " FOR UPDATE" if connection.dialect.name == "postgresql" else ""


async def test_what_is_written_is_read(counter: Database) -> None:
    await counter.write(lambda connection: set_value(connection, 5))
    assert await counter.read(value) == 5


async def test_an_exception_undoes_the_whole_transaction(counter: Database) -> None:
    def half(connection: Connection) -> None:
        set_value(connection, 7)
        raise KeyError("half-way")

    with pytest.raises(KeyError, match="half-way"):
        await counter.write(half)
    assert await counter.read(value) == 0
    await counter.write(read_then_write)
    assert await counter.read(value) == 1


def test_read_then_write_from_many_threads_loses_no_update(counter: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: counter.write_now(read_then_write), range(80)))
    assert counter.read_now(value) == 80


def write_many(url: str) -> None:
    database = Database(url)
    for _ in range(40):
        database.write_now(read_then_write)
    database.close()


def test_two_processes_writing_at_once_lose_no_update(counter: Database) -> None:
    writing = [processes.start(write_many, counter.url) for _ in range(2)]
    assert processes.codes(*writing) == [0, 0]
    assert counter.read_now(value) == 80


async def test_a_reader_does_not_wait_for_a_writer(counter: Database) -> None:
    writing, done = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        set_value(connection, 1)
        writing.set()
        assert done.wait(30)

    task = asyncio.create_task(counter.write(slow))
    await asyncio.to_thread(writing.wait, 30)
    assert await counter.read(value) == 0
    assert not task.done()
    done.set()
    await task
    assert await counter.read(value) == 1


async def test_the_event_loop_goes_on_while_the_database_works(counter: Database) -> None:
    entered, done = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        entered.set()
        assert done.wait(30)

    task = asyncio.create_task(counter.write(slow))
    while not entered.is_set():
        await asyncio.sleep(0)
    done.set()
    await task


async def test_a_read_sees_one_moment_however_many_queries_it_makes(counter: Database) -> None:
    reading, written = threading.Event(), threading.Event()

    def twice(connection: Connection) -> tuple[int, int]:
        first = value(connection)
        reading.set()
        assert written.wait(30)
        return first, value(connection)

    task = asyncio.create_task(counter.read(twice))
    await asyncio.to_thread(reading.wait, 30)
    await counter.write(lambda connection: set_value(connection, 9))
    written.set()
    assert await task == (0, 0)


async def test_the_door_for_reading_does_not_write(counter: Database) -> None:
    with pytest.raises((DatabaseUnavailable, DBAPIError)):
        await counter.read(lambda connection: set_value(connection, 3))
    assert await counter.read(value) == 0


async def test_a_deadlock_is_run_again_not_reported(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    database.write_now(lambda connection: connection.execute(text(COUNTER)))
    database.write_now(lambda connection: connection.execute(text("INSERT INTO counter VALUES ('a', 0), ('b', 0)")))
    both = threading.Barrier(2)

    def crosswise(first: str, second: str) -> None:
        tries = []

        def transaction(connection: Connection) -> None:
            tries.append(1)
            connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
            set_value(connection, value(connection, first) + 1, first)
            if len(tries) == 1:
                both.wait(30)
            set_value(connection, value(connection, second) + 1, second)

        database.write_now(transaction)

    async with asyncio.timeout(60):
        await asyncio.gather(asyncio.to_thread(crosswise, "a", "b"), asyncio.to_thread(crosswise, "b", "a"))
    assert database.read_now(lambda connection: (value(connection, "a"), value(connection, "b"))) == (2, 2)
    database.close()


async def test_only_what_another_write_follows_costs_no_fsync(sqlite_url: str) -> None:
    database = Database(sqlite_url)

    def level(connection: Connection) -> int:
        return int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())

    def fails(_: Connection) -> None:
        raise LookupError

    normal, full = 1, 2
    assert [await database.write(level, followed=followed) for followed in (False, True, False)] == [full, normal, full]
    with pytest.raises(LookupError):
        await database.write(fails, followed=True)
    assert await database.write(level) == full
    database._writer.dispose()  # as after an error that took the connection
    assert await database.write(level, followed=True) == full
    assert [await database.write(level, followed=followed) for followed in (True, False)] == [normal, full]
    database.close()


def test_a_file_that_cannot_be_reached_is_unavailable_until_it_can(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/missing/nightporter.db")
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        database.write_now(lambda connection: connection.execute(text(COUNTER)))
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        database.read_now(lambda connection: connection.execute(text("SELECT 1")))
    (tmp_path / "missing").mkdir()
    database.write_now(lambda connection: connection.execute(text(COUNTER)))
    database.close()


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "nightporter.db").write_bytes(b"not a database at all " * 500)
    database = Database(f"sqlite:///{tmp_path}/nightporter.db")
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        database.read_now(lambda connection: connection.execute(text("SELECT * FROM counter")).all())
    database.close()


def test_a_lock_that_stays_is_unavailable_and_nothing_is_written(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_SECONDS", 0)
    holder, other = Database(sqlite_url), Database(sqlite_url)
    holder.write_now(lambda connection: connection.execute(text(COUNTER)))
    holder.write_now(lambda connection: connection.execute(text("INSERT INTO counter VALUES ('a', 0)")))
    entered: list[int] = []

    def while_held(connection: Connection) -> None:
        set_value(connection, 1)
        with pytest.raises(DatabaseUnavailable, match="locked"):
            other.write_now(lambda connection: entered.append(1))
        # It can still be read.
        assert other.read_now(value) == 0

    holder.write_now(while_held)
    assert entered == []
    other.write_now(read_then_write)
    assert other.read_now(value) == 2
    holder.close()
    other.close()


def fill_the_disk(url: str) -> None:
    database = Database(url)
    database.write_now(lambda connection: connection.execute(text(COUNTER)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    big = "x" * (4 << 20)

    def insert(connection: Connection) -> None:
        connection.execute(text("INSERT INTO counter VALUES (:big, 1)"), {"big": big})

    with pytest.raises(DatabaseUnavailable):
        database.write_now(insert)
    assert database.read_now(lambda c: c.execute(text("SELECT count(*) FROM counter")).scalar()) == 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    database.write_now(insert)
    assert database.read_now(lambda connection: value(connection, big)) == 1
    database.close()


def test_a_full_disk_is_unavailable_and_works_again_when_there_is_room(sqlite_url: str) -> None:
    assert processes.codes(processes.start(fill_the_disk, sqlite_url)) == [0]


def test_a_server_that_is_away_is_unavailable(postgresql: PostgreSQL) -> None:
    database = Database(f"postgresql+psycopg://porter@/none?host={postgresql.folder}/nobody-listens-here")
    with pytest.raises(DatabaseUnavailable):
        database.write_now(lambda connection: None)
    with pytest.raises(DatabaseUnavailable):
        database.read_now(lambda connection: None)
    database.close()


def test_a_connection_cut_in_mid_transaction_is_unavailable_and_the_next_one_works(postgresql_url: str) -> None:
    database = Database(postgresql_url)

    def cut(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE never (id INTEGER)"))
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        other = sqlalchemy.create_engine(postgresql_url)
        with other.connect() as second:
            second.execute(text(f"SELECT pg_terminate_backend({own})"))
        other.dispose()
        connection.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailable):
        database.write_now(cut)
    assert database.read_now(lambda c: c.execute(text("SELECT to_regclass('never')")).scalar()) is None
    database.write_now(lambda connection: connection.execute(text(COUNTER)))
    database.close()


def test_a_server_that_only_reads_is_unavailable_for_writing(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    database.write_now(lambda connection: connection.execute(text(COUNTER)))

    def on_a_standby(connection: Connection) -> None:
        connection.execute(text("SET LOCAL transaction_read_only = on"))
        connection.execute(text("INSERT INTO counter VALUES ('a', 1)"))

    with pytest.raises(DatabaseUnavailable, match="read-only"):
        database.write_now(on_a_standby)
    database.close()


def test_what_will_never_work_is_not_called_unavailable(postgresql_url: str) -> None:
    """A caller that is told "not now" tries again for ever."""
    database = Database(postgresql_url)
    with pytest.raises(DBAPIError, match="too long for tsvector"):
        database.read_now(lambda c: c.execute(text("SELECT to_tsvector('simple', string_agg(md5(i::text), ' '))"
                                                   " FROM generate_series(1, 60000) AS i")).all())  # fmt: skip
    database.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_accepted_into_a_file_that_nobody_can_find(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "nightporter.db"
    found = Database(f"sqlite:///{path}")
    found.write_now(lambda connection: connection.execute(text(COUNTER)))
    assert found.read_now(lambda connection: connection.execute(text("SELECT count(*) FROM counter")).scalar()) == 0
    path.unlink()
    if replaced:
        path.touch()
    for door in (found.write_now, found.read_now):
        with pytest.raises(DatabaseUnavailable, match="deleted or replaced"):
            door(value)
    found.close()

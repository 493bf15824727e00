"""Statements of the hot path give the same on both databases, whatever way they take to them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    bindparam,
    event,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, MultipleResultsFound, NoResultFound, ProgrammingError

from nightporter.testing.servers import PostgreSQL
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.statements import Prepared, Together, words

# A value of each type that the hot path has; beside the product's own tables.
thing = Table(
    "test_statements_thing",
    MetaData(),
    Column("id", Uuid, primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True),
    Column("words", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("yes", Boolean, nullable=False),
    Column("absent", BigInteger),
)
INSERT = Prepared(thing.insert())
ALL = Prepared(select(thing).where(thing.c.number >= bindparam("least")).order_by(thing.c.number))
RAISE = Prepared(
    update(thing)
    .where(thing.c.id == bindparam("of"), thing.c.words.in_(words("a", "b")))
    .values(number=thing.c.number + bindparam("by"), yes=False)
    .returning(thing.c.number, thing.c.yes)
)


def row(number: int, said: str = "a") -> dict[str, object]:
    return {"id": uuid4(), "number": number, "words": said, "raw": b"\0\xff%", "yes": True, "absent": None}


@pytest.fixture
def things(database: Database) -> Iterator[Database]:
    database.write_now(thing.create)
    yield database
    database.write_now(thing.drop)


def test_every_type_comes_back_as_it_was_given(things: Database) -> None:
    given = row(1 << 60, "%(x)s ' ; -- \n Żółć 🦉")
    things.write_now(lambda connection: INSERT(connection, given))
    (found,) = things.read_now(lambda connection: ALL(connection, {"least": 0}).all())
    assert (found.id, found.number, found.words, found.raw, found.yes, found.absent) == tuple(given.values())
    assert isinstance(found.id, UUID)
    assert things.read_now(lambda connection: ALL(connection, {"least": 1 << 61}).first()) is None


def test_what_is_found_is_asked_for_as_ever(things: Database) -> None:
    things.write_now(lambda connection: [INSERT(connection, row(number)) for number in (1, 2)])

    def ask(connection: Connection) -> None:
        assert [found.number for found in ALL(connection, {"least": 0})] == [1, 2]
        assert ALL(connection, {"least": 2}).one().number == 2
        assert ALL(connection, {"least": 3}).one_or_none() is None
        assert ALL(connection, {"least": 3}).scalar() is None
        assert isinstance(ALL(connection, {"least": 2}).scalar_one(), UUID)
        with pytest.raises(MultipleResultsFound):
            ALL(connection, {"least": 0}).one_or_none()
        with pytest.raises(NoResultFound):
            ALL(connection, {"least": 3}).one()

    things.read_now(ask)


def test_an_update_says_what_it_changed(things: Database) -> None:
    given = row(5)

    def change(connection: Connection) -> None:
        INSERT(connection, given)
        found = RAISE(connection, {"of": given["id"], "by": 2}).one()
        assert (found.number, found.yes) == (7, False)
        assert RAISE(connection, {"of": uuid4(), "by": 2}).one_or_none() is None

    things.write_now(change)


def test_a_broken_rule_is_told_as_ever_and_undoes_the_transaction(things: Database) -> None:
    def clash(connection: Connection) -> None:
        INSERT(connection, row(8))
        INSERT(connection, row(9))
        INSERT(connection, row(9))

    with pytest.raises(IntegrityError):
        things.write_now(clash)
    assert things.read_now(lambda connection: ALL(connection, {"least": 0}).all()) == []
    with pytest.raises(DBAPIError):
        things.write_now(lambda connection: INSERT(connection, {**row(1), "words": None}))


def test_listeners_hear_of_it_before(things: Database) -> None:
    heard = []

    def ask(connection: Connection) -> None:
        event.listen(connection, "before_cursor_execute", lambda *given: heard.append(given[2]))
        ALL(connection, {"least": 0})

    things.read_now(ask)
    assert len(heard) == 1


def test_what_is_written_together_is_there_or_not_as_a_whole(things: Database) -> None:
    given, others = row(1), [row(2, "x"), row(3, "x")]
    things.write_now(lambda connection: INSERT(connection, given))

    def both(connection: Connection, *more: dict[str, object]) -> int:
        together = Together(connection)
        for other in more:
            together.add(INSERT, other)
        return int(together.end(RAISE, {"of": given["id"], "by": 10}).scalar_one())

    assert things.write_now(lambda connection: both(connection, *others)) == 11
    assert [one.number for one in things.read_now(lambda c: ALL(c, {"least": 0}))] == [2, 3, 11]
    assert things.write_now(both) == 21
    with pytest.raises(IntegrityError):
        things.write_now(lambda connection: both(connection, row(4), row(2)))
    assert [one.number for one in things.read_now(lambda c: ALL(c, {"least": 0}))] == [2, 3, 21]


def test_a_statement_that_could_go_wrong_unseen_is_refused(things: Database) -> None:
    if things.is_sqlite:
        pytest.skip("SQLite is given statements by SQLAlchemy, which sees to both")
    listed = Prepared(select(thing.c.id).where(thing.c.words.in_(["a", "b"])))
    with pytest.raises(TypeError, match="list"):
        things.read_now(lambda connection: listed(connection, {}))
    counted = Prepared(Table("t", MetaData(), Column("a", BigInteger), Column("b", BigInteger, default=1)).insert())
    with pytest.raises(TypeError, match="Python"):
        things.read_now(lambda connection: counted(connection, {"a": 1}))
    things.read_now(lambda connection: ALL(connection, {"least": 0}))
    with pytest.raises(TypeError, match="first time"):
        things.read_now(lambda connection: ALL(connection, {"least": 0, "most": 1}))


async def test_a_connection_that_was_cut_is_replaced(postgresql: PostgreSQL) -> None:
    """As by a server that was restarted: what was not begun is done on a new one."""
    database = Database(postgresql.create())
    ask = Prepared(text("SELECT pg_backend_pid()"))
    others = text(
        """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()"""
    )
    try:
        before = {await database.read(lambda connection: ask(connection, {}).scalar_one()) for _ in range(8)}
        await database.write(lambda connection: connection.execute(others))
        for single in (False, True) * 4:
            found = await database.read(lambda connection: ask(connection, {}).scalar_one(), single=single)
            assert found not in before
        with pytest.raises(ProgrammingError):
            await database.write(lambda connection: Prepared(text("SELECT * FROM nowhere"))(connection, {}))
        assert await database.write(lambda connection: ask(connection, {}).scalar_one())
    finally:
        database.close()


async def test_a_server_that_is_away_is_said_to_be_and_found_when_it_is_back(postgresql: PostgreSQL) -> None:
    # A server of its own, since others use that one.
    server = PostgreSQL()
    database = Database(server.create())
    fresh = Database(database.url)
    ask = Prepared(text("SELECT 1"))
    doors = (database.read, database.write)
    try:
        for door in doors:
            assert await door(lambda connection: ask(connection, {}).scalar_one()) == 1
        server.shut()
        for door in doors:
            with pytest.raises(DatabaseUnavailable):
                await door(lambda connection: ask(connection, {}).scalar_one())
        with pytest.raises(DatabaseUnavailable):
            await fresh.read(lambda connection: ask(connection, {}).scalar_one())
        server.start()
        for door in (*doors, fresh.read):
            assert await door(lambda connection: ask(connection, {}).scalar_one()) == 1
    finally:
        fresh.close()
        database.close()
        server.stop()


async def test_a_single_read_begins_no_transaction(postgresql: PostgreSQL) -> None:
    database = Database(postgresql.create())
    began = Prepared(text("SELECT pg_catalog.now() = pg_catalog.statement_timestamp()"))

    def twice(connection: Connection) -> list[bool]:
        return [began(connection, {}).scalar_one() for _ in range(2)]

    try:
        assert await database.read(twice, single=True) == [True, True]
        assert (await database.read(twice))[1] is False
    finally:
        database.close()

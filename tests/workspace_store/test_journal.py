"""The journal: nothing in it changes unnoticed, nobody writes without the right to, and forgetting is possible."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tests import processes
from tests.workspace_store.people import lease, person
from workspace_store import journal, principal
from workspace_store import tenancy as tenancies
from workspace_store.database import Database
from workspace_store.journal import Event
from workspace_store.principal import StaleLease
from workspace_store.tenancy import StaleTenancy, Tenancy

TURN = uuid4()


def append(database: Database, owner: UUID, *kinds: str) -> int:
    events = [Event(kind, {"text": f"number {number}"}) for number, kind in enumerate(kinds)]
    return database.write_now(lambda connection: journal.append(connection, owner, events, under=None, turn=TURN))


def verify(database: Database, owner: UUID) -> tuple[int, list[str]]:
    seen, faults = database.read_now(lambda connection: journal.verify(connection, owner))
    return seen, [fault.what for fault in faults]


@pytest.fixture
def owner(database: Database) -> UUID:
    identifier = person(database)
    append(database, identifier, "message.received", "turn.started", "tool.requested", "tool.returned")
    return identifier


def test_an_untouched_chain_verifies_and_reads_back(database: Database, owner: UUID) -> None:
    assert verify(database, owner) == (4, [])
    found = database.read_now(lambda connection: journal.read(connection, owner))
    assert [(event.seq, event.kind) for event in found] == [
        (1, "message.received"), (2, "turn.started"), (3, "tool.requested"), (4, "tool.returned"),
    ]  # fmt: skip
    assert found[2].body == {"text": "number 2"}
    assert database.read_now(lambda connection: journal.head(connection, owner)) == (4, found[-1].hash)


def test_each_person_has_a_chain_of_their_own(database: Database, owner: UUID) -> None:
    other = person(database)
    append(database, other, "message.received")
    assert verify(database, other) == (1, [])
    assert verify(database, owner) == (4, [])


def tamper(database: Database, statement: str, **values: object) -> None:
    """Change what is stored as somebody with the file or the server in hands can."""

    def unguarded(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            for verb in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER IF EXISTS journal_event_no_{verb}"))
        else:
            connection.execute(text("ALTER TABLE journal_event DISABLE TRIGGER ALL"))
        assert connection.execute(text(statement), values).rowcount > 0

    database.write_now(unguarded)


CHANGES = {
    "seq": "9", "turn": "'00000000000000000000000000000001'", "epoch": "7", "kind": "'tool.returned'", "at": "at + 1",
    "payload_hash": "'ab'", "prev_hash": "'ab'", "hash": "'ab'",
}  # fmt: skip


@pytest.mark.parametrize("row", [1, 2, 4])
@pytest.mark.parametrize("column", CHANGES)
def test_a_change_of_any_column_of_any_event_is_found(database: Database, owner: UUID, column: str, row: int) -> None:
    if column == "kind" and row == 4:
        pytest.skip("that is its kind")
    tamper(database, f"UPDATE journal_event SET {column} = {CHANGES[column]} WHERE seq = {row}")
    assert verify(database, owner)[1] != []


@pytest.mark.parametrize("column", [*CHANGES, "salt", "body"])
def test_what_is_no_value_of_its_column_is_found_not_a_crash(sqlite: Database, column: str) -> None:
    owner = person(sqlite)
    append(sqlite, owner, "message.received", "turn.started")
    table = "journal_payload" if column in ("salt", "body") else "journal_event"
    tamper(sqlite, f"UPDATE {table} SET {column} = 'nonsense' WHERE seq = 2")
    assert verify(sqlite, owner)[1] != []


@pytest.mark.parametrize("column", ["salt", "body"])
def test_a_changed_payload_is_found(database: Database, owner: UUID, column: str) -> None:
    new = "x" if column == "body" else b"x" * 16
    tamper(database, f"UPDATE journal_payload SET {column} = :new WHERE seq = 2", new=new)
    assert verify(database, owner) == (4, ["its payload was changed"])


@pytest.mark.parametrize("row", [1, 3, 4])
def test_a_removed_event_is_found(database: Database, owner: UUID, row: int) -> None:
    tamper(database, f"DELETE FROM journal_event WHERE seq = {row}")
    assert verify(database, owner)[1] != []


def test_an_event_moved_to_somebody_else_is_found_at_both(database: Database, owner: UUID) -> None:
    other = person(database)
    value = other if not database.is_sqlite else other.hex
    tamper(database, "UPDATE journal_event SET principal = :other WHERE seq = 4", other=value)
    assert verify(database, owner)[1] != []
    assert verify(database, other)[1] != []


@pytest.mark.parametrize("column", ["head_seq", "head_hash"])
def test_a_changed_head_is_found(database: Database, owner: UUID, column: str) -> None:
    tamper(database, f"UPDATE principal SET {column} = {'3' if column == 'head_seq' else repr('ab')}")
    assert verify(database, owner)[1] == [
        f"the head names event {3 if column == 'head_seq' else 4}, the chain ends at 4"
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_event SET kind = 'x'",
        "UPDATE journal_event SET kind = kind WHERE seq = 2",
        "DELETE FROM journal_event",
        "INSERT OR REPLACE INTO journal_event SELECT principal, seq, turn, epoch, 'x', at, payload_hash, prev_hash,"
        " hash FROM journal_event WHERE seq = 2",
        "TRUNCATE journal_event",
        "INSERT INTO journal_event SELECT * FROM journal_event ON CONFLICT (principal, seq) DO UPDATE SET kind = 'x'",
    ],
)
def test_the_database_itself_refuses_to_change_or_remove_an_event(
    database: Database, owner: UUID, statement: str
) -> None:
    kind = "sqlite" if "OR REPLACE" in statement else "postgresql" if "TRUNCATE" in statement else ""
    if kind and database.is_sqlite != (kind == "sqlite"):
        pytest.skip(f"a statement of {kind}")
    if "ON CONFLICT" in statement and database.is_sqlite:
        statement = statement.replace(" ON CONFLICT", " WHERE true ON CONFLICT")
    with pytest.raises(DBAPIError, match="append-only"):
        database.write_now(lambda connection: connection.execute(text(statement)))
    assert verify(database, owner) == (4, [])


def test_forgetting_what_was_said_leaves_a_chain_that_verifies(database: Database, owner: UUID) -> None:
    database.write_now(lambda connection: connection.execute(text("DELETE FROM journal_payload WHERE seq IN (2, 4)")))
    assert verify(database, owner) == (4, [])
    bodies = [event.body for event in database.read_now(lambda connection: journal.read(connection, owner))]
    assert bodies == [{"text": "number 0"}, None, {"text": "number 2"}, None]


def test_the_same_words_leave_no_trace_to_guess_them_by(database: Database) -> None:
    """Each payload has a salt of its own: a hash that stays after forgetting tells nothing."""
    owner = person(database)
    append(database, owner, "message.received")
    append(database, owner, "message.received")
    rows = database.read_now(lambda c: c.execute(text("SELECT payload_hash FROM journal_event")).scalars().all())
    assert len(set(rows)) == 2


@pytest.mark.parametrize("kind", sorted(journal.KINDS))
def test_no_event_of_any_kind_is_written_under_a_lease_that_has_gone(sqlite: Database, kind: str) -> None:
    owner = person(sqlite)
    old = lease(sqlite, owner)
    new = lease(sqlite, owner, "runner-b")
    with pytest.raises(StaleLease):
        sqlite.write_now(lambda c: journal.append(c, owner, [Event(kind, {})], under=old, turn=TURN))
    assert verify(sqlite, owner) == (0, [])
    sqlite.write_now(lambda c: journal.append(c, owner, [Event(kind, {})], under=new, turn=TURN))
    assert verify(sqlite, owner) == (1, [])


def test_a_lease_that_was_given_back_writes_nothing(database: Database, owner: UUID) -> None:
    held = lease(database, owner)
    assert database.write_now(lambda connection: principal.release(connection, held))
    with pytest.raises(StaleLease):
        database.write_now(lambda c: journal.append(c, owner, [Event("turn.started", {})], under=held))
    assert verify(database, owner) == (4, [])


def test_a_lease_of_the_same_number_but_another_runner_writes_nothing(database: Database, owner: UUID) -> None:
    held = lease(database, owner)
    with pytest.raises(StaleLease):
        database.write_now(
            lambda c: journal.append(c, owner, [Event("turn.started", {})], under=replace(held, owner="runner-z"))
        )


def test_a_right_over_one_person_writes_nothing_of_another(database: Database, owner: UUID) -> None:
    held = lease(database, person(database))
    with pytest.raises(ValueError, match="is none over"):
        database.write_now(lambda c: journal.append(c, owner, [Event("turn.started", {})], under=held))
    assert verify(database, owner) == (4, [])


def test_a_manager_writes_only_while_the_volume_is_its_own(database: Database, owner: UUID) -> None:
    def take(connection: Connection, host: str) -> Tenancy | None:
        return tenancies.take(connection, owner, host, tenancies.look(connection, owner))

    old = database.write_now(lambda connection: take(connection, "host-a"))
    assert old is not None
    database.write_now(lambda c: journal.append(c, owner, [Event("sandbox.slept", {})], under=old))
    new = database.write_now(lambda connection: take(connection, "host-b"))
    assert new is not None
    with pytest.raises(StaleTenancy):
        database.write_now(lambda c: journal.append(c, owner, [Event("sandbox.slept", {})], under=old))
    found = database.read_now(lambda connection: journal.read(connection, owner))
    assert [(event.seq, event.epoch) for event in found][-1] == (5, old.epoch)


def test_a_kind_that_is_not_listed_is_refused(database: Database, owner: UUID) -> None:
    with pytest.raises(ValueError, match=r"message\.recieved is not a kind"):
        append(database, owner, "turn.started", "message.recieved")
    assert verify(database, owner) == (4, [])


@pytest.mark.parametrize("words", ["\ud800 half", "nul \x00 inside", "\u2028 line", "😀 e\u0301", '"\\u0000"'])
def test_any_text_can_be_recorded(database: Database, words: str) -> None:
    owner = person(database)
    event = Event("tool.returned", {"text": words, words: [words]})
    database.write_now(lambda connection: journal.append(connection, owner, [event], under=None))
    assert verify(database, owner) == (1, [])
    (found,) = database.read_now(lambda connection: journal.read(connection, owner))
    assert found.body is not None
    assert found.body["text"] == words.replace("\ud800", "\ufffd")


def test_appends_from_many_threads_make_one_chain(database: Database, owner: UUID) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: append(database, owner, "message.received", "reply.queued"), range(30)))
    assert verify(database, owner) == (64, [])


def append_many(url: str, owner: UUID) -> None:
    database = Database(url)
    for _ in range(40):
        append(database, owner, "message.received")
    database.close()


def test_appends_from_two_processes_make_one_chain(database: Database, owner: UUID) -> None:
    appending = [processes.start(append_many, database.url, owner) for _ in range(2)]
    assert processes.codes(*appending) == [0, 0]
    assert verify(database, owner) == (84, [])


def test_the_newest_events_of_a_turn_come_in_order(database: Database, owner: UUID) -> None:
    other_turn = uuid4()
    database.write_now(lambda c: journal.append(c, owner, [Event("turn.started", {})] * 3, under=None, turn=other_turn))
    found = database.read_now(lambda connection: journal.read(connection, owner, turn=other_turn))
    assert [event.seq for event in found] == [5, 6, 7]
    newest = database.read_now(lambda connection: journal.read(connection, owner, newest=True, limit=2))
    assert [event.seq for event in newest] == [6, 7]

"""The inbox: in order of arrival, what was cut off first, and only what counts against a message counts."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from tests.workspace_store.people import person, receive
from workspace_store import bursts, inbox
from workspace_store.database import Database, now_us
from workspace_store.inbox import Row


def next_open(database: Database, owner: UUID) -> Row | None:
    found = database.read_now(lambda connection: inbox.upcoming(connection, owner))
    return found.row if found else None


def get(database: Database, identifier: UUID) -> Row:
    found = database.read_now(lambda connection: inbox.get(connection, identifier))
    assert found is not None
    return found


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


@pytest.fixture
def messages(database: Database, owner: UUID) -> list[UUID]:
    def transaction(connection: Connection) -> list[UUID]:
        return [receive(connection, owner, f"message {number}") for number in range(3)]

    return database.write_now(transaction)


def test_messages_come_in_order_of_arrival(database: Database, owner: UUID, messages: list[UUID]) -> None:
    for number, expected in enumerate(messages):
        found = next_open(database, owner)
        assert found is not None
        assert (found.id, found.seq, found.envelope) == (expected, number + 1, f"message {number}")
        database.write_now(lambda connection, done=found.id: inbox.finish(connection, [done], "done"))
    assert next_open(database, owner) is None


def test_what_was_cut_off_comes_before_what_waits(database: Database, owner: UUID, messages: list[UUID]) -> None:
    turn = uuid4()
    database.write_now(lambda connection: inbox.start(connection, messages[1], turn, alone=False))
    found = next_open(database, owner)
    assert found is not None
    assert (found.id, found.turn, found.status) == (messages[1], turn, "running")


def test_what_has_settled_behind_what_settles_is_no_reason_to_look_before_that(database: Database, owner: UUID) -> None:
    later = now_us() + 30_000_000
    for at, thread in ((later, "a"), (1, "a"), (later + 1, "b"), (0, "b")):
        row = database.write_now(lambda connection, t=thread: receive(connection, owner, thread=t))
        database.write_now(lambda connection, r=row, a=at: bursts.settle(connection, r, a))
    assert next_open(database, owner) is None
    assert database.read_now(lambda connection: inbox.settled_at(connection, owner)) == later


def test_a_key_is_taken_for_good(database: Database, owner: UUID, messages: list[UUID]) -> None:
    key = get(database, messages[0]).dedupe_key
    database.write_now(lambda connection: inbox.finish(connection, messages, "done"))
    values = {"principal": owner, "seq": 9, "kind": "message", "channel": "", "account": "", "conversation": "",
              "thread": "", "envelope": "", "received_at": 0, "id": uuid4(), "dedupe_key": key}  # fmt: skip
    with pytest.raises(IntegrityError):
        database.write_now(lambda connection: inbox.insert(connection, status="pending", **values))
    found = database.read_now(lambda connection: inbox.find(connection, key))
    assert found is not None
    assert found.id == messages[0]


def test_a_running_turn_is_offered_only_the_same_persons_words_in_the_same_strand(
    database: Database, owner: UUID
) -> None:
    someone = uuid4()

    def transaction(connection: Connection) -> list[UUID]:
        return [
            receive(connection, owner, thread="t", actor=someone),
            receive(connection, owner, thread="t", actor=owner),
            receive(connection, owner, thread="other", actor=someone),
            receive(connection, owner, thread="t", conversation="d", actor=someone),
            receive(connection, owner, thread="t", actor=someone),
        ]

    made = database.write_now(transaction)
    first = get(database, made[0])
    found = database.read_now(lambda connection: inbox.waiting_like(connection, first))
    assert [row.id for row in found] == [made[0], made[4]]


def test_what_a_turn_took_in_stays_with_it_until_it_is_given_back(
    database: Database, owner: UUID, messages: list[UUID]
) -> None:
    turn = uuid4()
    database.write_now(lambda connection: inbox.start(connection, messages[0], turn, alone=False))
    database.write_now(lambda connection: inbox.mark_taken(connection, messages[1:], turn))
    found = database.read_now(lambda connection: inbox.taken_by(connection, turn))
    assert [row.id for row in found] == messages
    database.write_now(lambda connection: inbox.give_back(connection, turn))
    assert [get(database, message).status for message in messages] == ["running", "pending", "pending"]
    assert get(database, messages[1]).turn is None


def crash(database: Database, owner: UUID) -> None:
    database.write_now(lambda connection: inbox.count_crash(connection, owner))


def start(database: Database, message: UUID, *, alone: bool) -> None:
    database.write_now(lambda connection: inbox.start(connection, message, uuid4(), alone=alone))


def test_a_crash_counts_against_what_was_running_and_nothing_else(
    database: Database, owner: UUID, messages: list[UUID]
) -> None:
    other = person(database)
    elsewhere = database.write_now(lambda connection: receive(connection, other))
    start(database, messages[0], alone=False)
    start(database, elsewhere, alone=False)
    crash(database, owner)
    assert [get(database, message).crashes for message in (*messages, elsewhere)] == [1, 0, 0, 0]
    assert get(database, messages[0]).crashes_alone == 0


def test_only_a_crash_alone_counts_as_one_alone(database: Database, owner: UUID, messages: list[UUID]) -> None:
    start(database, messages[0], alone=True)
    crash(database, owner)
    found = get(database, messages[0])
    assert (found.crashes, found.crashes_alone) == (1, 1)
    # It waits for its turn to run alone when somebody else ends the process.
    crash(database, owner)
    assert get(database, messages[0]).crashes_alone == 1
    start(database, messages[0], alone=True)
    crash(database, owner)
    assert get(database, messages[0]).crashes_alone == 2

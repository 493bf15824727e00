"""Checkpoints, turn records and generations: what a wake reads, bounded and in order."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection

from tests.workspace_store.people import person
from workspace_store import checkpoints
from workspace_store.checkpoints import Checkpoint, CommittedGeneration
from workspace_store.database import Database


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


def record(database: Database, owner: UUID, *seqs: int) -> None:
    def transaction(connection: Connection) -> None:
        for seq in seqs:
            messages = [{"role": "user", "text": f"turn {seq}"}]
            checkpoints.record_turn(connection, owner, seq, uuid4(), messages, 3)

    database.write_now(transaction)


def test_the_latest_checkpoint_is_the_one_with_the_highest_seq(database: Database, owner: UUID) -> None:
    assert database.read_now(lambda connection: checkpoints.latest(connection, owner)) is None
    for seq in (3, 12, 7):
        value = Checkpoint(seq, uuid4(), seq, "volume", "m", "s", seq)
        database.write_now(lambda connection, v=value: checkpoints.write(connection, owner, v))
    other = person(database)
    database.write_now(
        lambda connection: checkpoints.write(connection, other, Checkpoint(99, None, 0, None, None, None, 0))
    )
    found = database.read_now(lambda connection: checkpoints.latest(connection, owner))
    assert found is not None
    assert (found.seq, found.generation, found.volume_id) == (12, 12, "volume")


def test_the_newest_turns_come_in_order_folded_or_not(database: Database, owner: UUID) -> None:
    record(database, owner, *range(1, 11))
    record(database, person(database), 50)
    for seq in range(1, 7):
        database.write_now(lambda connection, n=seq: checkpoints.fold(connection, owner, n, f"extract {n}"))

    def newest(limit: int, folded: bool | None) -> list[int]:
        found = database.read_now(lambda c: checkpoints.newest_turns(c, owner, limit, folded=folded))
        return [turn.seq for turn in found]

    assert newest(3, None) == [8, 9, 10]
    assert newest(99, False) == [7, 8, 9, 10]
    assert newest(2, True) == [5, 6]
    folds = database.read_now(lambda connection: checkpoints.newest_folds(connection, owner, 6, 3))
    assert folds == [(3, "extract 3"), (4, "extract 4"), (5, "extract 5")]


def test_a_folded_turn_keeps_its_own_words(database: Database, owner: UUID) -> None:
    record(database, owner, 1)
    database.write_now(lambda connection: checkpoints.fold(connection, owner, 1, "short \ud800"))
    (found,) = database.read_now(lambda connection: checkpoints.newest_turns(connection, owner, 1))
    assert (found.messages, found.folded) == ([{"role": "user", "text": "turn 1"}], "short \ufffd")


def test_generations_are_listed_newest_first(database: Database, owner: UUID) -> None:
    for number in (1, 2, 3):
        value = CommittedGeneration(number, f"m{number}", None, f"note {number}", 1, 2, 3, False, number)
        database.write_now(lambda connection, v=value: checkpoints.write_generation(connection, owner, v))
    found = database.read_now(lambda connection: checkpoints.generations(connection, owner, limit=2))
    assert [value.generation for value in found] == [3, 2]
    one = database.read_now(lambda connection: checkpoints.committed_generation(connection, owner, 2))
    assert one is not None
    assert one.note == "note 2"
    assert database.read_now(lambda connection: checkpoints.committed_generation(connection, owner, 9)) is None

"""Whether records are whole is told by the statement that looks at the lease: no more is read where they are."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.workspace_store.people import lease, person
from tests.workspace_store.test_journal import append, tamper
from workspace_store import checkpoints, wholeness
from workspace_store.checkpoints import Checkpoint
from workspace_store.database import Database
from workspace_store.wholeness import LINKS


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


def is_whole(database: Database, owner: UUID) -> bool:
    found = database.read_now(lambda connection: wholeness.look(connection, owner))
    assert found is not None
    return found[1]


def digested(database: Database, owner: UUID, seq: int, generation: int = 0) -> None:
    value = Checkpoint(seq, None, generation, None, None, None, 0)
    database.write_now(lambda connection: checkpoints.write(connection, owner, value))


@pytest.mark.parametrize("events", [0, 1, 5, LINKS, LINKS + 1, LINKS + 7])
def test_what_nobody_touched_is_whole(database: Database, owner: UUID, events: int) -> None:
    append(database, person(database), "message.received")
    append(database, owner, *["message.received"] * events)
    held = lease(database, owner)
    found = database.read_now(lambda connection: wholeness.look(connection, owner))
    assert found is not None
    assert (found[0].owner, found[0].epoch, found[1]) == (held.owner, held.epoch, True)
    for seq in (events - 2, events):
        if seq > 0:
            digested(database, owner, seq)
            assert is_whole(database, owner)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM journal_event WHERE principal = :of AND seq = 5",
        "DELETE FROM journal_event WHERE principal = :of AND seq = 7",
        "UPDATE journal_event SET hash = 'another' WHERE principal = :of AND seq = 5",
        "UPDATE journal_event SET prev_hash = 'another' WHERE principal = :of AND seq = 5",
        "UPDATE principal SET head_seq = 6 WHERE id = :of",
        "UPDATE principal SET head_hash = 'another' WHERE id = :of",
        "UPDATE principal SET generation = 6 WHERE id = :of",
        "UPDATE checkpoint SET seq = 9 WHERE principal = :of",
    ],
)
def test_a_hole_or_a_contradiction_is_seen(database: Database, owner: UUID, statement: str) -> None:
    append(database, owner, *["message.received"] * 7)
    digested(database, owner, 3)
    assert is_whole(database, owner)
    tamper(database, statement, of=owner.hex if database.is_sqlite else owner)
    assert not is_whole(database, owner)


def test_what_a_checkpoint_has_digested_is_not_read_again(database: Database, owner: UUID) -> None:
    append(database, owner, *["message.received"] * 7)
    digested(database, owner, 5)
    tamper(
        database,
        "DELETE FROM journal_event WHERE principal = :of AND seq = 2",
        of=owner.hex if database.is_sqlite else owner,
    )
    assert is_whole(database, owner)


def test_nobody_is_nobody(database: Database) -> None:
    assert database.read_now(lambda connection: wholeness.look(connection, UUID(int=7))) is None

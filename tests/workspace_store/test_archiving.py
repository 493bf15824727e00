"""Old turns in the cold: a tenth of the room, read word for word as before, and forgotten as anything else."""

from __future__ import annotations

import io
import json
import zipfile
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, func, select, text

from tests.workspace_store.people import person
from workspace_store import archiving, checkpoints, cold_turns, erasure, journal, keepsake, memory, memory_index
from workspace_store.archiving import KEPT, SEGMENT
from workspace_store.database import Database
from workspace_store.erasure import Target
from workspace_store.journal import Event

TURNS = KEPT + 3 * SEGMENT
WORDS = "Let us look at the harbour master's ledger, grüße\tand a tab. "


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


def said(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "text": f"{WORDS * 20} turn-{number:05d}"}, {"role": "assistant", "text": "I\nsee."}]


def live(database: Database, owner: UUID, turns: int = TURNS) -> list[UUID]:
    """Turns that were had, folded and made searchable."""
    found = [uuid4() for _ in range(turns)]

    def transaction(connection: Connection) -> None:
        for number, turn in enumerate(found):
            seq = journal.append(connection, owner, [Event("checkpoint.committed", {})], under=None, turn=turn)
            checkpoints.record_turn(connection, owner, seq, turn, said(number), 10)
            checkpoints.fold(connection, owner, seq, f"({turn.hex}) in short")
        memory_index.index_turns(connection, turns)

    database.write_now(transaction)
    return found


def freeze(database: Database, owner: UUID) -> int:
    frozen = 0
    while more := database.write_now(lambda connection: archiving.freeze(connection, owner)):
        frozen += more
    return frozen


def kept_of(database: Database, owner: UUID) -> tuple[int, int]:
    """(characters in records, bytes in the cold)."""

    def sizes(connection: Connection) -> tuple[int, int]:
        records, cold = checkpoints.turn_record, cold_turns.cold_turns
        warm = select(func.sum(func.length(records.c.messages))).where(records.c.principal == owner)
        packed = select(func.coalesce(func.sum(func.length(cold.c.words)), 0)).where(cold.c.principal == owner)
        return int(connection.execute(warm).scalar_one()), int(connection.execute(packed).scalar_one())

    return database.read_now(sizes)


@pytest.mark.slow
def test_old_turns_take_a_fraction_and_are_read_as_they_were(database: Database, owner: UUID) -> None:
    turns = live(database, owner)
    other = live(database, person(database), 3)
    before, _ = kept_of(database, owner)
    assert freeze(database, owner) == 3 * SEGMENT
    assert not database.read_now(lambda c: archiving.due(c, owner))
    warm, cold = kept_of(database, owner)
    assert warm <= before * (KEPT + 1) / TURNS
    assert cold < (before - warm) / 10
    for number in (0, SEGMENT - 1, SEGMENT, 3 * SEGMENT - 1, 3 * SEGMENT, TURNS - 1):
        found = database.read_now(lambda c, n=number: checkpoints.messages_of(c, [owner], turns[n]))
        assert found == said(number)
    assert database.read_now(lambda c: checkpoints.messages_of(c, [owner], other[0])) == []
    # What a wake reads is what it was.
    newest = database.read_now(lambda c: checkpoints.newest_turns(c, owner, TURNS))
    assert [record.messages for record in newest] == [said(number) for number in range(TURNS)]


def test_what_is_not_yet_folded_or_searchable_stays(database: Database, owner: UUID) -> None:
    live(database, owner)
    database.write_now(lambda c: c.execute(text("UPDATE turn_record SET folded = NULL")))
    assert freeze(database, owner) == 0
    database.write_now(lambda c: c.execute(text("UPDATE turn_record SET folded = 'x', searchable = (1 = 0)")))
    assert freeze(database, owner) == 0


@pytest.mark.slow
def test_a_turn_of_the_cold_is_forgotten_and_what_is_beside_it_is_not(database: Database, owner: UUID) -> None:
    turns = live(database, owner)
    freeze(database, owner)
    database.write_now(lambda c: erasure.forget(c, owner, [Target("turn", turns[5])], by="a test"))
    assert "turn-00005" not in everything(database)
    found = database.read_now(lambda c: checkpoints.messages_of(c, [owner], turns[6]))
    assert "turn-00006" in found[0]["text"]
    assert freeze(database, owner) >= SEGMENT


@pytest.mark.slow
def test_words_of_a_forgotten_note_go_from_the_cold_too(database: Database, owner: UUID) -> None:
    turns = live(database, owner)
    freeze(database, owner)
    note = database.write_now(lambda c: memory.write_note(c, owner, "k", "turn-00070", None))
    database.write_now(lambda c: erasure.forget(c, owner, [Target("note", note)], by="a test"))
    assert "turn-00070" not in everything(database)
    (said_then, _) = database.read_now(lambda c: checkpoints.messages_of(c, [owner], turns[70]))
    assert said_then["text"].startswith(WORDS)
    database.write_now(lambda c: memory_index.index_turns(c, TURNS))
    assert database.read_now(lambda c: memory.search(c, owner, "00070")) == []


@pytest.mark.slow
def test_turns_that_went_back_at_another_time_than_those_around_them_are_found(database: Database, owner: UUID) -> None:
    turns = live(database, owner, TURNS + 1)
    freeze(database, owner)
    # Words that go leave their turn to be indexed anew: it goes back later than what came out of the cold with it.
    note = database.write_now(lambda c: memory.write_note(c, owner, "k", "turn-00070", None))
    database.write_now(lambda c: erasure.forget(c, owner, [Target("note", note)], by="a test"))
    assert freeze(database, owner) == SEGMENT
    database.write_now(lambda c: memory_index.index_turns(c, TURNS))
    more = live(database, owner, SEGMENT)
    assert freeze(database, owner) == SEGMENT
    for number, turn in enumerate(turns):
        (said_then, _) = database.read_now(lambda c, of=turn: checkpoints.messages_of(c, [owner], of))
        assert number == 70 or said_then["text"].endswith(f"turn-{number:05d}")
    # And forgotten.
    database.write_now(lambda c: erasure.forget(c, owner, [Target("turn", turns[3 * SEGMENT])], by="a test"))
    assert f"turn-{3 * SEGMENT:05d}" not in everything(database)
    assert database.read_now(lambda c: checkpoints.messages_of(c, [owner], more[0])) == said(0)


def everything(database: Database) -> str:
    """All that is kept of talk, in plain words."""

    def read(connection: Connection) -> str:
        segments = cold_turns.holding(connection, list(people(connection)), [""])
        words = [messages for segment in segments for messages in segment.turns.values()]
        for name in ("turn_record", "memory_search", "note", "journal_payload"):
            words.append(str(connection.execute(text(f"SELECT * FROM {name}")).all()))
        return "\n".join(words)

    return database.read_now(read)


def people(connection: Connection) -> set[UUID]:
    return set(connection.execute(select(cold_turns.cold_turns.c.principal)).scalars())


def test_an_export_has_the_words_of_the_cold(database: Database, owner: UUID) -> None:
    live(database, owner)
    freeze(database, owner)
    file = io.BytesIO()
    counts = database.read_now(lambda c: keepsake.write(c, owner, file))
    assert counts["turns"] == TURNS
    with zipfile.ZipFile(file) as archive:
        lines = [json.loads(line) for line in archive.read("turns.jsonl").decode().splitlines()]
    assert [line["messages"] for line in lines] == [said(number) for number in range(TURNS)]

"""Memory: what a person said is found again, by that person only."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workspace_store.people import person
from workspace_store import memory
from workspace_store.database import Database


def remember(database: Database, owner: UUID, body: str, key: str | None = None) -> UUID:
    return database.write_now(lambda c: memory.write_note(c, owner, key or uuid4().hex, body, None))


def recall(database: Database, owner: UUID, query: str) -> list[str]:
    return [hit.body for hit in database.read_now(lambda c: memory.search(c, owner, query))]


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ("the door code is 4711", "door"),
        ("the door code is 4711", "4711?"),
        ("the door code is 4711", "what was the Door Code again"),
        ("Größe 42, für Ann", "größe"),
        ("run tests/workspace_store first", "workspace_store"),
        ("see https://example.org/a/b?x=1", "example"),
        ("write to ann@example.org", "ann"),
        ("Été à Évian", "ete evian"),
        ("ключ под ковриком", "ключ"),
        ("OR AND NOT NEAR", "and"),
        ('it\'s "quoted" (twice)', 'it\'s "quoted" (twice)'),
    ],
)
def test_what_was_noted_is_found_by_its_words(database: Database, owner: UUID, body: str, query: str) -> None:
    remember(database, owner, "something else")
    remember(database, owner, body)
    assert recall(database, owner, query)[0] == body


@pytest.mark.parametrize(
    "query", ["", "?!", "nothing", '"', "' OR 1=1 --", "a:b*", "NEAR(a b)", "\x00", "_", "ü" * 5000]
)
def test_a_query_that_matches_nothing_finds_nothing(database: Database, owner: UUID, query: str) -> None:
    remember(database, owner, "the door code is 4711")
    assert recall(database, owner, query) == []


@pytest.mark.parametrize("query", ["person", "{own}", "{other}", 'x" OR principal : "{other}', "principal {other}"])
def test_nobody_finds_another_ones_words_whatever_is_asked(database: Database, owner: UUID, query: str) -> None:
    other = person(database)
    remember(database, other, "the other person keeps this")
    remember(database, owner, "this person keeps that")
    found = recall(database, owner, query.format(own=owner.hex, other=other.hex))
    assert "the other person keeps this" not in found


WORDS = st.lists(st.sampled_from(["door", "code", "ann", "4711", "or", "key"]), min_size=1, max_size=5).map(" ".join)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.lists(st.tuples(st.booleans(), WORDS), min_size=1, max_size=8),
    query=st.one_of(WORDS, st.text(max_size=40)),
)
def test_a_search_returns_only_the_askers_notes(sqlite: Database, notes: list[tuple[bool, str]], query: str) -> None:
    me, other = person(sqlite), person(sqlite)
    for mine, body in notes:
        remember(sqlite, me if mine else other, f"{body} {'mine' if mine else 'theirs'}")
    found = recall(sqlite, me, query)
    assert all(body.endswith("mine") for body in found)
    wanted = {word for word in query.lower().split() if word.isalnum() and word.isascii()}
    if any(mine and wanted & set(body.split()) for mine, body in notes):
        assert found != []


def test_the_same_key_is_the_same_note(database: Database, owner: UUID) -> None:
    """A turn that resumes writes its notes again."""
    assert remember(database, owner, "once", "k") == remember(database, owner, "once", "k")
    assert recall(database, owner, "once") == ["once"]


def test_a_note_that_was_superseded_is_not_listed(database: Database, owner: UUID) -> None:
    old, new = remember(database, owner, "the code is 1"), remember(database, owner, "the code is 2")
    database.write_now(lambda connection: memory.supersede(connection, [owner], old, new))
    found = database.read_now(lambda connection: memory.notes(connection, owner))
    assert [note.body for note in found] == ["the code is 2"]


def test_notes_are_listed_newest_first_and_only_ones_own(database: Database, owner: UUID) -> None:
    for number in range(4):
        remember(database, owner, f"note {number}")
    remember(database, person(database), "not mine")
    found = database.read_now(lambda connection: memory.notes(connection, owner, 3))
    assert [note.body for note in found] == ["note 3", "note 2", "note 1"]


def test_a_note_of_a_megabyte_is_kept_whole_and_found(database: Database, owner: UUID) -> None:
    """PostgreSQL refuses a search vector above a megabyte."""
    body = "needle " + " ".join(f"w{number:06}" for number in range(150_000))
    remember(database, owner, body)
    assert recall(database, owner, "needle") == [body]


@pytest.mark.parametrize("body", ["nul \x00 inside", "half \ud800 pair"])
def test_a_note_of_what_no_database_stores_is_kept_readable(database: Database, owner: UUID, body: str) -> None:
    remember(database, owner, body)
    assert recall(database, owner, "nul half")[0].replace("\ufffd", "") == body.replace("\x00", "").replace(
        "\ud800", ""
    )

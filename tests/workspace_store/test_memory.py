"""Memory: what a person said is found again, by that person only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from sandbox_runner.guest import secret_filter
from tests.secret_shapes import ANY
from tests.workspace_store.people import person
from workspace_store import (
    checkpoints,
    imported,
    journal,
    memory,
    memory_index,
    principal,
    secret_shapes,
    sensitive,
)
from workspace_store.database import Database
from workspace_store.imported import Words
from workspace_store.journal import Event
from workspace_store.memory_search import Vector, packed


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


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_nobody_ever_finds_another_ones_words(database: Database, data: st.DataObject) -> None:
    """Notes, turns, imported words and vectors, by words and by meaning, of people and rooms, merged or not."""
    people = [person(database) for _ in range(3)]
    said: dict[str, UUID] = {}
    for number in range(data.draw(st.integers(1, 10))):
        whose = data.draw(st.sampled_from(people))
        words = f"{data.draw(WORDS)} mark{uuid4().hex}"
        said[words] = whose
        kind = data.draw(st.sampled_from(["note", "turn", "imported"]))
        database.write_now(lambda c, w=words, o=whose, k=kind, n=number: keep(c, o, k, w, n))
    database.write_now(embed_all)
    if data.draw(st.booleans()):
        merge(database, people[2], people[1])
    asker = data.draw(st.sampled_from(people))
    mine = set(database.read_now(lambda c: principal.scope(c, asker)))
    query = data.draw(st.one_of(WORDS, st.sampled_from([*said]), st.text(max_size=30)))
    meaning = Vector("test", packed([data.draw(st.floats(0.1, 1)), 1.0])) if data.draw(st.booleans()) else None
    for hit in database.read_now(lambda c: memory.search(c, asker, query, 50, meaning=meaning)):
        assert said[hit.body] in mine
    if query in said and said[query] in mine:
        assert query in [hit.body for hit in database.read_now(lambda c: memory.search(c, asker, query, 50))]


def keep(connection: Connection, owner: UUID, kind: str, words: str, number: int) -> None:
    if kind == "note":
        memory.write_note(connection, owner, uuid4().hex, words, None)
    elif kind == "imported":
        imported.take(connection, owner, [Words(uuid4().hex, number, "user", words)])
    else:
        turn = uuid4()
        seq = journal.append(connection, owner, [Event("checkpoint.committed", {})], under=None, turn=turn)
        checkpoints.record_turn(connection, owner, seq, turn, [{"role": "user", "text": words}], 10)
        if number % 2:
            memory_index.index_turns(connection)


def embed_all(connection: Connection) -> None:
    rows = memory_index.bare(connection, 1000)
    vectors = [(entry, owner, packed([1.0, (entry % 7) + 0.5])) for entry, owner, _ in rows]
    memory_index.store_vectors(connection, "test", vectors)


def merge(database: Database, absorbed: UUID, kept: UUID) -> None:
    statement = principal.principal.update().where(principal.principal.c.id == absorbed).values(merged_into=kept)
    database.write_now(lambda connection: connection.execute(statement))


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ("we deployed the databases", "deploy database"),
        ("planning the garden", "planned"),
        ("planning the garden", "plan"),
        ("her allergies are nuts", "allergy nuts"),
        ("I live in Berlin", "where do I live"),
        ("我喜欢喝茶", "喝茶"),
        ("the heron nests", "herons nesting"),
    ],
)
def test_words_are_found_in_other_endings(database: Database, owner: UUID, body: str, query: str) -> None:
    remember(database, owner, "something else entirely")
    remember(database, owner, body)
    assert recall(database, owner, query)[:1] == [body]


def test_a_rare_word_says_more_than_a_frequent_one(database: Database, owner: UUID) -> None:
    for number in range(40):
        remember(database, owner, f"the server server server said {number}")
    remember(database, owner, "a heron sat on the server")
    assert recall(database, owner, "server heron")[0] == "a heron sat on the server"


def test_the_guest_has_the_same_rules_of_secrets() -> None:
    """It runs alone in its sandbox and can import nothing of the host."""
    names = (("_NAME", "NAME"), ("_VALUE", "VALUE"), ("_ASSIGNED", "ASSIGNED"), ("_OPTION", "OPTION"))
    for theirs, ours in names:
        guest, here = getattr(secret_filter, theirs), getattr(secret_shapes, ours)
        assert (guest.pattern, guest.flags) == (here.pattern, here.flags)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(ANY, st.text(max_size=30)), max_size=4), st.sampled_from(["", " ", "\n", "=", ":", "'"]))
def test_secrets_are_found_where_they_are_sought(parts: list[str], between: str) -> None:
    """Each place that a look at the whole text finds, and no other."""
    whole = between.join(parts)

    def covered(found: Iterator[re.Match[str]]) -> set[int]:
        return {place for match in found for place in range(*match.span())}

    assert covered(secret_shapes.values(whole)) == covered(secret_shapes.VALUE.finditer(whole))


def test_secrets_are_not_in_the_index(database: Database, owner: UUID) -> None:
    words = "deploy with sk-abcdefghijklmnopqrstuv and card 4111 1111 1111 1111 today"
    database.write_now(lambda c: imported.take(c, owner, [Words("1", 1, "user", words)]))
    (found,) = recall(database, owner, "deploy today")
    assert "sk-abc" not in found
    assert "4111" not in found
    assert recall(database, owner, "abcdefghijklmnopqrstuv") == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the door code is 4711", True),
        ("my password is hunter2", False),
        ("the password is in the vault", True),
        ("PIN: 1234", False),
        ("card 4111 1111 1111 1111", False),
        ("order 4111111111111112", True),
        ("pay DE89 3704 0044 0532 0130 00", False),
        ("code DE89 3704 0044 0532 0130 07", True),
        ("SSN 078-05-1120", False),
        ("tax id 86095742719", False),
        ("order 12345678901", True),
        ("12345678Z", False),
        ("12345678A", True),
        ("2 55 08 14 168 025 38", False),
        ("Aadhaar 2341 2341 2346", False),
        ("RSSMRA85T10A562S", False),
        ("call +49 170 1234567890", True),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", False),
        ("curl --token abcdef https://x", False),
        ("https://ann:s3cret@example.org/", False),
        ("see https://example.org/a?b=c", True),
        ("export API_KEY=abcdef", False),
        ("commit 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", True),
    ],
)
def test_what_is_secret_or_personal_is_seen(text: str, kept: bool) -> None:
    assert (sensitive.find(text) == []) is kept


@pytest.mark.slow
def test_looking_for_secrets_is_linear() -> None:
    for text in ("1" * 200_000, "password is " * 20_000, "a=b " * 60_000, "DE12 " * 40_000, "1 " * 100_000):
        sensitive.find(text)

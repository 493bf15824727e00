"""Drafts: one gateway shows one, and it becomes the reply that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection

from tests.workspace_store.people import person, receive
from workspace_store import drafts, inbox, outbox, principal
from workspace_store.database import Database
from workspace_store.outbox import Reply


def content(row: inbox.Row) -> Mapping[str, Any]:
    return {"text": "", "reply": {"to": "it"}}


def running(database: Database, owner: UUID) -> tuple[UUID, UUID]:
    """A turn and the message it began with."""
    turn = uuid4()
    message = database.write_now(lambda connection: receive(connection, owner))
    database.write_now(lambda connection: inbox.start(connection, message, turn, alone=False))
    return turn, message


def begin(
    database: Database, turn: UUID, message: UUID, claimer: str = "a", dead: tuple[str, ...] = ()
) -> tuple[Reply, str | None] | None:
    return database.write_now(
        lambda connection: drafts.begin(connection, turn, message, claimer, lambda other: other in dead, content)
    )


def finish(database: Database, turn: UUID, message: UUID, text: str = "the end") -> UUID | None:
    def commit(connection: Connection) -> UUID | None:
        inbox.finish(connection, [message], "done")
        return drafts.finish(connection, key=f"{turn.hex}:0", turn=turn, message=message, content={"text": text})

    return database.write_now(commit)


def claim(database: Database, claimer: str, *dead: str) -> list[Reply]:
    return database.write_now(lambda connection: outbox.claim(connection, ["local"], claimer, list(dead)))


def test_one_gateway_shows_it_and_another_only_after_its_death(database: Database) -> None:
    turn, message = running(database, person(database))
    first = begin(database, turn, message)
    assert first is not None
    assert begin(database, turn, message) == first
    assert begin(database, turn, message, "b") is None
    after = begin(database, turn, message, "b", dead=("a",))
    assert after is not None
    assert (after[0].id, after[0].was_sending) == (first[0].id, True)
    assert not database.write_now(lambda connection: drafts.posted(connection, first[0].id, "a", "late"))


def test_a_draft_is_never_sent_nor_counted_nor_an_answer_and_holds_nothing_back(database: Database) -> None:
    owner = person(database)
    turn, message = running(database, owner)
    begin(database, turn, message)
    assert claim(database, "a", "b") == []
    assert database.read_now(outbox.counts)["queued"] == 0
    assert database.read_now(lambda connection: outbox.answers(connection, message)) == []
    other = database.write_now(lambda connection: outbox.queue(
        connection, key="k", principal=owner, turn=None, inbox=None, to=outbox.Address("local", "", "c", ""),
        content={"text": "status"},
    ))  # fmt: skip
    assert [reply.id for reply in claim(database, "b")] == [other]


def test_its_end_is_sent_by_the_gateway_that_showed_it_or_after_that_one_died(database: Database) -> None:
    turn, message = running(database, person(database))
    shown = begin(database, turn, message)
    assert shown is not None
    assert database.write_now(lambda connection: drafts.posted(connection, shown[0].id, "a", "ts1"))
    assert finish(database, turn, message) == shown[0].id
    assert claim(database, "b") == []
    (ended,) = claim(database, "a")
    assert ended.content == {"text": "the end", "draft": "ts1"}
    assert not ended.was_sending
    assert drafts.draft_of(ended.content) == "ts1"


def test_a_dead_gateways_draft_is_ended_by_any(database: Database) -> None:
    turn, message = running(database, person(database))
    begin(database, turn, message)
    finish(database, turn, message)
    assert database.read_now(outbox.claimers) == ["a"]
    (ended,) = claim(database, "b", "a")
    assert drafts.draft_of(ended.content) == ""


def test_what_has_ended_is_not_shown_again(database: Database) -> None:
    turn, message = running(database, person(database))
    shown = begin(database, turn, message)
    assert shown is not None
    finish(database, turn, message)
    assert begin(database, turn, message) is None
    assert not database.read_now(lambda connection: drafts.still(connection, shown[0].id, "a"))
    assert not database.write_now(lambda connection: drafts.posted(connection, shown[0].id, "a", "late"))


def test_a_turn_without_a_draft_ends_as_ever(database: Database) -> None:
    turn, message = running(database, person(database))
    assert finish(database, turn, message) is None


def test_a_draft_of_a_closed_principal_says_nothing_more(database: Database) -> None:
    owner = person(database)
    turn, message = running(database, owner)
    assert begin(database, turn, message) is not None
    database.write_now(lambda connection: principal.close(connection, owner))
    assert finish(database, turn, message) is None
    assert claim(database, "a") == []
    database.write_now(lambda connection: principal.reopen(connection, owner))
    assert claim(database, "b", "a") == []

"""What is forgotten is nowhere any more: no row, no index, no vector, no payload; and the chain still verifies."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, LargeBinary, String, text

from identity import forgetting
from tests.workspace_store.people import person, receive
from workspace_store import (
    approvals,
    changes,
    checkpoints,
    commitments,
    erasure,
    facts,
    imported,
    inbox,
    journal,
    memory,
    memory_index,
    outbox,
    schedules,
    tasks,
)
from workspace_store.approvals import Place
from workspace_store.database import Database, to_json
from workspace_store.erasure import Target
from workspace_store.imported import Words
from workspace_store.journal import Event
from workspace_store.memory_search import packed
from workspace_store.outbox import Address
from workspace_store.recurrence import Recurrence
from workspace_store.schedules import ScheduleLimits, Wanted
from workspace_store.tasks import PlanStep

SECRET = "the heron nests by the mill"
HERE = Address("local", "", "c", "")


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


def live(connection: Connection, owner: UUID, words: str, answer: str = "noted", note: str = "") -> UUID:
    """A turn as it is written, with a note and its vector where one is given."""
    turn, message = uuid4(), receive(connection, owner, to_json({"text": words, "context": "", "attachments": []}))
    journal.append(connection, owner, [Event("message.received", {"message": message.hex, "text": words})], under=None)
    inbox.start(connection, message, turn, alone=False)
    events = [Event("turn.started", {"message": message.hex}), Event("model.responded", {"text": answer})]
    if note:
        key = f"{turn.hex}:1"
        identifier = memory.identifier_of(key)
        events.append(Event("memory.written", {"note": identifier.hex, "text": note}))
        memory.write_note(connection, owner, key, note, turn)
    events.append(Event("checkpoint.committed", {}))
    seq = journal.append(connection, owner, events, under=None, turn=turn)
    said = [{"role": "user", "text": words}, {"role": "assistant", "text": answer}]
    checkpoints.record_turn(connection, owner, seq, turn, said, 10)
    outbox.queue(connection, key=f"{turn.hex}:0", principal=owner, turn=turn, inbox=message, to=HERE,
                 content={"text": answer, "reply": {}})  # fmt: skip
    connection.execute(text("UPDATE outbox SET status = 'sent'"))
    inbox.finish(connection, [message], "done")
    memory_index.index_turns(connection)
    vectors = [(entry, of, packed([1.0, 2.0])) for entry, of, _ in memory_index.bare(connection, 100)]
    memory_index.store_vectors(connection, "test", vectors)
    return turn


def everything(connection: Connection) -> str:
    """All words of the database, the search index's own tables too."""
    if connection.dialect.name == "sqlite":
        names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
    else:
        names = connection.execute(text("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'"))
    found = []
    for (name,) in names.all():
        for row in connection.execute(text(f'SELECT * FROM "{name}"')):
            found += [bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else str(value)
                      for value in row]  # fmt: skip
    return "\n".join(found).lower()


def count(connection: Connection, table: str) -> int:
    return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def forget(database: Database, owner: UUID, targets: list[Target]) -> erasure.Forgotten:
    def transaction(connection: Connection) -> erasure.Forgotten:
        return erasure.forget(connection, owner, erasure.with_origins(connection, owner, targets), by="ann")

    return database.write_now(transaction)


def test_a_forgotten_note_leaves_nothing(database: Database, owner: UUID) -> None:
    def before(connection: Connection) -> UUID:
        live(connection, owner, f"remember that {SECRET}", f"I will remember: {SECRET}", SECRET)
        live(connection, owner, "what do you know?", f"This: {SECRET}.")
        live(connection, owner, "the otter swims")
        return memory.notes(connection, owner)[0].id

    identifier = database.write_now(before)
    assert "heron" in database.read_now(everything)
    gone = forget(database, owner, [Target("note", identifier)])
    assert gone.to_json() == {"notes": 1, "turns": 1, "imported": 0}
    left = database.read_now(everything)
    assert "heron" not in left
    assert "mill" not in left
    assert "otter" in left
    assert database.read_now(lambda c: memory.search(c, owner, "heron mill")) == []
    assert database.read_now(lambda c: journal.verify(c, owner))[1] == []
    assert database.read_now(lambda c: count(c, "memory_vector") - count(c, "memory_entry")) == 0


def test_what_a_note_took_the_place_of_goes_with_it(database: Database, owner: UUID) -> None:
    def before(connection: Connection) -> UUID:
        old = memory.write_note(connection, owner, "a", "the heron nests in the oak", None)
        return memory.write_note(connection, owner, "b", "the heron nests in the elm", None, supersedes=[old])

    identifier = database.write_now(before)
    assert forget(database, owner, [Target("note", identifier)]).notes == 2
    assert "heron" not in database.read_now(everything)


def test_a_forgotten_turn_leaves_nothing(database: Database, owner: UUID) -> None:
    turn = database.write_now(lambda c: live(c, owner, SECRET, "a heron, by the mill!"))
    database.write_now(lambda c: live(c, owner, "something else"))
    assert forget(database, owner, [Target("turn", turn)]).turns == 1
    left = database.read_now(everything)
    assert "heron" not in left
    assert "something else" in left
    assert database.read_now(lambda c: journal.verify(c, owner))[1] == []
    (first, *_) = database.read_now(lambda c: checkpoints.newest_turns(c, owner, 9))
    assert first.messages[0]["text"] == erasure.FORGOTTEN


def test_forgotten_words_that_were_brought_along_do_not_come_back_with_them(database: Database, owner: UUID) -> None:
    batch = [Words("1", 1, "user", SECRET), Words("2", 2, "user", "the otter swims")]
    database.write_now(lambda c: imported.take(c, owner, batch))
    (hit,) = database.read_now(lambda c: memory.search(c, owner, "heron"))
    assert forget(database, owner, [erasure.of_hit(hit)]).imported == 1
    taken = database.write_now(lambda c: imported.take(c, owner, batch))
    assert (taken.new, taken.known, taken.other) == (0, 2, frozenset())
    assert "heron" not in database.read_now(everything)


@pytest.mark.parametrize("kind", ["note", "turn", "imported"])
def test_nobody_forgets_what_is_another_ones(database: Database, owner: UUID, kind: str) -> None:
    other = person(database)

    def before(connection: Connection) -> dict[str, UUID]:
        turn = live(connection, other, f"remember that {SECRET}", note=SECRET)
        imported.take(connection, other, [Words("1", 1, "user", SECRET)])
        hits = memory.search(connection, other, "heron", 9)
        found = {hit.kind: UUID(hit.ref) for hit in hits}
        return {"turn": turn, **found}

    there = database.write_now(before)
    whole = database.read_now(everything)
    assert forget(database, owner, [Target(kind, there[kind])]).to_json() == {"notes": 0, "turns": 0, "imported": 0}
    assert database.read_now(everything).count("heron") == whole.count("heron")
    assert database.read_now(lambda c: erasure.named(c, owner, there[kind].hex)) == []


def test_a_merged_ones_notes_are_forgotten_as_ones_own_and_not_after_the_unmerging(
    database: Database, owner: UUID
) -> None:
    other = person(database)
    identifier = database.write_now(lambda c: memory.write_note(c, other, "k", SECRET, None))

    def merged_into(whom: UUID | None) -> None:
        value: Any = whom
        principals = memory_index.entry.metadata.tables["principal"]
        statement = principals.update().where(principals.c.id == other).values(merged_into=value)
        database.write_now(lambda c: c.execute(statement))

    assert forget(database, owner, [Target("note", identifier)]).notes == 0
    merged_into(owner)
    assert [n.body for n in database.read_now(lambda c: memory.notes(c, owner))] == [SECRET]
    merged_into(None)
    assert database.read_now(lambda c: memory.notes(c, owner)) == []
    assert forget(database, owner, [Target("note", identifier)]).notes == 0
    merged_into(owner)
    assert forget(database, owner, [Target("note", identifier)]).notes == 1


SWEPT = {
    *((where.name, name) for where, names in erasure.REPEATED for name in names),
    *((where.name, name) for _, where, name in erasure.FINDABLE),
    ("turn_fact", "value"), ("turn_fact", "lookup"), ("context_head", "body"), ("journal_payload", "body"),
    ("schedule", "text"), ("cold_turns", "words"),
}  # fmt: skip
WORDLESS = {
    # Names, places, states and hashes.
    "attachment": "account blob channel content_type reference status claimed_by", "checkpoint": "*",
    "continuation": "left place", "effect": "*", "egress_grant": "*", "identity_event": "*", "journal_event": "*",
    "generation": "manifest_digest", "memory_entry": "kind ref", "memory_vector": "model vector", "spending": "*",
    "approval": "account channel code conversation kind request_hash role status thread token key reply choice choices "
                "decided_by_name decided_via",
    "commitment": "key ending", "imported": "key role channel", "message_change": "key kind",
    "inbox": "account channel conversation dedupe_key kind status thread",
    "note": "key kind source subject", "outbox": "account channel claimed_by conversation error external_id key status "
            "thread", "task": "key state", "turn_fact": "kind", "journal_payload": "salt",
    "schedule": "account channel code conversation external_id kind missed reply spec status thread zone",
    # The crontab is a file of the workspace, and files are not searched for what was said.
    "timer": "*",
}  # fmt: skip


def test_every_column_that_may_hold_words_is_swept(database: Database) -> None:
    """Whoever adds a table decides whether people's words come into it."""
    missing = [
        (found.name, column.name)
        for found in forgetting.all_tables()
        if "principal" in found.c
        for column in found.c
        if isinstance(column.type, String | LargeBinary) and (found.name, column.name) not in SWEPT
        if WORDLESS.get(found.name, "") != "*" and column.name not in WORDLESS.get(found.name, "").split()
    ]
    assert missing == []


def everywhere(connection: Connection, owner: UUID, said: str) -> None:
    """The same words wherever they may be said again."""
    turn = live(connection, owner, "and again", said)
    memory.write_note(connection, owner, "again", f"Ann says: {said}", None)
    imported.take(connection, owner, [Words("9", 9, "user", f"long ago: {said}")])
    tasks.open_task(connection, owner, "t", f"count {said}", plan=[PlanStep(said)], check=f"echo {said}")
    commitments.make(connection, owner, "c", f"I will count {said}")
    facts.write(connection, owner, 1, [("decision", said)])
    facts.failed(connection, owner, f"{said} is missing")
    approvals.request(
        connection, key="a", kind="tool", principal=owner, at=Place(HERE, {}, owner),
        request={"tool": "send_message", "arguments": {"text": said}}, text=f"send {said}", turn=turn,
    )  # fmt: skip
    wanted = Wanted(Recurrence("every", "86400"), said)
    schedules.add(connection, owner, owner, wanted, Place(HERE, {}, owner), "s", ScheduleLimits())
    message = receive(connection, owner, to_json({"text": said, "context": "", "attachments": []}))
    changes.record(connection, "e", owner, message, "edited", tell=(said, f"{said}!"))


@pytest.mark.parametrize("said", [SECRET, 'the heron\tsaid "mill"\nand flew'])
def test_what_is_forgotten_is_gone_wherever_it_was_said_again(database: Database, owner: UUID, said: str) -> None:
    identifier = database.write_now(lambda c: memory.write_note(c, owner, "k", said, None))
    database.write_now(lambda c: everywhere(c, owner, said))
    assert forget(database, owner, [Target("note", identifier)]).notes == 1
    left = database.read_now(everything)
    assert "heron" not in left, [line for line in left.splitlines() if "heron" in line]
    assert "ann says" in left
    assert database.read_now(lambda c: memory.search(c, owner, "heron mill")) == []
    assert [hit.kind for hit in database.read_now(lambda c: memory.search(c, owner, "Ann says"))] == ["note"]
    assert database.read_now(lambda c: journal.verify(c, owner))[1] == []


def test_a_forgotten_turn_takes_what_was_made_in_it(database: Database, owner: UUID) -> None:
    def before(connection: Connection) -> UUID:
        turn = live(connection, owner, f"please remember: {SECRET}", note="herons nest")
        done = tasks.open_task(connection, owner, "t", "count the herons", check="ls heron", turn=turn)
        tasks.close(connection, done.id, "dropped")
        found = approvals.request(
            connection, key="a", kind="tool", principal=owner, at=Place(HERE, {}, owner), text="tell of herons",
            request={"text": "herons!"}, turn=turn,
        )  # fmt: skip
        approvals.decide(connection, found.id, None, "deny", via="test", hooks={})
        return turn

    turn = database.write_now(before)
    assert forget(database, owner, [Target("turn", turn)]).to_json() == {"notes": 1, "turns": 1, "imported": 0}
    left = database.read_now(everything)
    assert "heron" not in left, [line for line in left.splitlines() if "heron" in line]

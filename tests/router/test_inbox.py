"""Intake: recorded once before it is acknowledged, however often and from wherever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest
from sqlalchemy import text

from identity.access import Access
from identity.users import Claim
from router import commands, memory_texts, texts
from router.envelope import Envelope
from router.inbox import Accepted, Inbox, Settling
from tests import processes
from workspace_store import inbox_counts, journal, memory, outbox, principal
from workspace_store.database import Database, DatabaseUnavailable

MakeInbox = Callable[..., Inbox]


@pytest.fixture
def rung() -> list[Accepted]:
    return []


@pytest.fixture
def inbox(database: Database, rung: list[Accepted]) -> Inbox:
    return Inbox(database, Access("allowlist", ["email:ann@example.org"]), rung.append)


def said(
    words: str = "hello", key: str = "m1", sender: Claim | None = None, thread: str = "t", **more: object
) -> Envelope:
    sender = sender or Claim("local", "", "owner", "owner", "token")
    return Envelope("local", "", key, sender, "owner", thread, words, **more)  # type: ignore[arg-type]


def count(database: Database, table: str) -> int:
    return int(database.read_now(lambda c: c.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()))


def counts(database: Database) -> list[int]:
    tables = ("user_account", "identity", "principal", "inbox", "journal_event", "outbox")
    return [count(database, table) for table in tables]


async def test_a_message_is_recorded_counted_journaled_and_rung(
    database: Database, inbox: Inbox, rung: list[Accepted]
) -> None:
    accepted = await inbox.accept(said("hello"))
    assert accepted is not None
    assert (accepted.duplicate, accepted.acted, accepted.owner) == (False, False, None)
    assert rung == [accepted]
    assert counts(database) == [1, 1, 1, 1, 1, 0]
    assert await database.read(lambda c: inbox_counts.waiting(c, accepted.principal)) == 1
    (event,) = await database.read(lambda c: journal.read(c, accepted.principal))
    assert event.kind == "message.received"
    assert event.body is not None
    assert (event.body["text"], event.body["message"]) == ("hello", accepted.message.hex)


async def test_the_same_message_again_is_the_same_and_rings_nobody(
    database: Database, inbox: Inbox, rung: list[Accepted]
) -> None:
    first, again = await inbox.accept(said("hello")), await inbox.accept(said("something else"))
    assert first is not None
    assert again is not None
    assert (again.message, again.principal, again.duplicate) == (first.message, first.principal, True)
    assert (len(rung), count(database, "inbox"), count(database, "journal_event")) == (1, 1, 1)


async def test_the_same_message_many_times_at_once_is_one(
    database: Database, inbox: Inbox, rung: list[Accepted]
) -> None:
    found = await asyncio.gather(*(inbox.accept(said("hello")) for _ in range(20)))
    assert len({accepted.message for accepted in found if accepted}) == 1
    assert (len(rung), counts(database)) == (1, [1, 1, 1, 1, 1, 0])


def accept_many(url: str, results: processes.Queue) -> None:  # type: ignore[valid-type]
    """A gateway: a new sender's first messages, each of which comes at every gateway."""

    async def run() -> list[UUID]:
        database = Database(url)
        rung: list[Accepted] = []
        inbox = Inbox(database, Access("open", []), rung.append)
        await asyncio.gather(*(inbox.accept(said(f"number {n}", f"m{n}")) for n in range(15)))
        await asyncio.to_thread(database.close)
        return [accepted.message for accepted in rung]

    results.put(asyncio.run(run()))  # type: ignore[attr-defined]


def test_several_gateways_record_a_new_senders_messages_once(database: Database) -> None:
    results = processes.Queue()
    gateways = [processes.start(accept_many, database.url, results) for _ in range(3)]
    rung = [message for _ in gateways for message in results.get(timeout=60)]
    assert processes.codes(*gateways) == [0, 0, 0]
    assert counts(database) == [1, 1, 1, 15, 15, 0]
    assert (len(rung), len(set(rung))) == (15, 15)
    seqs = database.read_now(lambda c: c.execute(text("SELECT seq FROM inbox ORDER BY seq")).scalars().all())
    assert list(seqs) == list(range(1, 16))
    (owner,) = database.read_now(lambda c: c.execute(text("SELECT id FROM principal")).scalars().all())
    identifier = UUID(str(owner))
    assert database.read_now(lambda c: journal.verify(c, identifier)) == (15, [])


async def test_a_burst_that_comes_at_several_gateways_at_once_is_one(database: Database) -> None:
    gateways = [Database(database.url) for _ in range(4)]
    inboxes = [Inbox(one, Access("open", []), lambda accepted: None, settling=Settling(30, 30)) for one in gateways]
    await inboxes[0].accept(said(key="before"))
    for round_ in range(5):
        parts = [said(key=f"{round_}-{n}", thread=f"t{round_}", more=True) for n in range(8)]
        await asyncio.gather(*(inboxes[n % 4].accept(part) for n, part in enumerate(parts)))
    bursts = "SELECT count(*) AS of_it, count(burst) AS named, count(DISTINCT burst) AS firsts FROM inbox"
    found = database.read_now(lambda c: c.execute(text(f"{bursts} WHERE thread != 't' GROUP BY thread")).all())
    for one in gateways:
        one.close()
    assert found == [(8, 7, 1)] * 5


async def test_intake_clashes_are_not_errors(postgresql_url: str) -> None:
    """Each try may lose to another message of the same new sender, and then to another copy of this one."""
    database = Database(postgresql_url)
    inbox = Inbox(database, Access("open", []), lambda accepted: None)
    for round_ in range(5):
        sender = Claim("local", "", f"new{round_}", "", "token")
        keys = [f"{round_}-{n % 3}" for n in range(12)]
        found = await asyncio.gather(*(inbox.accept(said("x", key, sender)) for key in keys))
        assert len({accepted.message for accepted in found if accepted}) == 3
    database.close()


@pytest.mark.parametrize(
    "sender",
    [
        Claim("email", "", "ann@example.org", "Ann", ""),
        Claim("email", "", "eve@example.org", "Eve", "dmarc"),
        Claim("local", "", "owner", "owner", ""),
    ],
)
async def test_the_unproven_and_strangers_leave_no_trace(
    database: Database, inbox: Inbox, rung: list[Accepted], sender: Claim
) -> None:
    assert await inbox.accept(said("hello", sender=sender)) is None
    assert (rung, counts(database)) == ([], [0] * 6)


@pytest.mark.parametrize("words", ["nul \x00", "half \ud800", "x" * 1_000_000, "😀" * 10_000, "\u202e\u2028"])
async def test_any_words_are_accepted(database: Database, inbox: Inbox, words: str) -> None:
    accepted = await inbox.accept(said(words, context=words, reply={"of": words}))
    assert accepted is not None
    stored = await database.read(lambda c: c.execute(text("SELECT envelope FROM inbox")).scalar_one())
    assert Envelope.from_json(stored).text == words.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")


async def test_an_id_of_any_length_is_accepted_once(database: Database, inbox: Inbox) -> None:
    for key in ("k" * 100_000, "k" * 100_001, "\ud800\x00" * 3000):
        first, again = await inbox.accept(said(key=key)), await inbox.accept(said(key=key))
        assert first is not None
        assert again is not None
        assert again.duplicate
    assert count(database, "inbox") == 3


async def test_who_serves_the_principal_now_is_told(database: Database, inbox: Inbox) -> None:
    first = await inbox.accept(said(key="m1"))
    assert first is not None
    seen = await database.read(lambda c: principal.look(c, first.principal))
    assert seen is not None
    await database.write(lambda c: principal.take(c, first.principal, "runner-a", seen))
    second = await inbox.accept(said(key="m2"))
    assert second is not None
    assert second.owner == "runner-a"


async def test_a_database_that_is_away_records_and_rings_nothing(tmp_path: object, rung: list[Accepted]) -> None:
    database = Database(f"sqlite:///{tmp_path}/away/nightporter.db")
    inbox = Inbox(database, Access("open", []), rung.append)
    with pytest.raises(DatabaseUnavailable):
        await inbox.accept(said())
    assert rung == []
    database.close()


# Commands


@pytest.mark.parametrize("name", [name for name, command in commands.COMMANDS.items() if command.starts is None])
async def test_a_command_acts_and_answers_once(database: Database, inbox: Inbox, name: str) -> None:
    first, again = await inbox.accept(said(f"/{name}")), await inbox.accept(said(f"/{name}"))
    assert first is not None
    assert again is not None
    assert (first.acted, again.acted, again.duplicate) == (True, True, True)
    (answer,) = await database.read(lambda c: outbox.answers(c, first.message))
    assert answer.text
    assert await database.read(lambda c: inbox_counts.waiting(c, first.principal)) == 0
    kinds = [event.kind for event in await database.read(lambda c: journal.read(c, first.principal))]
    assert kinds == ["message.received", "reply.queued"]


@pytest.mark.parametrize("name", [name for name, command in commands.COMMANDS.items() if command.starts])
async def test_a_command_that_takes_the_lease_waits_for_its_turn(database: Database, inbox: Inbox, name: str) -> None:
    first, again = await inbox.accept(said(f"/{name}")), await inbox.accept(said(f"/{name}"))
    assert first is not None
    assert again is not None
    assert (first.acted, again.acted, again.duplicate) == (False, False, True)
    assert await database.read(lambda c: inbox_counts.waiting(c, first.principal)) == 1


async def test_a_command_keeps_its_place_in_the_count(database: Database, inbox: Inbox) -> None:
    for key, words in (("1", "hello"), ("2", "/stop"), ("3", "more")):
        accepted = await inbox.accept(said(words, key))
    assert accepted is not None
    owner = accepted.principal
    assert await database.read(lambda c: inbox_counts.stop_seq(c, owner)) == 2
    assert await database.read(lambda c: inbox_counts.waiting(c, owner)) == 2


async def answer_to(database: Database, inbox: Inbox, words: str, key: str = "c") -> str:
    accepted = await inbox.accept(said(words, key))
    assert accepted is not None
    (answer,) = await database.read(lambda c: outbox.answers(c, accepted.message))
    return answer.text


async def test_answers_say_what_is(database: Database, inbox: Inbox) -> None:
    first = await inbox.accept(said("hello", "0"))
    assert first is not None
    assert "messages waiting or running: 1" in await answer_to(database, inbox, "/status", "1")
    assert str(first.principal) in await answer_to(database, inbox, "!whoami", "2")
    assert await answer_to(database, inbox, "/memory", "3") == memory_texts.NO_NOTES
    await database.write(lambda c: memory.write_note(c, first.principal, "k", "the code is 4711", None))
    assert "the code is 4711" in str(await answer_to(database, inbox, "/memory", "4"))
    assert await answer_to(database, inbox, "/history", "5") == texts.NO_GENERATIONS
    listed = await answer_to(database, inbox, "/help", "6")
    assert all(f"`/{name}`" in listed for name in commands.COMMANDS)


async def test_stop_says_whether_there_is_anything_to_stop(database: Database, inbox: Inbox) -> None:
    assert await answer_to(database, inbox, "/stop", "0") == texts.NOTHING_TO_STOP
    await inbox.accept(said("$ sleep 60", "1"))
    assert await answer_to(database, inbox, "/stop", "2") == texts.STOPPING

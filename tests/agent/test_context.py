"""What a wake reads is the same on day 1 and day 1,000; nothing that is asked often goes through a whole table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, event, text

from agent import briefing, context, old_turns
from agent.folding import fold
from agent.trajectory import VERBATIM_TURNS, Said
from identity import reach, rooms, users
from identity.users import Claim
from tests.workspace_store.people import lease, person, receive
from workspace_store import (
    checkpoints,
    context_heads,
    inbox,
    inbox_counts,
    journal,
    memory,
    outbox,
    principal,
    undelivered,
    unserved,
)
from workspace_store import tenancy as tenancies
from workspace_store.database import Database
from workspace_store.journal import Event


def said_in(number: int) -> list[Said]:
    return [Said("user", f"question {number} about /srv/file{number}.txt", message="m"), Said("assistant", "yes " * 40)]


def live_through(connection: Connection, owner: UUID, turns: int, *, first: int = 0) -> None:
    """Turns as the turn writes them."""
    for number in range(first, turns):
        turn, said = uuid4(), said_in(number)
        seq = journal.append(connection, owner, [Event("checkpoint.committed", {})], under=None, turn=turn)
        checkpoints.record_turn(
            connection, owner, seq, turn, [item.to_json() for item in said], context.tokens_of(said)
        )
        if old_turns.due(connection, owner):
            old_turns.fold_old(connection, owner, 16_384)


def long_ago(connection: Connection, owner: UUID, turns: int) -> None:
    """Many folded turns at once, then the last ones as the turn writes them."""
    journal.append(connection, owner, [Event("checkpoint.committed", {})] * turns, under=None)
    folded = fold(said_in(1))
    messages = json.dumps([item.to_json() for item in said_in(1)])
    rows = [
        {"principal": owner, "seq": seq, "turn": uuid4(), "messages": messages, "tokens": 50, "folded": folded, "at": 1}
        for seq in range(1, turns + 1)
    ]
    connection.execute(checkpoints.turn_record.insert(), rows)
    live_through(connection, owner, turns + 12, first=turns)


@contextmanager
def statements(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """Each statement and its parameters, as it is sent."""
    seen: list[tuple[str, Any]] = []

    def record(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        seen.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", record)
    yield seen
    event.remove(connection, "before_cursor_execute", record)


def steps(database: Database, query: Callable[[Connection], object]) -> int:
    """How much work SQLite's virtual machine does for a query: its instructions, not a clock."""

    def transaction(connection: Connection) -> int:
        driver: Any = connection.connection.driver_connection
        query(connection)
        counted = [0]

        def tick() -> None:
            counted[0] += 1

        driver.set_progress_handler(tick, 1)
        query(connection)
        driver.set_progress_handler(None, 0)
        return counted[0]

    return database.write_now(transaction)


def test_waking_reads_and_gives_the_same_after_3000_turns_as_after_50(sqlite: Database) -> None:
    young, middle, old = person(sqlite), person(sqlite), person(sqlite)
    sqlite.write_now(lambda connection: live_through(connection, young, 50))
    sqlite.write_now(lambda connection: long_ago(connection, middle, 300))
    sqlite.write_now(lambda connection: long_ago(connection, old, 3000))

    def wake(owner: UUID) -> Callable[[Connection], object]:
        return lambda connection: (
            context_heads.drop(connection, owner),
            context.load(connection, owner, 16_384),
            context.load(connection, owner, 16_384),
            briefing.read(connection, owner),
            old_turns.due(connection, owner),
            checkpoints.latest(connection, owner),
            journal.read(connection, owner, newest=True, limit=20),
            inbox.upcoming(connection, owner),
            memory.notes(connection, owner),
        )

    def size(owner: UUID) -> int:
        seen = sqlite.write_now(lambda connection: context.load(connection, owner, 16_384))
        return context.build(seen, [Said("user", "hello")]).tokens()

    # At 50 turns the budget of folded records is not used up; from there on nothing grows.
    few, some, many = (steps(sqlite, wake(owner)) for owner in (young, middle, old))
    assert few < some
    assert abs(many - some) <= some // 100
    assert size(young) < size(middle)
    # The same but for the digits of the numbers in it.
    assert abs(size(old) - size(middle)) <= size(middle) // 100


def test_the_last_turns_come_word_for_word_and_those_before_as_records(sqlite: Database) -> None:
    owner = person(sqlite)
    sqlite.write_now(lambda connection: live_through(connection, owner, 30))
    seen = sqlite.write_now(lambda connection: context.load(connection, owner, 16_384))
    words = [turn[0].text for turn in seen.recent]
    assert words[-VERBATIM_TURNS:] == [f"question {n} about /srv/file{n}.txt" for n in range(22, 30)]
    assert len(words) + len(seen.folded) == 30
    assert [f"/srv/file{n}.txt" in record for n, record in enumerate(seen.folded)] == [True] * len(seen.folded)


def test_a_folded_turn_is_found_by_its_words_and_kept_whole(sqlite: Database) -> None:
    owner = person(sqlite)
    sqlite.write_now(lambda connection: live_through(connection, owner, 30))
    (hit, *_) = sqlite.read_now(lambda connection: memory.search(connection, owner, "file3"))
    assert "question 3 " in hit.body
    everything = sqlite.read_now(lambda connection: checkpoints.newest_turns(connection, owner, 99))
    (turn,) = [turn for turn in everything if turn.turn.hex == hit.ref.replace("-", "")]
    assert turn.messages[0]["text"] == "question 3 about /srv/file3.txt"


def test_huge_turns_do_not_make_a_huge_context(sqlite: Database) -> None:
    owner = person(sqlite)

    def transaction(connection: Connection) -> None:
        for seq in range(1, 12):
            said = [Said("user", f"look at /srv/{seq}.log " + "x " * 8000)]
            checkpoints.record_turn(
                connection, owner, seq, uuid4(), [item.to_json() for item in said], context.tokens_of(said)
            )

    sqlite.write_now(transaction)
    seen = sqlite.write_now(lambda connection: context.load(connection, owner, 16_384))
    assert len(seen.recent) == 1
    assert [f"/srv/{n}.log" in record for n, record in enumerate(seen.folded, 1)] == [True] * 10


BIG = {"inbox", "outbox", "journal_event", "journal_payload", "turn_record", "checkpoint", "generation", "note",
       "principal", "identity", "user_account"}  # fmt: skip
OWNER, TURN = uuid4(), uuid4()
HELD = principal.Lease(OWNER, "runner-a", 1)
CLAIM = Claim("mail", "", "ann@example.org", proof="dmarc")
ROW = inbox.Row(uuid4(), "key", OWNER, 1, "message", OWNER, "c", "", "c", "t", "", "running", TURN, 0, 0, 0)
HOT: dict[str, Callable[[Connection], object]] = {
    "intake, found": lambda c: inbox.find(c, "key"),
    "intake, where": lambda c: rooms.at(c, "slack", "T1", "C1"),
    "intake, reach": lambda c: reach.at(c, OWNER, "slack"),
    "intake, who": lambda c: users.by_identity(c, CLAIM),
    "runner, next": lambda c: inbox.upcoming(c, OWNER),
    "runner, taken": lambda c: inbox.taken_by(c, TURN),
    "runner, waiting": lambda c: inbox.waiting_like(c, ROW),
    "runner, crashes": lambda c: inbox.count_crash(c, OWNER),
    "turn, stop": lambda c: inbox_counts.stop_seq(c, OWNER),
    "turn, journal": lambda c: journal.read(c, OWNER, turn=TURN),
    "turn, context": lambda c: context.load(c, OWNER, 16_384),
    "turn, briefing": lambda c: briefing.read(c, OWNER),
    "turn, folding": lambda c: old_turns.due(c, OWNER),
    "turn, checkpoint": lambda c: checkpoints.latest(c, OWNER),
    "turn, release": lambda c: principal.release(c, HELD),
    "sweeper, mail": lambda c: unserved.with_mail(c, 0),
    "sweeper, owners": unserved.owners,
    "sweeper, owned": lambda c: unserved.owned_by(c, "runner-a"),
    "sweeper, leases": lambda c: principal.renew_leases(c, "runner-a"),
    "manager, tenancies": lambda c: tenancies.renew(c, "host-a"),
    "delivery, due": lambda c: outbox.any_due(c, ["mail", "local"]),
    "delivery, claimers": outbox.claimers,
    "delivery, claim": lambda c: outbox.claim(c, ["mail", "local"], "a", ["b"]),
    "delivery, renew": lambda c: outbox.renew(c, "a"),
    "answers": lambda c: outbox.answers(c, OWNER),
    "stream": lambda c: journal.read(c, OWNER, after=5, limit=200),
    "metrics, outbox": outbox.counts,
    "metrics, principals": principal.figures,
    "undelivered": undelivered.newest,
    "notes": lambda c: memory.notes(c, OWNER),
    "host uid": lambda c: tenancies.host_uid(c, OWNER, 100_000, 1000),
}


@pytest.fixture(scope="module")
def full(sqlite_template: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with something of everything."""
    path = tmp_path_factory.mktemp("full") / "nightporter.db"
    path.write_bytes(sqlite_template)
    database = Database(f"sqlite:///{path}")

    def fill(connection: Connection) -> None:
        principal.create(connection, OWNER, "user")
        for _ in range(40):
            user = users.create(connection, Claim("mail", "", uuid4().hex, proof="dmarc"), "member")
            receive(connection, user.id)
        live_through(connection, OWNER, 40)
        for _ in range(40):
            to = outbox.Address("mail", "", "c", "")
            outbox.queue(
                connection, key=uuid4().hex, principal=OWNER, turn=None, inbox=OWNER, to=to, content={"text": "x"}
            )
        connection.execute(text("UPDATE outbox SET status = 'sent' WHERE number < 38"))

    database.write_now(fill)
    lease(database, OWNER)
    yield database
    database.close()


@pytest.mark.parametrize("name", HOT)
def test_no_hot_query_goes_through_a_whole_table(full: Database, name: str) -> None:
    def plans(connection: Connection) -> list[str]:
        with statements(connection) as seen, suppress(principal.StaleLease):
            HOT[name](connection)
        details = []
        for statement, parameters in seen:
            if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                details += [row.detail for row in rows]
        connection.rollback()
        return details

    details = plans_of(full, plans)
    assert details
    assert [detail for detail in details if _scans(detail)] == []


def plans_of(database: Database, query: Callable[[Connection], list[str]]) -> list[str]:
    """What a query's statements do; nothing of it is kept."""

    class Undo(Exception):
        pass

    found: list[str] = []

    def transaction(connection: Connection) -> None:
        found.extend(query(connection))
        raise Undo

    with pytest.raises(Undo):
        database.write_now(transaction)
    return found


def _scans(detail: str) -> bool:
    """A scan of a table, or of an index that holds all of it; a partial index holds only what is open."""
    words = detail.split()
    if words[0] != "SCAN" or words[1] not in BIG:
        return False
    return not ("USING" in words and any(word in PARTIAL for word in words))


PARTIAL = {"outbox_open", "outbox_strand", "outbox_dead", "outbox_repeated", "principal_with_mail", "principal_owned",
           "principal_awake", "turn_record_unfolded"}  # fmt: skip


def test_postgresql_claims_by_the_indexes_of_what_is_open(postgresql_url: str) -> None:
    database = Database(postgresql_url)

    def plan(connection: Connection) -> str:
        connection.execute(
            text(
                "INSERT INTO outbox (id, key, principal, channel, account, conversation, thread, content, status,"
                " attempts, next_at, claim_until, possibly_repeated, queued_at) SELECT gen_random_uuid(), i::text,"
                " gen_random_uuid(), 'mail', '', (i % 10)::text, '', '{}', CASE WHEN i < 9990 THEN 'sent'"
                " ELSE 'queued' END, 0, 0, 0, false, 0 FROM generate_series(1, 10000) AS i"
            )
        )
        connection.execute(text("ANALYZE outbox"))
        with statements(connection) as seen:
            outbox.claim(connection, ["mail", "local"], "a", [])
        (claim,) = [item for item in seen if "FOR UPDATE" in item[0]]
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN {claim[0]}", claim[1]).scalars())

    found = database.write_now(plan)
    assert "Seq Scan" not in found
    assert "outbox_open" in found or "outbox_strand" in found
    database.close()

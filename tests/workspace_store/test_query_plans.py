"""No query that is asked for every message, or of all people, reads a table from end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, event

from identity import linking, merging, pairing, reach, rooms, users
from identity.access import Access, admit
from identity.users import Claim, User
from workspace_store import (
    approvals,
    bursts,
    changes,
    inbox,
    inbox_counts,
    journal,
    memory,
    outbox,
    principal,
    resting,
    unserved,
)
from workspace_store.database import Database, create_engine
from workspace_store.journal import Event
from workspace_store.outbox import Address

ANN = Claim("slack", "T1", "U1", "Ann", "platform")
BOB = Claim("telegram", "7", "5", "Bob", "platform")
HERE = Address("slack", "T1", "D1", "")
Statement = tuple[str, Any]


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    engine = create_engine(database_url)
    with engine.begin() as found:
        if found.dialect.name == "postgresql":
            # With a handful of rows the planner would read any table whole; with this it does so only where it must.
            found.exec_driver_sql("SET enable_seqscan = off")
        yield found
    engine.dispose()


def intake(connection: Connection) -> User:
    user = admit(connection, ANN, Access("open", ["email:ann@example.org"]))
    assert user is not None
    assert admit(connection, ANN, Access("open", [])) == user
    seq, _ = inbox_counts.received(connection, user.id)
    identifier = uuid4()
    inbox.find(connection, "key")
    inbox.insert(
        connection, status="pending", id=identifier, dedupe_key=identifier.hex, principal=user.id, seq=seq,
        kind="message", actor=user.id, channel="slack", account="T1", conversation="D1", thread="", envelope="{}",
        received_at=1,
    )  # fmt: skip
    journal.append(connection, user.id, [Event("message.received", {})], under=None)
    rooms.at(connection, "slack", "T1", "C1")
    return user


def serving(connection: Connection) -> None:
    user = intake(connection)
    unserved.with_mail(connection, 0)
    unserved.owners(connection)
    found = inbox.upcoming(connection, user.id)
    assert found is not None
    row = found.row
    turn = uuid4()
    bursts.settling(connection, user.id, user.id, row.strand)
    inbox.settled_at(connection, user.id)
    bursts.of(connection, row.id)
    inbox.start(connection, row.id, turn, alone=False)
    changes.record(connection, "k", user.id, row.id, "edited", tell=("a", "b"))
    assert [found.after for found in changes.untold(connection, user.id)] == ["b"]
    changes.is_known(connection, "k")
    changes.told(connection, ["k"])
    approvals.any_due(connection)
    approvals.expire_due(connection)
    approvals.waiting(connection, user.id)
    inbox.waiting_like(connection, row)
    inbox.taken_by(connection, turn)
    inbox.newest(connection, user.id)
    inbox.unfinished(connection, user.id)
    inbox.finish(connection, [row.id], "done")
    principal.scope(connection, user.id)
    memory.notes(connection, user.id)
    merging.due(connection)
    merging.mounts(connection, user.id)
    resting.to_end_on(connection, "here")


def delivering(connection: Connection) -> None:
    user = intake(connection)
    outbox.queue(connection, key="k", principal=user.id, turn=None, inbox=uuid4(), to=HERE, content={"text": "x"})
    outbox.any_due(connection, ["slack"])
    outbox.claimers(connection)
    (reply,) = outbox.claim(connection, ["slack"], "me", [])
    outbox.renew(connection, "me")
    outbox.sent(connection, reply.id, "me", "1")
    outbox.answers(connection, uuid4())
    outbox.sent_as(connection, HERE.channel, HERE.account, HERE.conversation, "1")
    approvals.of_question(connection, reply.id)
    outbox.counts(connection)
    outbox.withdraw(connection, user.id)
    outbox.discard(connection, "k")


def people(connection: Connection) -> None:
    ann = intake(connection)
    bob = users.create(connection, BOB, "member")
    users.get(connection, ann.id)
    users.admins(connection)
    users.page(connection, ann, 50)
    users.identities(connection, ann.id)
    users.identity_named(connection, "slack:T1/U1")
    users.events(connection, ann.id)
    reach.last(connection, ann.id)
    reach.at(connection, ann.id, "slack")
    pairing.knock(connection, Claim("slack", "T1", "U9", "", "platform"), "D9", "", "{}")
    pairing.waiting(connection)
    pairing.find(connection, "ABCDEF")
    (known,) = users.identities(connection, bob.id)
    assert known.id is not None
    code = linking.make(connection, bob, known.id, {})
    linking.say(connection, ANN, ann, code, {})
    linking.say(connection, ANN, ann, "0" * 12, {})
    linking.confirm(connection, ANN, ann, code)
    linking.undoable(connection, ann.id)
    merging.holdings(connection, ann.id)
    merging.attempt(connection, merging.ask(connection, ann.id, bob.id, actor=None, by_link=False, seconds=0))
    merging.undo(connection, bob.id, None)


@pytest.mark.parametrize("story", [intake, serving, delivering, people])
def test_every_query_has_its_index(connection: Connection, story: Callable[[Connection], object]) -> None:
    asked: list[Statement] = []

    def listen(conn: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        asked.append((statement, parameters[0] if many else parameters))

    event.listen(connection, "before_cursor_execute", listen)
    story(connection)
    event.remove(connection, "before_cursor_execute", listen)
    statements = {statement: parameters for statement, parameters in asked if _has_a_plan(statement)}
    assert len(statements) >= 5
    found = {statement: reads_whole_table(connection, statement, given) for statement, given in statements.items()}
    assert {statement: plan for statement, plan in found.items() if plan} == {}


def _has_a_plan(statement: str) -> bool:
    return statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")) and "clock_timestamp" not in statement


def reads_whole_table(connection: Connection, statement: str, parameters: Any) -> list[str]:
    """The lines of a statement's plan that read a table, not an index."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        lines = [str(row[3]) for row in rows]
        # A list in the statement itself is no table.
        own = ("SCAN CONSTANT ROW", "SCAN (subquery")
        return [line for line in lines if line.startswith("SCAN ") and "INDEX" not in line and not line.startswith(own)]
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
    return [str(row[0]) for row in rows if "Seq Scan" in str(row[0])]


def test_the_check_sees_a_scan(connection: Connection) -> None:
    assert reads_whole_table(connection, "SELECT * FROM outbox WHERE error = 'x'", ()) != []


def test_people_are_listed_by_the_page(database: Database) -> None:
    def fill(connection: Connection) -> None:
        for number in range(250):
            users.create(connection, Claim("telegram", "7", str(number), f"User {number}", "platform"), "member")

    database.write_now(fill)
    seen: list[UUID] = []
    last: User | None = None
    while page := database.read_now(lambda connection, last=last: users.page(connection, last, 100)):
        seen += [user.id for user in page]
        last = page[-1]
    assert len(seen) == len(set(seen)) == 250

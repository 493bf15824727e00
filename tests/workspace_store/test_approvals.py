"""Approvals: asked once, answered once by who may, consumed once for exactly what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text, update

from tests import processes
from tests.workspace_store.people import lease, person, receive
from workspace_store import approvals, journal, outbox, principal
from workspace_store.approvals import ALWAYS, APPROVE, DENY, FOR_AN_HOUR, Approval, Decision, Place
from workspace_store.database import Database, now_us
from workspace_store.outbox import Address
from workspace_store.principal import StaleLease

HERE = Place(Address("slack", "T1", "C1", "1.5"), {"user": "U1"})
REQUEST = {"host": "packages.example.org", "port": 443}


@dataclass(frozen=True)
class Person:
    id: UUID
    display_name: str = "Ann"
    role: str = "member"


def ask(database: Database, owner: UUID, **more: Any) -> Approval:
    given: dict[str, Any] = {
        "key": uuid4().hex, "kind": "egress.host", "principal": owner, "at": HERE, "request": REQUEST,
        "text": "reach `packages.example.org`", **more,
    }  # fmt: skip
    return database.write_now(lambda connection: approvals.request(connection, **given))


def decide(database: Database, code: str | UUID, by: Person | None, verdict: Any = "approve", **more: Any) -> Decision:
    given = {"via": "slack", "hooks": {}, **more}
    return database.write_now(lambda connection: approvals.decide(connection, code, by, verdict, **given))


def consume(database: Database, found: Approval, request: object = REQUEST) -> bool:
    return database.write_now(lambda connection: approvals.consume(connection, found.id, request))


def queued(database: Database) -> list[dict[str, Any]]:
    rows = database.read_now(lambda c: c.execute(outbox.outbox.select().order_by(outbox.outbox.c.number)).all())
    return [{"key": row.key, "to": (row.channel, row.conversation, row.thread), **json.loads(row.content)}
            for row in rows]  # fmt: skip


def kinds(database: Database, owner: UUID) -> list[str]:
    return [event.kind for event in database.read_now(lambda c: journal.read(c, owner))]


def age(database: Database, found: Approval) -> None:
    """Let its time be over."""
    row = approvals.approval
    database.write_now(lambda c: c.execute(update(row).where(row.c.id == found.id).values(expires_at=now_us() - 1)))


def test_it_is_asked_in_its_place_with_buttons_and_words_that_answer_it(database: Database) -> None:
    owner = person(database)
    found = ask(database, owner, choices=(APPROVE, FOR_AN_HOUR, ALWAYS, DENY))
    (question,) = queued(database)
    assert question["to"] == ("slack", "C1", "1.5")
    assert question["reply"] == {"user": "U1"}
    assert [button["value"] for button in question["buttons"]] == [
        f"{found.code} {name}" for name in ("once", "hour", "always", "deny")
    ]
    assert "reach `packages.example.org`" in question["text"]
    for said in ("/approve {}", "/approve {} hour", "/approve {} always", "/deny {}"):
        assert f"`{said.format(found.code)}`" in question["text"]
    assert kinds(database, owner) == ["approval.requested"]
    assert database.read_now(lambda c: approvals.waiting(c, owner)) == [found]


def test_the_same_key_asks_once(database: Database) -> None:
    owner = person(database)
    first, again = ask(database, owner, key="k"), ask(database, owner, key="k", text="something else")
    assert (first, len(queued(database)), kinds(database, owner)) == (again, 1, ["approval.requested"])


def test_an_answer_counts_once_and_the_question_says_so(database: Database) -> None:
    owner = person(database)
    ann = Person(owner)
    found = ask(database, owner)
    first = decide(database, found.code.lower(), ann)
    again = decide(database, found.code, ann, "deny")
    assert (first.outcome, again.outcome) == ("decided", "already")
    assert first.approval is not None
    assert again.approval == first.approval
    assert (first.approval.status, first.approval.choice, first.approval.decided_by) == ("approved", "once", owner)
    _, edit = queued(database)
    assert (edit["edits"], "buttons" in edit) == (found.question.hex, False)
    assert "Approved by Ann" in edit["text"]
    assert database.read_now(lambda c: approvals.waiting(c, owner)) == []
    assert kinds(database, owner) == ["approval.requested", "approval.decided"]


def test_it_is_consumed_once_and_only_for_what_was_asked(database: Database) -> None:
    owner = person(database)
    found = ask(database, owner)
    assert not consume(database, found)
    decide(database, found.code, Person(owner))
    assert not consume(database, found, {**REQUEST, "port": 22})
    assert consume(database, found, dict(reversed(REQUEST.items())))
    assert not consume(database, found)
    stale = decide(database, found.code, Person(owner), "deny")
    assert (stale.outcome, stale.approval and stale.approval.status) == ("already", "consumed")
    assert kinds(database, owner)[-1] == "approval.consumed"


def consume_some(url: str, identifier: UUID, results: Any) -> None:
    database = Database(url)
    results.put(sum(database.write_now(lambda c: approvals.consume(c, identifier, REQUEST)) for _ in range(5)))
    database.close()


@pytest.mark.slow
def test_many_who_consume_at_once_are_one(database_url: str) -> None:
    database = Database(database_url)
    owner = person(database)
    found = ask(database, owner)
    decide(database, found.code, Person(owner))
    results = processes.Queue()
    running = [processes.start(consume_some, database_url, found.id, results) for _ in range(4)]
    assert sorted(results.get(timeout=60) for _ in running) == [0, 0, 0, 1]
    assert processes.codes(*running) == [0] * 4
    database.close()


def test_only_who_was_asked_or_has_the_role_may_answer(database: Database) -> None:
    owner, other = person(database), person(database)
    mine = ask(database, owner)
    assert decide(database, mine.code, Person(other)).outcome == "not_yours"
    assert decide(database, mine.code, Person(other, role="admin")).outcome == "not_yours"
    admins = ask(database, owner, role="admin")
    assert decide(database, admins.code, Person(owner)).outcome == "not_yours"
    assert decide(database, admins.code, Person(other, role="admin")).outcome == "decided"
    room = ask(database, person(database), asked=owner)
    assert decide(database, room.code, Person(owner), "deny").outcome == "decided"
    assert decide(database, mine.id, None).outcome == "decided"


def test_each_sees_what_waits_for_their_answer(database: Database) -> None:
    owner, other = person(database), person(database)
    mine, for_admins = ask(database, owner), ask(database, owner, role="admin")

    def seen(by: Person) -> list[UUID]:
        return [found.id for found in database.read_now(lambda c: approvals.waiting(c, None, by))]

    assert seen(Person(owner)) == [mine.id]
    assert seen(Person(other)) == []
    assert seen(Person(other, role="admin")) == [for_admins.id]


def test_unknown_codes_and_choices_that_were_not_offered_decide_nothing(database: Database) -> None:
    owner = person(database)
    found = ask(database, owner)
    assert decide(database, "NOSUCHID", Person(owner)).outcome == "unknown"
    assert decide(database, "", Person(owner)).outcome == "unknown"
    assert decide(database, found.code, Person(owner), choice="always").outcome == "no_such_choice"
    assert decide(database, found.code, Person(owner), choice="deny").outcome == "no_such_choice"
    assert database.read_now(lambda c: approvals.get(c, found.id)).status == "pending"


def test_by_mail_only_the_code_of_its_own_mail_counts(database: Database) -> None:
    owner = person(database)
    found = ask(database, owner, at=Place(Address("email", "", "ann@example.org", ""), {}))
    (question,) = queued(database)
    assert f"`/approve {found.mail_code}`" in question["text"]
    for code in (found.code, f"{found.code}-AAAAAAAA", str(found.id)):
        assert decide(database, code, Person(owner), needs_token=True).outcome == "needs_token"
    assert decide(database, found.mail_code.lower(), Person(owner), needs_token=True).outcome == "decided"


def test_what_was_changed_is_asked_anew_and_bound_anew(database: Database) -> None:
    owner = person(database)
    was = ask(database, owner)
    other = {**REQUEST, "port": 80}
    now = database.write_now(lambda c: approvals.amend(c, was.id, request=other, text="reach it without TLS"))
    assert now is not None
    assert now.code != was.code
    old, edit, new = queued(database)
    assert (edit["edits"], "newer question" in edit["text"]) == (was.question.hex, True)
    assert f"/approve {now.code}" in new["text"]
    assert old["text"] != new["text"]
    assert decide(database, was.code, Person(owner)).outcome == "unknown"
    assert decide(database, now.code, Person(owner)).outcome == "decided"
    assert not consume(database, was)
    assert consume(database, now, other)
    late = database.write_now(lambda c: approvals.amend(c, was.id, request=REQUEST, text="again"))
    assert late is None
    assert len(queued(database)) == 4


@pytest.mark.parametrize("when", ["before it is swept", "after it is swept"])
def test_what_nobody_answers_expires(database: Database, when: str) -> None:
    owner = person(database)
    found = ask(database, owner)
    assert not database.read_now(approvals.any_due)
    age(database, found)
    assert database.read_now(approvals.any_due)
    assert database.read_now(lambda c: approvals.waiting(c, owner)) == []
    if when == "after it is swept":
        assert [one.id for one in database.write_now(approvals.expire_due)] == [found.id]
        assert database.write_now(approvals.expire_due) == []
    decision = decide(database, found.code, Person(owner))
    assert (decision.outcome, decision.approval and decision.approval.status) == ("expired", "expired")
    assert not consume(database, found)
    assert "expired" in queued(database)[1]["text"]
    assert kinds(database, owner) == ["approval.requested", "approval.decided"]


def test_what_was_approved_long_ago_is_no_approval_any_more(database: Database) -> None:
    owner = person(database)
    found = ask(database, owner)
    decide(database, found.code, Person(owner))
    age(database, found)
    assert not consume(database, found)


def test_a_kinds_owner_acts_inside_the_deciding_transaction(database: Database) -> None:
    owner = person(database)
    seen: list[tuple[str, str | None]] = []

    def hook(connection: Connection, found: Approval, by: Any) -> str:
        seen.append((found.status, found.choice))
        receive(connection, found.principal, "written by the hook")
        return "It holds from now on."

    found = ask(database, owner, choices=(APPROVE, ALWAYS, DENY))
    decided = decide(database, found.code, Person(owner), choice="always", hooks={"egress.host": hook})
    assert (decided.told, seen) == ("It holds from now on.", [("approved", "always")])
    assert database.read_now(lambda c: c.execute(text("SELECT count(*) FROM inbox")).scalar_one()) == 1


def test_a_hook_that_fails_leaves_the_question_open(database: Database) -> None:
    owner = person(database)

    def hook(connection: Connection, found: Approval, by: Any) -> str:
        raise RuntimeError("no")

    found = ask(database, owner)
    with pytest.raises(RuntimeError):
        decide(database, found.code, Person(owner), hooks={"egress.host": hook})
    assert database.read_now(lambda c: approvals.get(c, found.id)).status == "pending"
    assert (len(queued(database)), kinds(database, owner)) == (1, ["approval.requested"])


def test_a_turn_that_lost_its_lease_asks_nobody(database: Database) -> None:
    owner = person(database)
    old = lease(database, owner)
    lease(database, owner, "runner-b")
    with pytest.raises(StaleLease):
        ask(database, owner, under=old)
    assert queued(database) == []


def test_where_a_person_was_last_heard(database: Database) -> None:
    owner = person(database)
    place: Callable[[], Place | None] = lambda: database.read_now(lambda c: approvals.place_of(c, owner))  # noqa: E731
    assert place() is None
    body = json.dumps({"reply": {"to": "ann"}})
    database.write_now(lambda c: receive(c, owner, body, thread="first"))
    database.write_now(lambda c: receive(c, owner, body, thread="second"))
    assert place() == Place(Address("local", "", "c", "second"), {"to": "ann"}, owner)
    database.write_now(lambda c: c.execute(text("UPDATE inbox SET status = 'running' WHERE thread = 'first'")))
    found = place()
    assert found is not None
    assert found.address.thread == "first"


def test_requests_are_the_same_by_content(database: Database) -> None:
    assert approvals.hash_request({"a": 1, "b": [2]}) == approvals.hash_request({"b": [2], "a": 1})
    assert approvals.hash_request({"a": 1}) != approvals.hash_request({"a": "1"})


def test_nobody_is_asked_for_a_closed_principal(database: Database) -> None:
    owner = person(database)
    database.write_now(lambda connection: principal.close(connection, owner))
    found = ask(database, owner)
    assert found.status == "pending"
    assert queued(database) == []
    amended = database.write_now(lambda c: approvals.amend(c, found.id, request={"host": "b"}, text="reach b"))
    assert amended is not None
    assert queued(database) == []


def test_who_was_asked_in_a_room_answers_after_being_merged(database: Database) -> None:
    room, ann, bob = person(database), person(database), person(database)
    found = ask(database, room, asked=bob)
    merge = update(principal.principal).where(principal.principal.c.id == bob).values(merged_into=ann)
    assert decide(database, found.code, Person(ann)).outcome == "not_yours"
    database.write_now(lambda connection: connection.execute(merge))
    assert [one.id for one in database.read_now(lambda c: approvals.waiting(c, None, Person(ann)))] == [found.id]
    assert decide(database, found.code, Person(ann)).outcome == "decided"

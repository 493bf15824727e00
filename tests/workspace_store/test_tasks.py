"""Tasks, what was promised, and facts of folded turns: rows that stand until they are ended, on both databases."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.workspace_store.people import person
from workspace_store import commitments, facts, tasks
from workspace_store.database import Database
from workspace_store.tasks import NoSuchTask, PlanStep


def test_a_task_is_numbered_per_person_and_the_same_key_is_the_same_task(database: Database) -> None:
    ann, bob = person(database), person(database)
    for owner, key in ((ann, "a"), (ann, "b"), (bob, "c")):
        database.write_now(lambda c, owner=owner, key=key: tasks.open_task(c, owner, key, f"goal {key}"))
    again = database.write_now(lambda c: tasks.open_task(c, ann, "b", "another goal"))
    assert (again.number, again.goal) == (2, "goal b")
    assert [found.number for found in database.read_now(lambda c: tasks.open_tasks(c, ann))] == [1, 2]
    assert [found.goal for found in database.read_now(lambda c: tasks.open_tasks(c, bob))] == ["goal c"]


def test_a_claim_closes_nothing_and_what_is_closed_takes_no_claim(database: Database) -> None:
    ann = person(database)
    made = database.write_now(lambda c: tasks.open_task(c, ann, "a", "goal", plan=[PlanStep("first")], check="true"))
    database.write_now(lambda c: tasks.claim(c, made.id, "I did it"))
    claimed = database.read_now(lambda c: tasks.numbered(c, ann, 1))
    assert (claimed.state, claimed.evidence, claimed.claims, claimed.closed_at) == ("claimed", "I did it", 1, None)
    assert claimed.plan == (PlanStep("first"),)
    database.write_now(lambda c: tasks.settle(c, made.id, "verified"))
    database.write_now(lambda c: tasks.claim(c, made.id, "once more"))
    assert database.read_now(lambda c: tasks.get(c, made.id)).state == "verified"
    assert database.read_now(lambda c: tasks.open_tasks(c, ann)) == []
    with pytest.raises(NoSuchTask, match="no open task 1"):
        database.read_now(lambda c: tasks.numbered(c, ann, 1))


def test_failures_start_anew_with_a_claim_after_the_person_was_told(database: Database) -> None:
    ann = person(database)
    made = database.write_now(lambda c: tasks.open_task(c, ann, "a", "goal"))
    database.write_now(lambda c: tasks.settle(c, made.id, "open", failures=2))
    database.write_now(lambda c: tasks.claim(c, made.id, ""))
    assert database.read_now(lambda c: tasks.get(c, made.id)).failures == 2
    database.write_now(lambda c: tasks.settle(c, made.id, "failed", failures=3))
    database.write_now(lambda c: tasks.claim(c, made.id, ""))
    assert database.read_now(lambda c: tasks.get(c, made.id)).failures == 0


def test_a_promise_stands_until_it_is_ended_and_is_not_made_twice(database: Database) -> None:
    ann = person(database)
    first = database.write_now(lambda c: commitments.make(c, ann, "a", "I send  the report\non Friday"))
    same = database.write_now(lambda c: commitments.make(c, ann, "b", "I send the report on Friday"))
    assert first.id == same.id
    assert first.body == "I send the report on Friday"
    database.write_now(lambda c: commitments.make(c, ann, "c", "I watch the build"))
    assert database.write_now(lambda c: commitments.end(c, ann, 1, "kept")) is not None
    assert database.write_now(lambda c: commitments.end(c, ann, 1, "kept")) is None
    assert [found.number for found in database.read_now(lambda c: commitments.standing(c, ann))] == [2]


def test_what_is_open_goes_with_a_merge_and_comes_back(database: Database) -> None:
    ann, bob = person(database), person(database)
    for owner in (ann, bob):
        database.write_now(lambda c, owner=owner: tasks.open_task(c, owner, owner.hex, "goal"))
        database.write_now(lambda c, owner=owner: commitments.make(c, owner, owner.hex, "promise"))
    task = database.write_now(lambda c: tasks.move(c, bob, ann))
    promise = database.write_now(lambda c: commitments.move(c, bob, ann))
    assert [found.number for found in database.read_now(lambda c: tasks.open_tasks(c, ann))] == [1, 2]
    assert [found.number for found in database.read_now(lambda c: commitments.standing(c, ann))] == [1, 2]
    database.write_now(lambda c: tasks.move_back(c, task, bob))
    database.write_now(lambda c: commitments.move_back(c, promise, bob))
    assert len(database.read_now(lambda c: tasks.open_tasks(c, bob))) == 1
    assert len(database.read_now(lambda c: commitments.standing(c, bob))) == 1


def test_a_fact_is_found_by_its_whole_value_in_any_case_and_by_nobody_else(database: Database) -> None:
    ann, bob = person(database), person(database)
    value = str(uuid4())
    database.write_now(lambda c: facts.write(c, ann, 7, [("identifier", value), ("decision", "we use port 8443")]))
    database.write_now(lambda c: facts.write(c, ann, 9, [("identifier", value)]))
    found = database.read_now(lambda c: facts.find(c, ann, value.upper()))
    assert [one.seq for one in found] == [9, 7]
    assert database.read_now(lambda c: facts.find(c, ann, value[:-1])) == []
    assert database.read_now(lambda c: facts.find(c, bob, value)) == []
    assert database.read_now(lambda c: facts.find(c, ann, "We use  port 8443"))[0].kind == "decision"


def test_failures_of_folding_are_counted_until_one_succeeds(database: Database) -> None:
    ann = person(database)
    assert [database.write_now(lambda c: facts.failed(c, ann, "lost")) for _ in range(3)] == [1, 2, 3]
    assert database.read_now(lambda c: facts.stopped(c)) == 1
    database.write_now(lambda c: facts.succeeded(c, ann))
    assert database.read_now(lambda c: facts.trouble(c, ann)) is None

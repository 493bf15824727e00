"""Schedules: said when it is time, once, where they were made; what was missed is caught up once or left out."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from identity import administration, merging, users
from identity.access import Access
from identity.users import Claim, User
from router import schedules as firing
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from router.schedules import Firing
from workspace_store import inbox, journal, schedules, unserved
from workspace_store.database import Database, now_us
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.schedules import Schedule

OWNER = Claim("local", "", "owner", "owner", "token")
ANN = Claim("slack", "T1", "U1", "Ann", "platform")
MINUTE = 60_000_000
ONE_MORE = itertools.count(1)


class Door:
    """A person at a channel, who says things there."""

    def __init__(self, database: Database, sender: Claim = OWNER, conversation: str = "here", **more: Any) -> None:
        self.database = database
        self.sender = sender
        self.conversation = conversation
        self.more = more
        self.number = 0
        self.limits = ScheduleLimits(most=5)

    async def say(self, words: str, thread: str = "", key: str = "") -> Accepted:
        self.number += 1
        said = Envelope(
            self.sender.channel, self.sender.account, key or f"{self.conversation}{self.number}", self.sender,
            self.conversation, thread, words, reply={"subject": "Re: tea", "response_url": "once"}, **self.more,
        )  # fmt: skip
        box = Inbox(self.database, Access("open", [], "open"), lambda _: None, schedules=self.limits)
        accepted = await box.accept(said)
        assert accepted is not None
        return accepted

    async def answer(self, words: str, **more: Any) -> str:
        await self.say(words, **more)
        query = "SELECT content FROM outbox ORDER BY number DESC LIMIT 1"
        content = await self.database.read(lambda c: c.execute(text(query)).scalar_one())
        return str(json.loads(content)["text"])

    async def schedule(self, words: str = "every 5 minutes: look", **more: Any) -> Schedule:
        accepted = await self.say(f"/schedule add {words}", **more)
        found = await self.database.read(lambda c: schedules.of(c, accepted.principal))
        assert found, await self.answer("/schedule")
        return max(found, key=lambda one: one.created_at)


def back_date(database: Database, found: Schedule, minutes: float) -> None:
    """Let so much time have gone by since it was made."""
    # No time is ever due a second time.
    by = int(minutes * MINUTE) + next(ONE_MORE)
    database.write_now(
        lambda c: c.execute(
            text("UPDATE schedule SET next_due = next_due - :by, anchor = anchor - :by WHERE code = :code"),
            {"by": by, "code": found.code},
        )
    )


def fire(database: Database, **limits: Any) -> int:
    chore = Firing(ScheduleLimits(**limits)).chore
    return len(database.write_now(chore.do)) if database.read_now(chore.is_due) else 0  # type: ignore[arg-type]


def fired(database: Database, owner: UUID) -> list[inbox.Row]:
    return database.read_now(lambda c: [row for row in inbox.newest(c, owner)[::-1] if row.kind == firing.KIND])


def finish(database: Database, owner: UUID) -> None:
    database.write_now(lambda c: inbox.finish(c, [row.id for row in fired(database, owner)], "done"))


def nothing_waits(database: Database) -> None:
    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE inbox SET status = 'done'"))
        connection.execute(text("UPDATE principal SET drained_seq = inbox_seq"))

    database.write_now(write)


def kinds(database: Database, owner: UUID) -> list[str]:
    return [e.kind for e in database.read_now(lambda c: journal.read(c, owner)) if e.kind.startswith("schedule.")]


def state(database: Database, found: Schedule) -> Schedule:
    return database.read_now(lambda c: schedules.get(c, found.id))


async def test_what_is_due_is_said_once_where_it_was_made_as_its_persons_words(database: Database) -> None:
    door = Door(database)
    made = await door.schedule("every 5 minutes: look", thread="t7")
    assert fire(database) == 0
    back_date(database, made, 5)
    assert fire(database) == 1
    assert fire(database) == 0
    (row,) = fired(database, made.principal)
    told = Envelope.from_json(row.envelope)
    assert (row.status, row.strand, row.actor) == ("pending", ("local", "", "here", "t7"), made.principal)
    assert (told.text, told.reply) == ("look", {"subject": "Re: tea"})
    assert made.code in told.context
    assert database.read_now(lambda c: unserved.with_mail(c, now_us())) == [made.principal]
    assert kinds(database, made.principal) == ["schedule.added", "schedule.fired"]
    now_is = state(database, made)
    assert abs((now_is.next_due or 0) - (made.next_due or 0)) < 1000
    assert (now_is.runs, now_is.last_row) == (1, row.id)


async def test_what_was_missed_is_said_once_and_says_how_much_it_stands_for(database: Database) -> None:
    made = await Door(database).schedule()
    back_date(database, made, 62)
    assert fire(database) == 1
    assert fire(database) == 0
    (row,) = fired(database, made.principal)
    assert "late" in Envelope.from_json(row.envelope).context
    assert "11 earlier times were missed" in Envelope.from_json(row.envelope).context
    assert (state(database, made).next_due or 0) > now_us()


async def test_what_was_missed_is_left_out_where_that_was_chosen(database: Database) -> None:
    made = await Door(database).schedule("every 5 minutes skip missed: look")
    back_date(database, made, 62)
    assert fire(database) == 0
    assert fired(database, made.principal) == []
    assert kinds(database, made.principal) == ["schedule.added", "schedule.skipped"]
    now_is = state(database, made)
    assert (now_is.status, (now_is.next_due or 0) > now_us()) == ("active", True)
    assert "missed" in now_is.note
    # The next one in time is said.
    back_date(database, made, ((now_is.next_due or 0) - now_us()) / MINUTE + 0.01)
    assert fire(database) == 1


async def test_one_moment_that_was_missed_is_said_late_or_never(database: Database) -> None:
    door = Door(database)
    for words, said in (("in 2 minutes: a", 1), ("in 2 minutes skip missed: b", 0)):
        made = await door.schedule(words)
        database.write_now(
            lambda c, code=made.code: c.execute(
                text("UPDATE schedule SET next_due = :due, spec = '2026-01-01T09:00:00' WHERE code = :code"),
                {"due": 1767258000_000000, "code": code},
            )
        )
        assert fire(database) == said
        assert state(database, made).status == "done"


async def test_two_runners_that_look_at_the_same_moment_say_it_once(database: Database, database_url: str) -> None:
    made = await Door(database).schedule()
    for _ in range(8):
        back_date(database, made, 5 + ((state(database, made).next_due or 0) - now_us()) / MINUTE - 4.99)
        both = [Database(database_url) for _ in range(4)]
        start = threading.Barrier(4)

        def look(one: Database, start: threading.Barrier = start) -> None:
            start.wait()
            fire(one)

        running = [threading.Thread(target=look, args=(one,)) for one in both]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        for one in both:
            one.close()
        finish(database, made.principal)
    assert len(fired(database, made.principal)) == 8
    assert state(database, made).runs == 8


async def test_a_transaction_that_is_cut_off_says_it_once_all_the_same(database: Database) -> None:
    made = await Door(database).schedule()
    back_date(database, made, 5)

    def cut_off(connection: Connection) -> None:
        assert len(Firing(ScheduleLimits()).fire_due(connection)) == 1
        raise RuntimeError("the machine went down")

    with pytest.raises(RuntimeError):
        database.write_now(cut_off)
    assert fired(database, made.principal) == []
    assert fire(database) == 1
    assert len(fired(database, made.principal)) == 1


async def test_while_the_run_before_is_at_work_the_next_one_is_left_out(database: Database) -> None:
    made = await Door(database).schedule()
    back_date(database, made, 5)
    assert fire(database) == 1
    back_date(database, made, 5)
    assert fire(database) == 0
    assert "still being worked on" in state(database, made).note
    finish(database, made.principal)
    back_date(database, made, 5)
    assert fire(database) == 1


async def test_pausing_resuming_running_and_removing(database: Database) -> None:
    door = Door(database)
    made = await door.schedule()
    assert "rests" in await door.answer(f"/schedule pause {made.code}")
    back_date(database, made, 60)
    assert fire(database) == 0
    assert "nothing was changed" in await door.answer(f"/schedule pause {made.code}")
    assert "goes on" in await door.answer(f"/schedule resume `{made.code.lower()}`")
    # What came meanwhile was not missed.
    assert fire(database) == 0
    accepted = await door.say(f"/schedule run {made.code}", key="press")
    assert [woken.principal for woken in accepted.woken] == [made.principal]
    await door.say(f"/schedule run {made.code}", key="press")
    assert len(fired(database, made.principal)) == 1
    assert "removed" in await door.answer(f"/schedule remove {made.code}")
    assert "no schedule" in await door.answer(f"/schedule remove {made.code}")
    assert "no schedules" in await door.answer("/schedule")


async def test_a_list_says_when_what_and_why_not(database: Database) -> None:
    door = Door(database)
    made = await door.schedule("every day at 7:30 in Europe/Berlin: what is new?")
    listed = await door.answer("/schedule list")
    assert made.code in listed
    assert "07:30 Europe/Berlin" in listed
    assert "what is new?" in listed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("every 10 seconds: x", "too often"),
        ("every day at 7:30", "what I am to be told"),
        ("at 2001-01-01 09:00: x", "is over"),
        ("every blue moon: x", "Say when and what"),
        ("every day at 7:30: " + "x" * 5000, "longer than"),
    ],
)
async def test_what_is_refused_says_why(database: Database, words: str, why: str) -> None:
    door = Door(database)
    said = await door.answer(f"/schedule add {words}")
    assert "scheduled nothing" in said
    assert why in said
    assert "no schedules" in await door.answer("/schedule")


async def test_there_are_only_so_many(database: Database) -> None:
    door = Door(database)
    for number in range(5):
        await door.schedule(f"every hour: {number}")
    assert "5 schedules already" in await door.answer("/schedule add every hour: one more")


async def test_nobody_changes_what_is_another_persons(database: Database) -> None:
    made = await Door(database).schedule()
    other = Door(database, ANN, "D1")
    for verb in ("pause", "resume", "run", "remove"):
        assert "no schedule" in await other.answer(f"/schedule {verb} {made.code}")
    assert "no schedules" in await other.answer("/schedule")
    assert state(database, made).status == "active"


async def test_a_rooms_schedule_is_said_in_the_room_by_whoever_made_it(database: Database) -> None:
    room = Door(database, ANN, "C1", shared=True)
    made = await room.schedule()
    back_date(database, made, 5)
    assert fire(database) == 1
    (row,) = fired(database, made.principal)
    ann = database.read_now(lambda c: users.by_identity(c, ANN))
    assert ann is not None
    assert (row.actor, row.strand[2]) == (ann.id, "C1")
    assert row.principal != ann.id
    assert "Ann" in Envelope.from_json(row.envelope).speaker
    # In private, the room's is not there.
    assert "no schedules" in await Door(database, ANN, "D1").answer("/schedule")


async def test_answered_where_its_person_wrote_last_where_that_was_asked_for(database: Database) -> None:
    made = await Door(database).schedule("every 5 minutes to last: look")
    await Door(database, conversation="there").say("hello")
    back_date(database, made, 5)
    assert fire(database) == 1
    assert fired(database, made.principal)[0].conversation == "there"


async def test_nothing_is_said_at_a_channel_that_is_not_theirs_any_more(database: Database) -> None:
    door = Door(database, ANN, "D1")
    made = await door.schedule()

    def taken_away(connection: Connection) -> None:
        known = users.identity_of(connection, ANN)
        assert known is not None
        users.remove_identity(connection, known)
        connection.execute(text("UPDATE inbox SET actor = NULL"))

    database.write_now(taken_away)
    back_date(database, made, 5)
    assert fire(database) == 0
    assert "nowhere" in state(database, made).note


async def test_whoever_is_blocked_says_nothing_and_what_came_meanwhile_is_caught_up_once(database: Database) -> None:
    made = await Door(database, ANN, "D1").schedule()

    def person(connection: Connection) -> User:
        found = users.get(connection, made.user)
        assert found is not None
        return found

    database.write_now(lambda c: administration.block(c, person(c), None))
    back_date(database, made, 61)
    assert fire(database) == 0
    assert kinds(database, made.principal) == ["schedule.added"]
    database.write_now(lambda c: administration.unblock(c, person(c), None))
    assert fire(database) == 1


async def test_after_a_merge_it_is_the_one_who_was_kept_and_after_unmerging_each_has_their_own(
    database: Database,
) -> None:
    made = await Door(database, ANN, "D1").schedule()
    kept = (await Door(database).say("hello")).principal
    nothing_waits(database)

    def merge(connection: Connection) -> None:
        asked = merging.ask(connection, kept, made.principal, actor=None, by_link=False, seconds=0)
        assert merging.attempt(connection, asked)

    database.write_now(merge)
    assert made.code in await Door(database).answer("/schedule list", key="a")
    back_date(database, made, 5)
    assert fire(database) == 1
    (row,) = fired(database, kept)
    assert (row.channel, row.conversation, row.actor) == ("slack", "D1", kept)
    nothing_waits(database)
    assert database.write_now(lambda c: merging.undo(c, made.principal, None)) is not None
    assert "no schedules" in await Door(database).answer("/schedule list", key="b")
    back_date(database, made, 5)
    assert fire(database) == 1
    assert [one.conversation for one in fired(database, made.principal)] == ["D1"]


async def test_looking_for_what_is_due_reads_an_index_that_holds_what_goes_on_alone(sqlite: Database) -> None:
    await Door(sqlite).schedule()
    plan = sqlite.read_now(
        lambda c: c.execute(
            text("EXPLAIN QUERY PLAN SELECT id FROM schedule WHERE schedule.status = 'active' AND next_due <= 5")
        ).all()
    )
    assert "schedule_due" in str(plan)

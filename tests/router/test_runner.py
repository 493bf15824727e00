"""Serving a principal: in order, by one at a time, whoever dies, and poison holds up nobody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection

from identity.users import Claim
from router import runner
from router.envelope import Envelope
from router.runner import POISON_CRASHES, SUSPECT_CRASHES, AloneGate, Runner
from sandbox_runner import texts
from tests import processes
from tests.workspace_store.people import lease, person
from workspace_store import inbox, inbox_counts, journal, outbox, principal, unserved
from workspace_store.database import Database, DatabaseUnavailable, now_us
from workspace_store.formats import FORMAT
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.liveness import Life
from workspace_store.principal import Lease

Doing = Callable[[Row], Awaitable[None]]


@dataclass
class Turns:
    """Runs turns as the real one does, with ``doing`` in the place of an engine."""

    database: Database
    doing: Doing | None = None
    ran: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def begin(self, connection: Connection, lease: Lease, row: Row, alone: bool, locked: object = None) -> UUID:
        turn = row.turn or uuid4()
        journal.append(connection, lease.principal, [Event("turn.started", {})], under=lease, turn=turn)
        inbox.start(connection, row.id, turn, alone=alone)
        return turn

    async def run(self, held: Lease, row: Row, *, alone: bool = False, begun: UUID | None = None) -> bool:
        turn = begun or await self.database.write(lambda connection: self.begin(connection, held, row, alone))
        words = Envelope.from_json(row.envelope).text
        async with self.changed:
            self.ran.append(words)
            if alone:
                self.alone.append(words)
            self.changed.notify_all()
        if self.doing is not None:
            await self.doing(row)

        def commit(connection: Connection) -> bool:
            journal.append(connection, held.principal, [Event("checkpoint.committed", {})], under=held, turn=turn)
            inbox.finish(connection, [row.id], "done")
            inbox_counts.drained(connection, held.principal)
            return principal.release(connection, held)

        return await self.database.write(commit)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.ran) >= count)


@dataclass
class Here:
    """A runner of this process."""

    life: Life
    runner: Runner
    turns: Turns


@pytest.fixture
def lives(tmp_path: Path) -> Path:
    return tmp_path / "lives"


@pytest.fixture
def make_runner(database: Database, lives: Path) -> Callable[..., Here]:
    def make(doing: Doing | None = None) -> Here:
        life = Life(lives, "runner", "here")
        turns: Any = Turns(database, doing)
        return Here(life, Runner(life.id, database, lives, turns, lambda owner, news: None), turns)

    return make


def say(connection: Connection, owner: UUID, words: str) -> UUID:
    identifier = uuid4()
    seq, _ = inbox_counts.received(connection, owner)
    envelope = Envelope("local", "", identifier.hex, Claim("local", "", "o"), "c", "", words, reply={"to": words})
    inbox.insert(
        connection, status="pending", id=identifier, dedupe_key=envelope.dedupe_key, principal=owner, seq=seq,
        kind="message", actor=owner, channel="local", account="", conversation="c", thread="",
        envelope=envelope.to_json(), received_at=now_us(),
    )  # fmt: skip
    return identifier


def mail(database: Database, owner: UUID, *words: str) -> list[UUID]:
    return database.write_now(lambda connection: [say(connection, owner, word) for word in words])


def state(database: Database, message: UUID) -> Row:
    found = database.read_now(lambda connection: inbox.get(connection, message))
    assert found is not None
    return found


def owner_of(database: Database, owner: UUID) -> str | None:
    seen = database.read_now(lambda connection: principal.look(connection, owner))
    return seen.owner if seen else None


async def test_what_a_newer_release_recorded_is_left_to_it(
    database: Database, make_runner: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older host fails nothing and touches nothing: the message waits, and is rung for again."""
    monkeypatch.setattr(runner, "RING_AGAIN_SECONDS", 0.01)
    here, owner = make_runner(), person(database)
    rung: asyncio.Queue[UUID] = asyncio.Queue()
    here.runner.hand_over = rung.put_nowait
    (message,) = mail(database, owner, "1")
    database.write_now(lambda connection: principal.written_in(connection, owner, FORMAT + 1))
    await here.runner.serve(owner)
    assert here.turns.ran == []
    assert (state(database, message).status, owner_of(database, owner)) == ("pending", None)
    async with asyncio.timeout(5):
        assert await rung.get() == owner
    # A sweeper of this release leaves it, so that the newer one's finds it unrung.
    assert database.read_now(lambda connection: unserved.with_mail(connection, 1 << 62)) == []
    assert database.read_now(lambda connection: journal.read(connection, owner)) == []


async def test_the_inbox_is_drained_in_order_and_the_lease_given_back(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    here, owner = make_runner(), person(database)
    messages = mail(database, owner, "1", "2", "3")
    await here.runner.serve(owner)
    assert here.turns.ran == ["1", "2", "3"]
    assert [state(database, message).status for message in messages] == ["done"] * 3
    assert owner_of(database, owner) is None
    assert here.runner.held == set()
    await here.runner.serve(owner)
    assert here.turns.ran == ["1", "2", "3"]


async def test_many_bells_at_once_start_one_turn(database: Database, make_runner: Callable[..., Here]) -> None:
    """A second bell must not take the lease from the first in mid-turn."""

    async def slowly(row: Row) -> None:
        await asyncio.gather(*(here.runner.serve(owner) for _ in range(3)))

    here, owner = make_runner(slowly), person(database)
    messages = mail(database, owner, "1", "2")
    await asyncio.gather(*(here.runner.serve(owner) for _ in range(5)))
    assert here.turns.ran == ["1", "2"]
    assert [state(database, message).status for message in messages] == ["done"] * 2
    seen = database.read_now(lambda connection: principal.look(connection, owner))
    assert seen is not None
    # Once for the messages, once more at the end for the bells that rang meanwhile.
    assert seen.epoch == 2


async def test_two_runners_serve_each_message_once(database: Database, make_runner: Callable[..., Here]) -> None:
    one, two = make_runner(), make_runner()
    owners = [person(database) for _ in range(6)]
    for owner in owners:
        mail(database, owner, *(f"{owner.hex}/{n}" for n in range(3)))
    await asyncio.gather(*(here.runner.serve(owner) for owner in owners for here in (one, two)))
    # What one left to the other is served by now, or by the next bell.
    await asyncio.gather(*(one.runner.serve(owner) for owner in owners))
    for owner in owners:
        ran = [words for words in (*one.turns.ran, *two.turns.ran) if words.startswith(owner.hex)]
        assert sorted(ran) == [f"{owner.hex}/{n}" for n in range(3)]


async def test_mail_that_comes_in_the_last_moment_is_served_too(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    async def another(row: Row) -> None:
        if len(here.turns.ran) < 4:
            await database.write(lambda connection: say(connection, owner, f"{len(here.turns.ran) + 1}"))

    here, owner = make_runner(another), person(database)
    mail(database, owner, "1")
    await here.runner.serve(owner)
    assert here.turns.ran == ["1", "2", "3", "4"]
    assert owner_of(database, owner) is None


async def test_a_living_owner_is_left_alone(database: Database, make_runner: Callable[..., Here], lives: Path) -> None:
    other, here, owner = Life(lives, "runner", "there"), make_runner(), person(database)
    mail(database, owner, "1")
    lease(database, owner, other.id)
    await here.runner.serve(owner)
    assert (here.turns.ran, owner_of(database, owner)) == ([], other.id)
    other.end()
    await here.runner.serve(owner)
    assert here.turns.ran == ["1"]


def die_in_a_turn(url: str, lives: Path, owner: UUID, started: processes.Event) -> None:  # type: ignore[valid-type]
    """A runner of its own process that never comes back from its turn."""

    async def run() -> None:
        database = Database(url)

        async def never(row: Row) -> None:
            started.set()  # type: ignore[attr-defined]
            await asyncio.to_thread(time.sleep, 600)

        turns: Any = Turns(database, never)
        life = Life(lives, "runner", "there")
        await Runner(life.id, database, lives, turns, lambda owner, news: None).serve(owner)

    asyncio.run(run())


def crash(database: Database, lives: Path, owner: UUID) -> None:
    """A real runner takes the lease, starts a turn, and is killed."""
    started = processes.Event()
    runner = processes.start(die_in_a_turn, database.url, lives, owner, started)
    assert started.wait(60)
    processes.kill(runner)


async def test_a_killed_runners_turn_is_taken_over_at_once(
    database: Database, make_runner: Callable[..., Here], lives: Path
) -> None:
    owner = person(database)
    cut_off, behind = mail(database, owner, "cut off", "behind")
    await asyncio.to_thread(crash, database, lives, owner)
    running = state(database, cut_off)
    assert (running.status, running.crashes) == ("running", 0)
    here = make_runner()
    await here.runner.serve(owner)
    assert (here.turns.ran, here.turns.alone) == (["cut off", "behind"], [])
    done = state(database, cut_off)
    assert (done.status, done.crashes, done.turn) == ("done", 1, running.turn)
    assert state(database, behind).crashes == 0


@pytest.mark.slow
async def test_what_ends_its_runner_again_and_again_is_set_aside_and_told(
    database: Database, make_runner: Callable[..., Here], lives: Path
) -> None:
    owner = person(database)
    poison, behind = mail(database, owner, "poison", "behind")
    for _ in range(SUSPECT_CRASHES + POISON_CRASHES):
        assert state(database, poison).status in ("pending", "running")
        await asyncio.to_thread(crash, database, lives, owner)
    here = make_runner()
    await here.runner.serve(owner)
    assert here.turns.ran == ["behind"]
    assert (state(database, poison).status, state(database, behind).status) == ("set_aside", "done")
    (told,) = database.read_now(lambda connection: outbox.answers(connection, poison))
    assert told.text == texts.set_aside(POISON_CRASHES)
    kinds = [event.kind for event in database.read_now(lambda connection: journal.read(connection, owner))]
    assert kinds.count("turn.started") == SUSPECT_CRASHES + POISON_CRASHES + 1
    assert kinds.count("message.set_aside") == 1
    assert database.read_now(lambda connection: inbox_counts.waiting(connection, owner)) == 0


async def test_a_turn_that_raises_each_time_is_set_aside_too(
    database: Database, make_runner: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold up what is behind it for ever."""
    monkeypatch.setattr("router.runner.RETRY_SECONDS", (0.0,))

    async def raises(row: Row) -> None:
        if "poison" in row.envelope:
            raise ValueError("no")

    here, owner = make_runner(raises), person(database)
    poison, behind = mail(database, owner, "poison", "behind")
    await here.runner.serve(owner)
    assert here.turns.ran == ["poison"] * POISON_CRASHES + ["behind"]
    assert (state(database, poison).status, state(database, behind).status) == ("set_aside", "done")
    assert owner_of(database, owner) is None


async def test_what_a_poisonous_turn_had_taken_in_is_served_by_itself(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    owner, turn = person(database), uuid4()
    poison, taken = mail(database, owner, "poison", "taken in")

    def transaction(connection: Connection) -> None:
        inbox.start(connection, poison, turn, alone=True)
        inbox.mark_taken(connection, [taken], turn)
        for _ in range(POISON_CRASHES):
            inbox.count_failure(connection, poison)

    database.write_now(transaction)
    here = make_runner()
    await here.runner.serve(owner)
    assert here.turns.ran == ["taken in"]
    assert (state(database, poison).status, state(database, taken).status) == ("set_aside", "done")
    assert database.read_now(lambda connection: inbox_counts.waiting(connection, owner)) == 0


async def test_a_suspect_runs_when_nothing_else_does(database: Database, make_runner: Callable[..., Here]) -> None:
    running: set[UUID] = set()
    beside: list[tuple[str, int]] = []
    free = asyncio.Event()

    async def doing(row: Row) -> None:
        running.add(row.id)
        beside.append((Envelope.from_json(row.envelope).text, len(running)))
        if "first" in row.envelope:
            await free.wait()
        await asyncio.sleep(0)
        running.discard(row.id)

    here = make_runner(doing)
    first, suspect_owner, other = (person(database) for _ in range(3))
    mail(database, first, "first")
    (suspect,) = mail(database, suspect_owner, "suspect")
    mail(database, other, "other")

    def suspected(connection: Connection) -> None:
        inbox.start(connection, suspect, uuid4(), alone=False)
        for _ in range(SUSPECT_CRASHES):
            inbox.count_crash(connection, suspect_owner)

    database.write_now(suspected)
    serving = [asyncio.create_task(here.runner.serve(first))]
    await here.turns.until(1)
    serving.append(asyncio.create_task(here.runner.serve(suspect_owner)))
    while here.runner.gate._closed is False:
        await asyncio.sleep(0.001)
    serving.append(asyncio.create_task(here.runner.serve(other)))
    while len(here.runner.held) < 3:
        await asyncio.sleep(0.001)
    assert here.turns.ran == ["first"]
    free.set()
    await asyncio.gather(*serving)
    assert (here.turns.alone, dict(beside)["suspect"], dict(beside)["other"]) == (["suspect"], 1, 1)


async def test_a_gate_that_was_waited_at_in_vain_opens_again() -> None:
    gate = AloneGate()
    async with gate.enter(alone=False):
        waiting = asyncio.create_task(gate.enter(alone=True).__aenter__())
        while not gate._closed:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5), gate.enter(alone=False):
            pass
    async with asyncio.timeout(5), gate.enter(alone=True):
        pass


async def test_what_was_said_before_stop_is_not_started(database: Database, make_runner: Callable[..., Here]) -> None:
    here, owner = make_runner(), person(database)
    before = mail(database, owner, "1", "2")
    database.write_now(lambda connection: inbox_counts.stop(connection, owner))
    mail(database, owner, "after")
    await here.runner.serve(owner)
    assert here.turns.ran == ["after"]
    for message in before:
        (told,) = database.read_now(lambda connection, m=message: outbox.answers(connection, m))
        assert told.text == texts.STOPPED_BEFORE
    assert database.read_now(lambda connection: inbox_counts.waiting(connection, owner)) == 0


async def test_a_runner_that_lost_its_lease_stops_and_changes_nothing(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    async def stolen(row: Row) -> None:
        await asyncio.to_thread(lease, database, owner, "another")

    here, owner = make_runner(stolen), person(database)
    (message,) = mail(database, owner, "1")
    await here.runner.serve(owner)
    assert (state(database, message).status, owner_of(database, owner)) == ("running", "another")
    assert here.runner.held == set()


async def test_a_runner_that_is_stopped_gives_its_lease_back_and_no_crash_is_counted(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    async def long(row: Row) -> None:
        await asyncio.Event().wait()

    here, next_one, owner = make_runner(long), make_runner(), person(database)
    (message,) = mail(database, owner, "1")
    serving = asyncio.create_task(here.runner.serve(owner))
    await here.turns.until(1)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (owner_of(database, owner), here.runner.held) == (None, set())
    await next_one.runner.serve(owner)
    assert (state(database, message).status, state(database, message).crashes) == ("done", 0)


async def test_a_database_that_goes_and_comes_costs_no_message(
    database: Database, make_runner: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.runner.RETRY_SECONDS", (0.0, 0.0, 0.0))
    failures = iter([True, True, False])

    async def away(row: Row) -> None:
        if next(failures, False):
            raise DatabaseUnavailable("away")

    here, owner = make_runner(away), person(database)
    (message,) = mail(database, owner, "1")
    await here.runner.serve(owner)
    assert here.turns.ran == ["1"] * 3
    found = state(database, message)
    assert (found.status, found.crashes, found.crashes_alone) == ("done", 0, 0)


async def test_whoever_leaves_ends_the_turn_in_hand_and_hands_the_rest_over(
    database: Database, make_runner: Callable[..., Here]
) -> None:
    owner = person(database)
    mail(database, owner, "first", "second")

    async def leave(_: Row) -> None:
        leaver.runner.leaving = True

    leaver, other = make_runner(leave), make_runner()
    rung: list[UUID] = []
    leaver.runner.hand_over = rung.append
    await leaver.runner.serve(owner)
    assert (leaver.turns.ran, rung) == (["first"], [owner])
    await other.runner.serve(owner)
    assert other.turns.ran == ["second"], "at once, while the one who leaves still lives"

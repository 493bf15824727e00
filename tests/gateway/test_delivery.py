"""Delivery: in order, once, and what went wrong is known for what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text

from gateway import delivery as delivery_module
from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain
from gateway.delivery import Delivery
from tests import processes
from tests.workspace_store.people import person
from workspace_store import journal, outbox
from workspace_store.database import Database, DatabaseUnavailable, now_us
from workspace_store.liveness import Life
from workspace_store.outbox import Address, Reply


@dataclass
class Scripted:
    """A channel that answers as it is told, and remembers what it was given."""

    name: str = "mail"
    outcomes: list[Outcome | Exception] = field(default_factory=list)
    given: list[Reply] = field(default_factory=list)
    gate: asyncio.Event | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def send(self, reply: Reply) -> Outcome:
        async with self.changed:
            self.given.append(reply)
            self.changed.notify_all()
        if self.gate is not None:
            await self.gate.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else Sent(f"id of {reply.content['text']}")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def words(self) -> list[str]:
        return [reply.content["text"] for reply in self.given]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.given) >= count)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(delivery_module, "BACKOFF_SECONDS", 0.0)


@pytest.fixture
def lives(tmp_path: Path) -> Path:
    return tmp_path / "lives"


@pytest.fixture
def owner(database: Database) -> UUID:
    return person(database)


@pytest.fixture
async def deliver(database: Database, lives: Path) -> Any:
    running: list[asyncio.Task[None]] = []

    def start(channel: Scripted, over: Any = None) -> Delivery:
        life = Life(lives, "gateway", "here")
        delivery = Delivery(life.id, over or database, lives, {channel.name: channel})
        running.append(asyncio.create_task(delivery.run()))
        return delivery

    yield start
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def queue(database: Database, owner: UUID, *words: str, conversation: str = "c") -> list[UUID]:
    def one(connection: Any, word: str) -> UUID:
        return outbox.queue(
            connection, key=f"{conversation}:{word}", principal=owner, turn=None, inbox=None,
            to=Address("mail", "", conversation, ""), content={"text": word},
        )  # fmt: skip

    return database.write_now(lambda connection: [one(connection, word) for word in words])


def row(database: Database, reply: UUID) -> Any:
    query = outbox.outbox.select().where(outbox.outbox.c.id == reply)
    return database.read_now(lambda connection: connection.execute(query).one())


async def settled(database: Database, *replies: UUID) -> list[str]:
    """The statuses of replies, once nothing of them is open."""
    async with asyncio.timeout(20):
        while True:
            found = [row(database, reply).status for reply in replies]
            if not set(found) & {"queued", "sending"}:
                return found
            await asyncio.sleep(0.005)


def kinds(database: Database, owner: UUID) -> list[str]:
    return [event.kind for event in database.read_now(lambda connection: journal.read(connection, owner))]


async def test_replies_go_out_in_order_once_and_are_recorded(database: Database, owner: UUID, deliver: Any) -> None:
    channel = Scripted()
    replies = queue(database, owner, *"12345")
    deliver(channel)
    assert await settled(database, *replies) == ["sent"] * 5
    assert channel.words == list("12345")
    assert row(database, replies[0]).external_id == "id of 1"
    assert kinds(database, owner) == ["reply.delivered"] * 5


async def test_one_slow_conversation_does_not_hold_up_another(database: Database, owner: UUID, deliver: Any) -> None:
    channel = Scripted(gate=asyncio.Event())
    slow = queue(database, owner, "1", "2", conversation="slow")
    deliver(channel)
    await channel.until(1)
    queue(database, owner, "x", conversation="other")
    await channel.until(2)
    assert channel.words == ["1", "x"]
    assert channel.gate is not None
    channel.gate.set()
    assert await settled(database, *slow) == ["sent"] * 2
    assert channel.words == ["1", "x", "2"]


async def test_a_bell_starts_a_round_at_once(
    database: Database, owner: UUID, deliver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "POLL_SECONDS", 3600.0)
    channel = Scripted()
    delivery = deliver(channel)
    while delivery.bell.is_set() or not delivery.bell._waiters:
        await asyncio.sleep(0.001)
    queue(database, owner, "1", "2")
    delivery.bell.set()
    await channel.until(2)


async def test_what_did_not_go_out_is_tried_again_before_what_follows(
    database: Database, owner: UUID, deliver: Any
) -> None:
    channel = Scripted(outcomes=[Retry("busy"), Retry("busy", 0.01)])
    replies = queue(database, owner, "1", "2")
    deliver(channel)
    assert await settled(database, *replies) == ["sent"] * 2
    assert channel.words == ["1", "1", "1", "2"]
    assert [reply.was_sending for reply in channel.given] == [False] * 4
    assert row(database, replies[0]).attempts == 2


async def test_retry_after_is_waited_for_by_the_databases_clock(database: Database, owner: UUID, deliver: Any) -> None:
    channel = Scripted(outcomes=[Retry("slow down", 3600)])
    (first, second) = queue(database, owner, "1", "2")
    deliver(channel)
    await channel.until(1)
    async with asyncio.timeout(20):
        while row(database, first).status != "queued":
            await asyncio.sleep(0.005)
    found = row(database, first)
    assert found.next_at - found.queued_at > 3_500_000_000
    assert (found.error, row(database, second).status) == ("slow down", "queued")


async def test_what_is_refused_is_a_dead_letter_and_what_follows_goes_out(
    database: Database, owner: UUID, deliver: Any
) -> None:
    channel = Scripted(outcomes=[Refused("550 no such user")])
    replies = queue(database, owner, "1", "2")
    deliver(channel)
    assert await settled(database, *replies) == ["dead", "sent"]
    assert row(database, replies[0]).error == "550 no such user"
    assert kinds(database, owner) == ["reply.failed", "reply.delivered"]


async def test_what_fails_each_time_is_given_up(
    database: Database, owner: UUID, deliver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "MAX_ATTEMPTS", 3)
    channel = Scripted(outcomes=[Retry("busy")] * 3)
    replies = queue(database, owner, "1", "2")
    deliver(channel)
    assert await settled(database, *replies) == ["dead", "sent"]
    assert channel.words == ["1", "1", "1", "2"]


@pytest.mark.parametrize("lost", [Uncertain("timeout"), RuntimeError("a bug after the send")])
async def test_what_may_have_gone_out_is_known_to_the_next_attempt(
    database: Database, owner: UUID, deliver: Any, lost: Outcome | Exception
) -> None:
    channel = Scripted(outcomes=[lost, Sent("x", repeated=True)])
    (reply,) = queue(database, owner, "1")
    deliver(channel)
    assert await settled(database, reply) == ["sent"]
    assert [given.was_sending for given in channel.given] == [False, True]
    assert row(database, reply).possibly_repeated
    (event,) = database.read_now(lambda connection: journal.read(connection, owner))
    assert event.body is not None
    assert event.body["possibly_repeated"] is True


async def test_an_uncertain_reply_stays_uncertain_over_a_retry(database: Database, owner: UUID, deliver: Any) -> None:
    """The retry says only that this attempt did not go out; the one before may have."""
    channel = Scripted(outcomes=[Uncertain("timeout"), Retry("busy")])
    (reply,) = queue(database, owner, "1")
    deliver(channel)
    assert await settled(database, reply) == ["sent"]
    assert [given.was_sending for given in channel.given] == [False, True, True]


def die_while_sending(url: str, lives: Path, given: processes.Event) -> None:  # type: ignore[valid-type]
    """A gateway that is killed between sending and recording."""

    async def run() -> None:
        database, channel = Database(url), Scripted(gate=asyncio.Event())
        life = Life(lives, "gateway", "there")
        running = asyncio.create_task(Delivery(life.id, database, lives, {"mail": channel}).run())
        await channel.until(1)
        given.set()  # type: ignore[attr-defined]
        await running

    asyncio.run(run())


@pytest.mark.slow
async def test_a_gateway_killed_while_it_sends_leaves_its_reply_to_another_as_uncertain(
    database: Database, owner: UUID, deliver: Any, lives: Path
) -> None:
    replies = queue(database, owner, "1", "2")
    given = processes.Event()
    gateway = processes.start(die_while_sending, database.url, lives, given)
    assert await asyncio.to_thread(given.wait, 60)
    channel = Scripted()
    deliver(channel)
    # While it lives, its reply is its own.
    behind = queue(database, owner, "x", conversation="other")
    assert await settled(database, *behind) == ["sent"]
    assert channel.words == ["x"]
    await asyncio.to_thread(processes.kill, gateway)
    assert await settled(database, *replies) == ["sent"] * 2
    assert channel.words == ["x", "1", "2"]
    assert [reply.was_sending for reply in channel.given] == [False, True, False]


class Flaky:
    """A database whose next writes fail."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.failures: list[Exception] = []

    async def read(self, query: Callable[..., Any]) -> Any:
        return await self._database.read(query)

    async def write(self, transaction: Callable[..., Any]) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return await self._database.write(transaction)


async def test_a_delivery_is_recorded_when_the_database_is_back_and_not_sent_again(
    database: Database, owner: UUID, deliver: Any
) -> None:
    flaky, channel = Flaky(database), Scripted(gate=asyncio.Event())
    replies = queue(database, owner, "1", "2")
    deliver(channel, flaky)
    await channel.until(1)
    flaky.failures = [DatabaseUnavailable("away")] * 3 + [RuntimeError("strange")]
    assert channel.gate is not None
    channel.gate.set()
    assert await settled(database, *replies) == ["sent"] * 2
    assert (channel.words, flaky.failures) == (["1", "2"], [])


async def test_delivery_goes_on_after_a_round_that_failed(database: Database, owner: UUID, deliver: Any) -> None:
    flaky, channel = Flaky(database), Scripted()
    flaky.failures = [DatabaseUnavailable("away"), RuntimeError("strange")]
    replies = queue(database, owner, "1")
    deliver(channel, flaky)
    assert await settled(database, *replies) == ["sent"]


async def test_draining_leaves_what_takes_too_long_to_the_next_gateway(
    database: Database, owner: UUID, deliver: Any
) -> None:
    channel = Scripted(gate=asyncio.Event())
    (reply,) = queue(database, owner, "1")
    delivery = deliver(channel)
    await channel.until(1)
    await delivery.drain(0.01)
    assert row(database, reply).status == "sending"


async def test_a_long_send_keeps_its_claim(
    database: Database, owner: UUID, deliver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "RENEW_SECONDS", 0.0)
    channel = Scripted(gate=asyncio.Event())
    (reply,) = queue(database, owner, "1")
    deliver(channel)
    await channel.until(1)
    database.write_now(lambda c: c.execute(text("UPDATE outbox SET claim_until = 0")))
    async with asyncio.timeout(20):
        while row(database, reply).claim_until == 0:
            await asyncio.sleep(0.005)
    assert database.write_now(lambda c: outbox.claim(c, ["mail"], "another", [])) == []


HOUR_US = 3_600_000_000


class Hours:
    """The database's clock, which the test sets forward to when something is due next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0
        for module in (delivery_module, outbox):
            monkeypatch.setattr(module, "database_now_us", lambda _: now_us() + self.ahead)

    def to_the_next_try(self, database: Database) -> None:
        query = select(func.min(outbox.outbox.c.next_at)).where(outbox.outbox.c.next_at > now_us() + self.ahead)
        due = database.read_now(lambda connection: connection.execute(query).scalar())
        if due is not None:
            self.ahead = due - now_us() + 1


@dataclass
class Away(Scripted):
    """A platform that is away until it comes back; who was unsure is unsure of the first message only."""

    is_back: bool = False
    outcome: Outcome = field(default_factory=lambda: Retry("connection refused", outage=True))
    arrived: list[str] = field(default_factory=list)

    async def send(self, reply: Reply) -> Outcome:
        self.given.append(reply)
        if not self.is_back:
            return self.outcome
        self.arrived.append(f"{reply.conversation} {reply.content['text']}")
        return Sent("id")


@pytest.mark.parametrize("outcome", [Retry("connection refused", outage=True), Uncertain("HTTP 503", outage=True)])
@pytest.mark.slow
async def test_a_platform_that_is_away_for_an_hour_loses_nothing_and_keeps_the_order(
    database: Database, owner: UUID, deliver: Any, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    monkeypatch.setattr(delivery_module, "BACKOFF_SECONDS", 1.0)
    clock, channel = Hours(monkeypatch), Away(outcome=outcome)
    replies = [*queue(database, owner, "1", "2", "3"), *queue(database, owner, "1", "2", conversation="other")]
    deliver(channel)
    async with asyncio.timeout(60):
        while clock.ahead < HOUR_US:
            clock.to_the_next_try(database)
            await asyncio.sleep(0.002)
    assert {row(database, reply).status for reply in replies} <= {"queued", "sending"}
    assert len(channel.given) < 2 * 120, "it is not hammered"
    channel.is_back = True
    back_at, clock.ahead = clock.ahead, clock.ahead + 61_000_000
    assert await settled(database, *replies) == ["sent"] * 5
    assert clock.ahead - back_at <= 61_000_000, "within a minute of its return"
    assert [one for one in channel.arrived if one.startswith("c ")] == ["c 1", "c 2", "c 3"]
    assert [one for one in channel.arrived if one.startswith("other ")] == ["other 1", "other 2"]


@pytest.mark.slow
async def test_what_nobody_could_be_told_for_days_is_given_up(
    database: Database, owner: UUID, deliver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "OUTAGE_PATIENCE_US", HOUR_US)
    monkeypatch.setattr(delivery_module, "BACKOFF_SECONDS", 1.0)
    clock, channel = Hours(monkeypatch), Away()
    (reply,) = queue(database, owner, "1")
    deliver(channel)
    async with asyncio.timeout(60):
        while row(database, reply).status != "dead":
            clock.to_the_next_try(database)
            await asyncio.sleep(0.002)
    assert clock.ahead > HOUR_US
    assert row(database, reply).error == "connection refused"

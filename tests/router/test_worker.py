"""The worker on a real Valkey: no job lost or stuck, visible to RQ's own tools, and Redis may go and come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from redis import Redis
from rq import Queue, Worker
from rq.command import send_command, send_stop_job_command
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry

from router import worker as worker_module
from router.bells import enqueue, queue_name
from router.worker import TurnWorker
from tests.servers import Valkey

HOST = "here"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worker does each few seconds is done at once."""
    monkeypatch.setattr(worker_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(worker_module, "RETRY_SECONDS", 0.05)


@dataclass
class Turns:
    """Serves principals: each stays until it is let go."""

    served: list[UUID] = field(default_factory=list)
    stopped: list[UUID] = field(default_factory=list)
    cut_off: list[UUID] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, principal: UUID) -> None:
        async with self.changed:
            self.served.append(principal)
            self.changed.notify_all()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cut_off.append(principal)
            raise

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.served) >= count)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def working(
    valkey: Valkey,
    turns: Turns,
    concurrency: int = 4,
    serve: Callable[[UUID], Awaitable[None]] | None = None,
    host: str = HOST,
) -> AsyncIterator[TurnWorker]:
    worker = TurnWorker(
        [queue_name(host), queue_name()], valkey.connect, serve or turns.serve, turns.stopped.append, concurrency
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        turns.gate.set()
        worker.close()
        await running
        await worker.drain(5)


def keys(valkey: Valkey) -> list[str]:
    """What is left of jobs, but for when RQ's maintenance first saw one, which it keeps for a day."""
    names = [name.decode() for name in valkey.connect().keys("*") if b":first_seen:" not in name]
    return [name for name in names if ":job:" in name or "intermediate" in name or name.startswith("rq:queue:")]


async def nothing_left(valkey: Valkey) -> None:
    try:
        await until(lambda: keys(valkey) == [])
    except TimeoutError:
        assert keys(valkey) == []


async def test_jobs_of_this_host_and_of_all_are_served_and_leave_nothing_behind(valkey: Valkey) -> None:
    turns, wanted = Turns(), [uuid4() for _ in range(10)]
    turns.gate.set()
    async with working(valkey, turns):
        for number, principal in enumerate(wanted):
            enqueue(valkey.connect(), principal, HOST if number % 2 else None)
        await turns.until(10)
        await nothing_left(valkey)
    assert sorted(turns.served) == sorted(wanted)


async def test_a_job_waits_in_its_queue_until_a_slot_is_free(valkey: Valkey) -> None:
    """In the intermediate queue RQ's maintenance would call it failed after a minute."""
    turns, connection = Turns(), valkey.connect()
    shared = Queue(queue_name(), connection=connection)
    async with working(valkey, turns, concurrency=2) as worker:
        for _ in range(6):
            enqueue(connection, uuid4())
        await turns.until(2)
        await until(lambda: len(shared) == 4)
        await until(lambda: shared.intermediate_queue.get_job_ids() == [])
        assert worker.serve_here(uuid4()) is False
        assert len(turns.served) == 2
        turns.gate.set()
        await turns.until(6)


@pytest.mark.parametrize("concurrency", [1, 2, 64])
async def test_what_the_sweeper_finds_is_served_while_readers_only_wait(valkey: Valkey, concurrency: int) -> None:
    turns, found = Turns(), uuid4()
    async with working(valkey, turns, concurrency=concurrency) as worker:
        await until(lambda: len([c for c in valkey.connect().client_list() if c["cmd"] == "blmove"]) == 2)
        assert worker.serve_here(found) is True
        await turns.until(1)
    assert turns.served == [found]


async def test_valkey_killed_and_started_again_costs_no_turn(valkey: Valkey) -> None:
    turns, long, later = Turns(), uuid4(), uuid4()
    async with working(valkey, turns):
        enqueue(valkey.connect(), long)
        await turns.until(1)
        valkey.kill()
        await asyncio.sleep(0)
        valkey.start()
        enqueue(valkey.connect(), later)
        await turns.until(2)
        assert (turns.served, turns.cut_off) == ([long, later], [])
        turns.gate.set()
        await nothing_left(valkey)


async def test_a_worker_that_starts_before_valkey_serves_when_it_is_there(valkey: Valkey) -> None:
    turns, wanted = Turns(), uuid4()
    valkey.kill()
    async with working(valkey, turns) as worker:
        assert worker.serve_here(wanted) is True
        await turns.until(1)
        valkey.start()
        enqueue(valkey.connect(), uuid4())
        await turns.until(2)


async def test_rq_sees_the_worker_and_its_long_jobs(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()
    shared = Queue(queue_name(), connection=connection)
    async with working(valkey, turns) as worker:
        enqueue(connection, uuid4())
        await until(lambda: StartedJobRegistry(queue=shared).count == 1)
        (job_id,) = StartedJobRegistry(queue=shared).get_job_ids()
        assert Job.fetch(job_id, connection=connection).get_status() == "started"
        assert [known.name for known in Worker.all(connection=connection)] == [worker.name]
        turns.gate.set()
        await until(lambda: StartedJobRegistry(queue=shared).count == 0)
        await nothing_left(valkey)
        assert FailedJobRegistry(queue=shared).count == 0
    assert Worker.all(connection=connection) == []


async def stop_reaches(valkey: Valkey, turns: Turns, principal: UUID) -> None:
    connection = valkey.connect()
    registry = StartedJobRegistry(queue=Queue(queue_name(), connection=connection))
    await until(lambda: registry.count >= 1)

    def stop() -> bool:
        # Until the worker listens again there is nobody to hear it.
        for job_id in registry.get_job_ids():
            send_stop_job_command(connection, job_id)
        return principal in turns.stopped

    await until(stop)


async def test_rqs_own_stop_command_stops_the_principals_turn(valkey: Valkey) -> None:
    turns, principal = Turns(), uuid4()
    async with working(valkey, turns):
        enqueue(valkey.connect(), principal)
        await stop_reaches(valkey, turns, principal)


async def test_stop_commands_are_heard_again_after_valkey_was_killed(valkey: Valkey) -> None:
    turns, first, second = Turns(), uuid4(), uuid4()
    async with working(valkey, turns):
        enqueue(valkey.connect(), first)
        await stop_reaches(valkey, turns, first)
        valkey.kill()
        valkey.start()
        enqueue(valkey.connect(), second)
        await turns.until(2)
        await stop_reaches(valkey, turns, second)


async def test_a_command_that_fails_or_makes_no_sense_does_not_end_listening(valkey: Valkey) -> None:
    turns, principal = Turns(), uuid4()
    tried: list[UUID] = []

    def stop(owner: UUID) -> None:
        tried.append(owner)
        if len(tried) == 1:
            raise RuntimeError("the database is away")
        turns.stopped.append(owner)

    worker = TurnWorker([queue_name()], valkey.connect, turns.serve, stop, 4)
    running = asyncio.create_task(worker.run())
    connection = valkey.connect()
    await until(lambda: connection.pubsub_numsub(worker.pubsub_channel_name)[0][1] == 1)
    connection.publish(worker.pubsub_channel_name, "not json")
    send_command(connection, worker.name, "no-such-command")
    enqueue(connection, principal)
    await stop_reaches(valkey, turns, principal)
    assert len(tried) >= 2
    turns.gate.set()
    worker.close()
    await running
    await worker.drain(5)


async def test_a_worker_that_redis_has_forgotten_makes_itself_known_again(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()
    async with working(valkey, turns) as worker:
        await until(lambda: Worker.all(connection=connection))
        connection.flushall()
        await until(lambda: [known.name for known in Worker.all(connection=connection)] == [worker.name])
        enqueue(connection, uuid4())
        await turns.until(1)


async def test_jobs_that_are_not_ours_are_removed_and_the_next_one_served(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()
    turns.gate.set()
    shared = Queue(queue_name(), connection=connection)
    shared.enqueue("os.getcwd")
    shared.enqueue("router.worker.serve", "not a uuid")
    damaged = shared.enqueue("router.worker.serve", uuid4().hex)
    connection.hset(damaged.key, mapping={"data": b"garbage", "created_at": b"never", "enqueued_at": b"never"})
    shared.enqueue("router.worker.serve", uuid4().hex).delete(remove_from_queue=False)
    async with working(valkey, turns, concurrency=1):
        for _ in range(4):
            enqueue(connection, uuid4())
        await turns.until(4)
        await until(lambda: [key for key in keys(valkey) if ":job:" in key] == [])


async def test_serving_that_fails_costs_its_slot_nothing(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()

    async def fails(principal: UUID) -> None:
        turns.gate.set()
        await turns.serve(principal)
        raise RuntimeError("no")

    async with working(valkey, turns, concurrency=1, serve=fails):
        for _ in range(5):
            enqueue(connection, uuid4())
        await turns.until(5)


async def test_closing_takes_no_more_jobs_and_leaves_them_for_others(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()
    async with working(valkey, turns) as worker:
        await until(lambda: len([c for c in connection.client_list() if c["cmd"] == "blmove"]) == 2)
        worker.close()
        await until(lambda: [c for c in connection.client_list() if c["cmd"] == "blmove"] == [])
        enqueue(connection, uuid4())
        assert worker.serve_here(uuid4()) is False
    assert (turns.served, len(Queue(queue_name(), connection=connection))) == ([], 1)


async def test_draining_waits_for_turns_and_then_cuts_them_off(valkey: Valkey) -> None:
    turns, connection = Turns(), valkey.connect()
    worker = TurnWorker([queue_name()], valkey.connect, turns.serve, turns.stopped.append, 4)
    running = asyncio.create_task(worker.run())
    principal = uuid4()
    enqueue(connection, principal)
    await turns.until(1)
    worker.close()
    await running
    await worker.drain(0.01)
    assert turns.cut_off == [principal]
    assert keys(valkey) == []


async def test_draining_lets_a_turn_end_by_itself(valkey: Valkey) -> None:
    turns = Turns()
    async with working(valkey, turns):
        enqueue(valkey.connect(), uuid4())
        await turns.until(1)
    assert turns.cut_off == []
    assert keys(valkey) == []


@pytest.mark.slow
async def test_a_reader_to_whom_nothing_comes_stays_connected(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "DEQUEUE_SECONDS", 1)
    monkeypatch.setattr(valkey, "connect", lambda: Redis(unix_socket_path=str(valkey.socket), socket_timeout=1))
    admin = valkey.connect()

    def readers() -> dict[str, str]:
        """Reader connections: their ids and how often each has asked."""
        return {one["id"]: one["tot-cmds"] for one in admin.client_list() if one["name"].startswith("reader-")}

    async with working(valkey, Turns()):
        await until(lambda: len(readers()) == 2)
        first = await asyncio.to_thread(readers)
        await until(lambda: all(int(count) >= int(first.get(one, 0)) + 2 for one, count in readers().items()))
        assert readers().keys() == first.keys()


async def test_bells_of_a_host_that_is_full_ring_for_all(valkey: Valkey) -> None:
    """Whoever is rung for where their sandbox is warm does not wait there for room that others have."""
    here, elsewhere = Turns(), Turns()
    async with working(valkey, here, concurrency=1):
        for _ in range(2):
            enqueue(valkey.connect(), uuid4(), HOST)
        # One of its readers waits with a slot of its own.
        await here.until(2)
        async with working(valkey, elsewhere, host="other"):
            wanted = uuid4()
            enqueue(valkey.connect(), wanted, HOST)
            await elsewhere.until(1)
        here.gate.set()
    assert elsewhere.served == [wanted]

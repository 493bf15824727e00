"""Bells and news: sent from a thread of their own, lost without harm when Redis is away."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import redis.asyncio
from rq import Queue
from rq.job import Job

from router import bells
from router.bells import Ringer, news, queue_name
from tests.servers import Valkey


@pytest.fixture
def ringer(valkey: Valkey) -> Any:
    found = Ringer(valkey.connect)
    yield found
    found.close()


async def jobs(valkey: Valkey, name: str, count: int) -> list[str]:
    queue = Queue(name, connection=valkey.connect())
    async with asyncio.timeout(20):
        while len(queue.job_ids) < count:
            await asyncio.sleep(0.005)
    return [str(Job.fetch(job, connection=valkey.connect()).args[0]) for job in queue.job_ids]


async def test_a_bell_is_a_job_that_names_the_principal(valkey: Valkey, ringer: Ringer) -> None:
    everywhere, here = uuid4(), uuid4()
    ringer.ring(everywhere)
    ringer.ring(here, "host-a")
    assert await jobs(valkey, queue_name(), 1) == [everywhere.hex]
    assert await jobs(valkey, queue_name("host-a"), 1) == [here.hex]


async def test_the_same_principal_can_be_rung_again_while_the_first_job_waits(valkey: Valkey, ringer: Ringer) -> None:
    owner = uuid4()
    for _ in range(3):
        ringer.ring(owner)
    assert await jobs(valkey, queue_name(), 3) == [owner.hex] * 3


async def test_news_reaches_who_listens(valkey: Valkey, ringer: Ringer) -> None:
    owner = uuid4()
    heard: list[tuple[UUID, dict[str, Any]]] = []

    async def listen() -> None:
        async for item in news(lambda: redis.asyncio.Redis(unix_socket_path=str(valkey.socket))):
            heard.append(item)
            if len(heard) == 2:
                return

    listening = asyncio.create_task(listen())
    connection = valkey.connect()
    async with asyncio.timeout(20):
        while connection.pubsub_numpat() == 0:
            await asyncio.sleep(0.005)
        ringer.publish(owner, {"bell": "outbox"})
        ringer.publish(owner, {"output": "größer\n", "turn": "t"})
        await listening
    assert heard == [(owner, {"bell": "outbox"}), (owner, {"output": "größer\n", "turn": "t"})]


@pytest.mark.slow
async def test_a_lost_connection_is_told_to_who_listens(valkey: Valkey) -> None:
    async def listen() -> None:
        async for _ in news(lambda: redis.asyncio.Redis(unix_socket_path=str(valkey.socket))):
            pass

    listening = asyncio.create_task(listen())
    connection = valkey.connect()
    async with asyncio.timeout(20):
        while connection.pubsub_numpat() == 0:
            await asyncio.sleep(0.005)
        valkey.kill()
        with pytest.raises((redis.RedisError, OSError)):
            await listening


async def test_ringing_goes_on_when_redis_is_back(valkey: Valkey, ringer: Ringer) -> None:
    valkey.kill()
    for _ in range(3):
        ringer.ring(uuid4())
    valkey.start()
    later = uuid4()
    async with asyncio.timeout(20):
        while later.hex not in await jobs(valkey, queue_name(), 0):
            ringer.ring(later)
            await asyncio.sleep(0.01)


async def test_nobody_waits_for_redis(tmp_path: Path) -> None:
    """Nothing listens there; ringing returns, and closing does not hang."""
    ringer = Ringer(lambda: redis.Redis(unix_socket_path=str(tmp_path / "nobody")))
    for _ in range(bells.BACKLOG + 10):
        ringer.ring(uuid4())
    ringer.close()


async def test_what_cannot_be_sent_does_not_end_the_ringing(valkey: Valkey) -> None:
    tried: list[int] = []

    def connect() -> redis.Redis:
        tried.append(1)
        if len(tried) == 1:
            raise ValueError("a bad address, corrected since")
        return valkey.connect()

    ringer, owner = Ringer(connect), uuid4()
    ringer.ring(uuid4())
    ringer.ring(owner)
    assert await jobs(valkey, queue_name(), 1) == [owner.hex]
    ringer.close()


async def test_what_fails_takes_nothing_along_of_what_is_told_with_it(valkey: Valkey) -> None:
    begun, all_there = threading.Event(), threading.Event()

    def connect() -> redis.Redis:
        begun.set()
        all_there.wait(20)
        return valkey.connect()

    def fail(connection: redis.Redis) -> None:
        raise ValueError("whatever it is")

    ringer, first, last = Ringer(connect), uuid4(), uuid4()
    ringer.ring(first)
    await asyncio.to_thread(begun.wait, 20)
    ringer.send(fail)
    ringer.send(fail)
    ringer.ring(last)
    all_there.set()
    assert sorted(await jobs(valkey, queue_name(), 2)) == sorted([first.hex, last.hex])
    ringer.close()


@pytest.mark.parametrize(
    "job", ["", "-", "0" * 32, str(UUID(int=1)), f"{'0' * 32}-", f"{'x' * 32}-{'0' * 16}", f"{'0' * 31}-{'0' * 16}"]
)
def test_the_id_of_another_ones_job_names_nobody(job: str) -> None:
    assert bells.rung_for(job) is None

"""Bells: wake-up jobs that say only "there is mail", and best-effort news of outbox and progress.

The database says what. Redis holds nothing that cannot be rebuilt: a lost bell is rung again by the sweeper, a lost
piece of news is found by polling, and nobody waits for Redis: everything is sent from a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import redis
import redis.asyncio
import structlog
from redis.client import Pipeline
from rq import Queue

log = structlog.get_logger()

SHARED_QUEUE = "nightporter"
NEWS_PREFIX = "nightporter:news:"
JOB = "router.worker.serve"
BACKLOG = 10_000
RING_SECONDS = 0.002
TOLD_AT_ONCE = 64

Told = Callable[[redis.Redis, Pipeline], object]
"""Something to do with Redis: at once, or with whatever else waits, in the pipeline."""


def queue_name(host: str | None = None) -> str:
    """The queue of one host, or the shared one."""
    return f"{SHARED_QUEUE}.{host}" if host else SHARED_QUEUE


def enqueue(connection: redis.Redis, principal: UUID, host: str | None = None) -> None:
    """Ring for one principal. Raises RedisError."""
    with connection.pipeline(transaction=False) as pipeline:
        _enqueue(connection, pipeline, principal, host)
        pipeline.execute()


def _enqueue(connection: redis.Redis, pipeline: Pipeline, principal: UUID, host: str | None) -> None:
    # A fresh job id each time: ``unique`` would block ringing again while the old job's hash lives.
    Queue(queue_name(host), connection=connection).enqueue(
        JOB, principal.hex, result_ttl=0, failure_ttl=60, job_timeout=-1, pipeline=pipeline,
        job_id=f"{principal.hex}-{secrets.token_hex(8)}",
    )  # fmt: skip


def rung_for(job: str) -> UUID | None:
    """Whom a wake-up job is for, as its id tells, so that nobody has to read the rest of it; None: its words do."""
    principal, dash, fresh = job.partition("-")
    if not dash or len(principal) != 32 or len(fresh) != 16:
        return None
    try:
        return UUID(principal)
    except ValueError:
        return None


async def let_ring() -> None:
    """Leave the interpreter to the ringer's thread for a moment.

    Somebody waits for what was just rung; nobody yet for what this loop would go on with.
    """
    await asyncio.sleep(RING_SECONDS)


class Ringer:
    """Rings and publishes from one thread; what Redis does not take now is dropped, for the sweeper to ring again."""

    def __init__(self, connect: Callable[[], redis.Redis]) -> None:
        self._connect = connect
        self._waiting: queue.Queue[Told | None] = queue.Queue(BACKLOG)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ringer", daemon=True)
        self._thread.start()

    def ring(self, principal: UUID, host: str | None = None) -> None:
        self._put(partial(_enqueue, principal=principal, host=host))

    def publish(self, principal: UUID, news: dict[str, Any]) -> None:
        """News of a principal: ``{"bell": "outbox"}``, or a piece of a running command's output."""
        body = json.dumps(news, ensure_ascii=False)
        self._put(lambda _, pipeline: pipeline.publish(NEWS_PREFIX + principal.hex, body))

    def send(self, what: Callable[[redis.Redis], object]) -> None:
        """Do this with Redis, from the ringer's thread, if it can be done now."""
        self._put(lambda connection, _: what(connection))

    def _put(self, what: Told) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(what)

    def _run(self) -> None:
        connection: redis.Redis | None = None
        while (first := self._waiting.get()) is not None and not self._closed.is_set():
            try:
                connection = connection or self._connect()
                with connection.pipeline(transaction=False) as pipeline:
                    for tell in (first, *self._more()):
                        self._tell(tell, connection, pipeline)
                    pipeline.execute()
            except Exception as error:
                # Whatever it was: the thread goes on, or no bell rings any more.
                connection = None
                log.warning("bells were lost; the sweeper rings them again", reason=str(error))

    def _tell(self, tell: Told, connection: redis.Redis, pipeline: Pipeline) -> None:
        """One that fails takes nothing along of what is told with it."""
        try:
            tell(connection, pipeline)
        except Exception as error:
            log.warning("a bell was lost; the sweeper rings it again", reason=str(error))

    def _more(self) -> Iterator[Told]:
        """What has come behind it meanwhile, to be told in the same round trip."""
        for _ in range(TOLD_AT_ONCE - 1):
            try:
                tell = self._waiting.get_nowait()
            except queue.Empty:
                return
            if tell is None:
                # The end of the line, which is looked for there.
                with contextlib.suppress(queue.Full):
                    self._waiting.put_nowait(None)
                return
            yield tell

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(timeout=1)


async def news(connect: Callable[[], redis.asyncio.Redis]) -> AsyncIterator[tuple[UUID, dict[str, Any]]]:
    """News of all principals, as it comes. Raises RedisError when the connection is lost."""
    connection = connect()
    try:
        async with connection.pubsub() as subscription:
            await subscription.psubscribe(f"{NEWS_PREFIX}*")
            async for message in subscription.listen():
                if message["type"] == "pmessage":
                    name = message["channel"].decode().removeprefix(NEWS_PREFIX)
                    yield UUID(name), json.loads(message["data"])
    finally:
        await connection.aclose()

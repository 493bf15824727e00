"""``TurnWorker``: an RQ worker that runs its jobs as coroutines, many at once in one process.

A turn mostly waits for a model, and what needs isolation is in the sandbox, not in a fork. The main thread's loop runs
the turns; one reader thread a queue takes a slot *first* and then a job, so that no job waits in the intermediate
queue, where maintenance would mark it failed. Redis may go and come: readers retry, turns do not notice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis
import structlog
from redis.exceptions import RedisError
from rq import Queue
from rq.command import parse_payload
from rq.exceptions import DequeueTimeout, NoSuchJobError
from rq.executions import Execution
from rq.job import Job
from rq.utils import now
from rq.worker import BaseWorker
from rq.worker_registration import REDIS_WORKER_KEYS

from router.bells import SHARED_QUEUE, rung_for

log = structlog.get_logger()

DEQUEUE_SECONDS = 5
PATIENCE_SECONDS = 5
RETRY_SECONDS = 0.5
BEAT_SECONDS = 5
MAINTENANCE_SECONDS = 60
END_SECONDS = 1.0
# RQ's bookkeeping costs some ms of CPU a job: it is kept for jobs that last long enough to be looked at.
SHOWN_AFTER_SECONDS = 1.0


def _nothing() -> None:
    """Comes after what was submitted before."""


def _join(threads: list[threading.Thread], seconds: float) -> None:
    """Wait for threads to end, ``seconds`` for all of them: Redis may hang."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def serve(principal: str) -> None:
    """The job's name in RQ's own tools. Never called: a TurnWorker serves jobs as coroutines."""
    raise RuntimeError(f"wake-up jobs are served by `nightporter runner`, not by a plain RQ worker ({principal})")


@dataclass
class _Shown:
    """A job that RQ's own tools can see."""

    principal: UUID
    queue: Queue
    execution: Execution | None = None
    job: Job | None = None
    """With all that RQ knows of it, once it is shown."""


class TurnWorker(BaseWorker):
    """Serves wake-up jobs with ``server(principal)``; RQ's stop commands call ``stop(principal)``."""

    def __init__(
        self,
        queues: list[str],
        connect: Callable[[], redis.Redis],
        server: Callable[[UUID], Awaitable[None]],
        stop: Callable[[UUID], object],
        concurrency: int,
    ) -> None:
        # ``prepare_for_work`` would ask Redis, which need not be there yet.
        super().__init__(list(queues), connection=connect(), worker_ttl=60, prepare_for_work=False)
        self.hostname, self.pid = socket.gethostname(), os.getpid()
        self._connect = connect
        self._server = server
        self._stop = stop
        # Each reader holds one slot while it waits for a job; all slots but those can run turns.
        self._slots = threading.BoundedSemaphore(concurrency + len(queues) - 1)
        self._concurrency = concurrency
        self._bookkeeper = ThreadPoolExecutor(1, "rq-bookkeeping")
        self._shown: dict[str, _Shown] = {}
        self._ended: deque[Job] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._closing = threading.Event()
        self.closed = asyncio.Event()
        self.log = logging.getLogger("rq.worker")
        self.log.setLevel(logging.WARNING)

    def work(self, *args: Any, **kwargs: Any) -> bool:
        """RQ's entry, for callers without a loop: runs until ``close``."""
        asyncio.run(self.run())
        return True

    async def run(self) -> None:
        """Read the queues until ``close``; returns when the readers have ended, while turns may still run."""
        loop = asyncio.get_running_loop()
        readers = [threading.Thread(target=self._read, args=(queue, loop), daemon=True) for queue in self.queues]
        threads = [*readers, threading.Thread(target=self._keep_known, daemon=True)]
        for thread in threads:
            thread.start()
        await self.closed.wait()
        threading.Thread(target=self._unblock, args=(readers,), daemon=True).start()
        await asyncio.to_thread(_join, threads, END_SECONDS)

    def close(self) -> None:
        """Take no more jobs; called on the loop."""
        self._closing.set()
        self.closed.set()

    def serve_here(self, principal: UUID) -> bool:
        """Serve a principal without a job, if a slot is free; called on the loop."""
        if self._closing.is_set():
            return False
        slot = self._slots.acquire(blocking=False)
        if not slot and len(self._running) >= self._concurrency:
            return False
        # With no slot left but fewer turns than may run, it is readers that hold the slots: they only wait.
        self._spawn(self._serve_principal(principal), slot=slot)
        return True

    async def finish(self, cut: asyncio.Event) -> None:
        """Wait for running turns as long as they take, or until ``cut``."""
        told = asyncio.create_task(cut.wait())
        while self._running and not cut.is_set():
            await asyncio.wait({told, *self._running}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait for running turns; those that take longer are cut off here and go on from their journal elsewhere."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.wait([asyncio.wrap_future(self._bookkeeper.submit(_nothing))], timeout=END_SECONDS)
        self._bookkeeper.shutdown(wait=False, cancel_futures=True)

    # Readers, each in its thread

    def _read(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> None:
        connection = self._connect()
        # By its name it is found to be unblocked, also after it has connected again.
        options = connection.connection_pool.connection_kwargs
        options["client_name"] = self._reader_name
        # Redis takes its time to say that nothing came. A reader that hangs up first may take a job with it.
        options["socket_timeout"] = DEQUEUE_SECONDS + PATIENCE_SECONDS
        mine = Queue(queue.name, connection=connection)
        while not self._closing.is_set():
            if not self._slots.acquire(timeout=RETRY_SECONDS):
                # Whoever is rung for here need not wait for room here.
                self._pass_on(mine)
                continue
            job = self._next_job(mine, connection)
            if job is None:
                self._slots.release()
            elif self._closing.is_set():
                self._slots.release()
                self._put_back(mine, job)
            else:
                loop.call_soon_threadsafe(self._start, job, mine)

        self._pass_on(mine)

    def _pass_on(self, queue: Queue) -> None:
        """Bells of this host's queue ring for every host from now on."""
        try:
            shared = f"{Queue.redis_queue_namespace_prefix}{SHARED_QUEUE}"
            while queue.name != SHARED_QUEUE and queue.connection.lmove(queue.key, shared, "LEFT", "RIGHT"):
                pass
        except (RedisError, OSError) as error:
            log.debug("bells were not passed on; sweepers find their mail", reason=str(error))

    @property
    def _reader_name(self) -> str:
        return f"reader-{self.name}"

    def _unblock(self, readers: list[threading.Thread]) -> None:
        """End the readers' wait for a job, which would go to a process that is ending."""
        try:
            connection = self._connect()
            while any(reader.is_alive() for reader in readers):
                for client in connection.client_list():
                    if client["name"] == self._reader_name:
                        connection.client_unblock(int(client["id"]))
                time.sleep(0.02)
        except (RedisError, OSError) as error:
            log.debug("readers end by themselves", reason=str(error))

    def _put_back(self, queue: Queue, job: Job) -> None:
        """A job that came while this worker closed goes to another one."""
        try:
            with queue.connection.pipeline() as pipeline:
                pipeline.lrem(queue.intermediate_queue_key, 1, job.id)
                pipeline.lpush(queue.key, job.id)
                pipeline.execute()
        except (RedisError, OSError) as error:
            log.debug("a job was not put back; a sweeper finds its mail", reason=str(error))

    def _next_job(self, queue: Queue, connection: redis.Redis) -> Job | None:
        identifier = ""
        try:
            _, found = Queue.lmove(connection, queue.key, DEQUEUE_SECONDS)
            identifier = found.decode()
            if rung_for(identifier) is not None:
                return Job(identifier, connection=self.connection)
            # Rung by an earlier release, or not by us.
            return Job.fetch(identifier, connection=self.connection)
        except DequeueTimeout:
            return None
        except NoSuchJobError:
            self._drop(queue, identifier)
            return None
        except (RedisError, OSError) as error:
            log.warning("Redis is not there; trying again", reason=str(error))
            self._closing.wait(RETRY_SECONDS)
            return None
        except Exception:
            # Not one of ours, or damaged. This thread is all there is to read the queue.
            log.exception("a job could not be read", queue=queue.name)
            if identifier:
                self._drop(queue, identifier)
            else:
                self._closing.wait(RETRY_SECONDS)
            return None

    # Turns, on the loop

    def _start(self, job: Job, queue: Queue) -> None:
        self._spawn(self._serve(job, queue), slot=True)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], *, slot: bool) -> None:
        task = asyncio.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if slot:
            task.add_done_callback(lambda _: self._slots.release())

    async def _serve(self, job: Job, queue: Queue) -> None:
        try:
            principal = rung_for(job.id) or UUID(str(job.args[0]))
        except Exception:
            log.exception("not a wake-up job", job=job.id)
            self._bookkeeper.submit(self._drop, queue, job.id)
            return
        self._shown[job.id] = _Shown(principal, queue)
        loop = asyncio.get_running_loop()
        showing = loop.call_later(SHOWN_AFTER_SECONDS, self._bookkeeper.submit, self._show, job)
        try:
            await self._serve_principal(principal)
        finally:
            showing.cancel()
            self._ended.append(job)
            self._bookkeeper.submit(self._forget_ended)

    async def _serve_principal(self, principal: UUID) -> None:
        try:
            await self._server(principal)
        except Exception:
            log.exception("serving failed; the sweeper finds it again", principal=str(principal))

    # What RQ's own tools see; from the bookkeeper's thread, so that a job is shown before it is forgotten

    def _show(self, job: Job) -> None:
        shown = self._shown.get(job.id)
        if shown is None:
            return
        try:
            shown.job = job = Job.fetch(job.id, connection=self.connection)
            job.started_at = now()
            with self.connection.pipeline() as pipeline:
                shown.execution = Execution.create(job, self.job_monitoring_interval + 60, pipeline, self.name)
                job.prepare_for_execution(self.name, pipeline=pipeline)
                pipeline.lrem(shown.queue.intermediate_queue_key, 1, job.id)
                pipeline.execute()
            self.executions[shown.execution.id] = shown.execution
        except Exception as error:
            # Whatever it is: it is served all the same, and forgotten after.
            log.debug("a job is not shown", reason=str(error))

    def _forget_ended(self) -> None:
        """All that have ended by now, in one round trip; none, where the one before took them along."""
        if not self._ended:
            return
        forgotten: list[_Shown] = []
        try:
            with self.connection.pipeline(transaction=False) as pipeline:
                while self._ended:
                    job = self._ended.popleft()
                    shown = self._shown.pop(job.id, None)
                    if shown is None:
                        # Read twice, as when Redis lost what had been taken from a queue.
                        continue
                    forgotten.append(shown)
                    if shown.job is not None and shown.execution is not None:
                        self.cleanup_execution(shown.job, pipeline, shown.execution)
                    pipeline.lrem(shown.queue.intermediate_queue_key, 1, job.id)
                    pipeline.delete(job.key, shown.queue.intermediate_queue.get_first_seen_key(job.id))
                pipeline.execute()
        except Exception as error:
            # Whatever it is: a job's own time to live, or maintenance, removes it.
            log.debug("jobs are not forgotten", reason=str(error))
        finally:
            for shown in forgotten:
                if shown.execution is not None:
                    self.executions.pop(shown.execution.id, None)

    def _drop(self, queue: Queue, job_id: str) -> None:
        """Remove a job that nobody can serve."""
        try:
            with self.connection.pipeline() as pipeline:
                pipeline.lrem(queue.intermediate_queue_key, 1, job_id)
                pipeline.delete(Job.key_for(job_id))
                pipeline.execute()
        except (RedisError, OSError) as error:
            log.debug("a job is not removed", reason=str(error))

    def _keep_known(self) -> None:
        """Keep this worker and its executions visible, and clean up after dead ones; never in a turn's way."""
        cleaned = 0.0
        known: Any = self  # These methods of RQ carry no types.
        while not self._closing.is_set():
            try:
                if not self._is_known():
                    self.connection.delete(self.key)
                    known.register_birth()
                if known.pubsub_thread is None or not known.pubsub_thread.is_alive():
                    known.subscribe()
                self.heartbeat()
                for execution in list(self.executions.values()):
                    self.maintain_heartbeats(execution.job, execution)
                if time.monotonic() - cleaned > MAINTENANCE_SECONDS:
                    known.clean_registries()
                    cleaned = time.monotonic()
            except (RedisError, OSError) as error:
                log.debug("this worker could not tell Redis that it lives", reason=str(error))
            except Exception:
                log.exception("this worker could not tell Redis that it lives")
            self._closing.wait(BEAT_SECONDS)
        try:
            known.register_death()
            if known.pubsub_thread is not None:
                known.pubsub_thread.stop()
                # Its answer is what ends the thread's wait.
                known.pubsub.unsubscribe()
        except (RedisError, OSError) as error:
            log.debug("this worker could not tell Redis that it ends", reason=str(error))

    def _is_known(self) -> bool:
        """Whether Redis knows this worker in full: a heartbeat after a flush leaves half of it."""
        listed = self.connection.sismember(REDIS_WORKER_KEYS, self.key)
        return bool(listed) and bool(self.connection.hexists(self.key, "birth"))

    def handle_payload(self, message: Any) -> None:
        """RQ's stop commands end the turns of the job's principal, as /stop does."""
        try:
            payload = parse_payload(message)
            if payload.get("command") in ("stop-job", "stop-execution"):
                shown = self._shown.get(str(payload.get("job_id")))
                if shown is not None:
                    self._stop(shown.principal)
        except Exception:
            # The thread that listens goes on, whatever was said to it and whatever became of it.
            log.exception("a command could not be followed")

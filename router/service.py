"""The runner as a service: reads wake-up jobs, runs turns, sweeps."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import redis

from agent import memory_tools, schedule_tool
from agent.embeddings.embedder import Embedder
from agent.engine import Engine
from agent.operator import Operator
from agent.toolbox import Toolbox
from identity import merging
from router import joining, presence
from router.bells import Ringer, queue_name
from router.envelope import Envelope
from router.librarian import Librarian
from router.looking_back import LookingBack
from router.runner import Runner
from router.schedules import Firing
from router.settings import FilesSettings, HeartbeatSettings
from router.sweeper import Chore, Sweeper
from router.worker import TurnWorker
from sandbox_runner.assignments import Arrivals, Assignment
from sandbox_runner.folding import Folder
from sandbox_runner.sandboxes import Sandboxes, socket_path
from sandbox_runner.turn import TurnRunner
from sandbox_runner.verifying import Verifier
from workspace_store import inbox_counts, liveness
from workspace_store.database import Database
from workspace_store.inbox import Row
from workspace_store.liveness import Life
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.storage import Storage

ROLE = "runner"
DRAIN_SECONDS = 2.0
MERGES = Chore(merging.due, joining.complete_due)


def read_message(row: Row) -> Assignment:
    """An inbox row as the turn needs it."""
    envelope = Envelope.from_json(row.envelope)
    with_files = (row.id,) if envelope.attachments else ()
    return Assignment(
        row, envelope.text, envelope.context, envelope.reply, envelope.speaker, envelope.order, with_files
    )


def _recalling(toolbox: Toolbox, embedder: Embedder | None) -> Toolbox:
    """The toolbox, with search by meaning where there is an embedder."""
    if embedder is None or "recall" not in toolbox.standing:
        return toolbox
    return replace(toolbox, standing={**toolbox.standing, "recall": memory_tools.recall(embedder)})


def _scheduling(toolbox: Toolbox, limits: ScheduleLimits) -> Toolbox:
    """The toolbox, with schedules within the settings."""
    if schedule_tool.NAME not in toolbox.standing:
        return toolbox
    return replace(toolbox, standing={**toolbox.standing, schedule_tool.NAME: schedule_tool.schedule(limits)})


async def serve(
    *,
    home: Path,
    host: str,
    database_url: str,
    connect: Callable[[], redis.Redis],
    engine: Engine,
    concurrency: int,
    files: FilesSettings,
    patience_seconds: float,
    arrivals: Arrivals,
    schedules: ScheduleLimits,
    heartbeat: HeartbeatSettings,
    storage: Storage,
    daily_budget_usd: float | None,
    message_allow: Sequence[str],
    verifier: Verifier,
    folder: Folder,
    toolbox: Toolbox,
    embedder: Embedder | None,
    role: str,
    ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM: then take no more, let turns finish for a moment, cut off the rest.

    SIGUSR1: take no more, and end when the turns have.
    """
    loop = asyncio.get_running_loop()
    lives = home / "run" / "lives"
    life = Life(lives, ROLE, host)
    database = Database(database_url)
    ringer = Ringer(connect)
    sandboxes = Sandboxes(socket_path(home, host))
    blobs = storage.blobs()
    turns = TurnRunner(
        database,
        engine,
        sandboxes,
        blobs,
        read_message,
        ringer.publish,
        files.limits,
        files.fetch_seconds,
        patience_seconds,
        arrivals,
        daily_budget_usd,
        _scheduling(_recalling(toolbox, embedder), schedules),
        verifier,
        role,
        message_allow=message_allow,
        folder=folder,
    )
    runner = Runner(life.id, database, lives, turns, ringer.publish)

    def stop(owner: UUID) -> None:
        database.write_now(lambda connection: inbox_counts.stop(connection, owner))

    worker = TurnWorker([queue_name(host), queue_name()], connect, runner.serve, stop, concurrency)
    runner.again = worker.serve_here
    chores: tuple[Chore, ...] = (MERGES, Firing(schedules).chore)
    if heartbeat.every and engine.name != Operator.name:
        from router.heartbeat import Heartbeat

        stored = storage.volumes() if storage.is_bucket else None
        chores += (Heartbeat(heartbeat, schedules.zone, storage.folder, stored=stored).chore,)
    sweeper = Sweeper(life.id, database, lives, worker.serve_here, runner.held, chores=chores)
    cut = asyncio.Event()
    runner.hand_over = ringer.ring

    def leave() -> None:
        runner.leaving = sweeper.leaving = True
        worker.close()

    def end() -> None:
        cut.set()
        worker.close()

    loop.add_signal_handler(signal.SIGUSR1, leave)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    sweeping = asyncio.create_task(sweeper.run())
    ready()
    preparing = asyncio.create_task(engine.prepare())
    back = LookingBack(database, engine, engine.takes_messages, daily_budget_usd, runner.busy_at)
    looking_back = asyncio.create_task(back.run())
    announcing = asyncio.create_task(presence.keep(ringer, lives))
    cataloguing = asyncio.create_task(Librarian(database, embedder).run()) if embedder is not None else None
    await liveness.until(worker.closed, [asyncio.create_task(worker.run()), sweeping])
    announcing.cancel()
    ringer.send(partial(presence.leave, lives=lives, host=host))
    preparing.cancel()
    looking_back.cancel()
    if embedder is not None and cataloguing is not None:
        cataloguing.cancel()
        await embedder.close()
    await worker.finish(cut)
    sweeping.cancel()
    await worker.drain(DRAIN_SECONDS)
    sandboxes.close()
    life.end()
    ringer.close()
    await asyncio.to_thread(database.close)

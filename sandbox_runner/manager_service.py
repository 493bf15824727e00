"""The sandbox manager as a service: one process on each host, apart from the runner."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from agent.sandbox import SandboxLimits, SandboxUnavailable
from sandbox_runner import backend, choosing, guest
from sandbox_runner.backend import Backend
from sandbox_runner.egress.control import EgressDoor
from sandbox_runner.egress.screening import Screen
from sandbox_runner.manager import Manager
from sandbox_runner.manager_server import listen
from sandbox_runner.no_backend import NoBackend
from sandbox_runner.retention import Retention
from sandbox_runner.sandboxes import socket_path
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import Seating
from sandbox_runner.settings import SandboxSettings
from sandbox_runner.uids import HostUids
from workspace_store import liveness
from workspace_store import tenancy as tenancies
from workspace_store.database import Database
from workspace_store.liveness import Life, Post
from workspace_store.storage import Storage

if TYPE_CHECKING:
    from workspace_store.cache_room import CacheRoom

log = structlog.get_logger()

ROLE = "sandbox-manager"
SLEEP_SECONDS = 3.5
LEAVE_SECONDS = 60.0


def limits(settings: SandboxSettings, environment: dict[str, str]) -> SandboxLimits:
    return SandboxLimits(
        memory_mb=settings.memory_mb,
        processes=settings.processes,
        cpus=settings.cpus,
        disk_mb=settings.disk_mb,
        disk_files=settings.disk_files,
        command_timeout_seconds=settings.command_timeout_seconds,
        environment=environment,
    )


async def serve(
    *,
    home: Path,
    host: str,
    database_url: str,
    storage: Storage,
    settings: SandboxSettings,
    environment: dict[str, str],
    screen: Screen | None,
    ring: Callable[[UUID], None],
    ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM: then put every sandbox to sleep and end. ``environment``: variables set in sandboxes.

    SIGUSR1: from now on they sleep as soon as no turn is in them, and at the end each is waited for.
    """
    stopping = liveness.stopping_on_signals()
    post = Post(home / "run" / "lives", f"{ROLE}-{host}")

    def stand_by() -> None:
        log.info("another sandbox manager serves this host; standing by")
        ready()

    # Two at a time would take each other's sandboxes for leftovers, and each other's socket.
    if not await post.hold(stopping, stand_by):
        return
    life = Life(home / "run" / "lives", ROLE, host)
    database = Database(database_url)
    seating = Seating(life.id, database, storage.volumes(), home / "run" / "lives", HostUids.of(home))
    egress = EgressDoor(home, host)
    manager = Manager(
        seating, await choose_backend(home, host, settings), Path(guest.__file__).parent,
        limits(settings, environment), settings.idle_seconds, ring, SeatFiles(storage.blobs()), egress,
        max_awake_seconds=settings.max_awake_seconds,
        retention=Retention(settings.keep_generations, settings.keep_days, settings.history_mb << 20), screen=screen,
    )  # fmt: skip
    if storage.is_bucket:
        manager.room = _room(storage, database)
    # So that no wake has to wait for it.
    describing = asyncio.create_task(asyncio.to_thread(manager.base.describe))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, manager.leave)
    server = await listen(manager, socket_path(home, host))
    keeping = [asyncio.create_task(manager.keep()), asyncio.create_task(egress.keep())]
    ready()
    await liveness.until(stopping, keeping)
    await describing
    server.close()
    keeping[0].cancel()
    await manager.close(LEAVE_SECONDS if manager.leaving else SLEEP_SECONDS)
    keeping[1].cancel()
    egress.shut()
    life.end()
    post.leave()
    await asyncio.to_thread(database.close)


def _room(storage: Storage, database: Database) -> CacheRoom:
    """What keeps the cache of an object store within its size."""
    from workspace_store.cache_room import CacheRoom
    from workspace_store.stored_volumes import StoredVolumes

    def committed(owner: UUID) -> int:
        return database.read_now(lambda connection: tenancies.look(connection, owner)).generation

    def forgotten() -> list[UUID]:
        return database.read_now(tenancies.forgotten)

    volumes = storage.volumes()
    assert isinstance(volumes, StoredVolumes)
    return CacheRoom(volumes, storage.blobs_folder, storage.settings.cache_mb << 20, committed, forgotten)


async def choose_backend(home: Path, host: str, settings: SandboxSettings) -> Backend:
    """The strongest backend that works here; one that refuses everything where none does."""
    run_dir = home / "run" / f"sandboxes-{host}"
    # Of every backend: the settings may have been others when the last manager died.
    for earlier in choosing.everyone(run_dir, home, settings):
        left = await asyncio.to_thread(earlier.reap)
        if left:
            log.info("removed what an earlier sandbox manager left", backend=earlier.name, sandboxes=left)
    try:
        chosen, probe = await backend.choose(choosing.candidates(run_dir, home, settings))
    except SandboxUnavailable as error:
        log.error("no sandbox works here; tools will be refused", reason=str(error))
        return NoBackend(str(error))
    log.info("sandbox backend", backend=chosen.name, reason=probe.reason)
    return chosen

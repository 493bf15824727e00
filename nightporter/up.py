"""What ``nightporter up``, ``gateway`` and ``runner`` do: check, bind, preload, then supervise.

Everything that can be refused is refused before the first fork, in one sentence. This process never opens the
database, a loop or a thread: what needs those runs in a child.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from setproctitle import setproctitle

import nightporter
from nightporter import home, process, texts, valkey
from nightporter.errors import ConfigurationError
from nightporter.listening import address_of, listen
from nightporter.service import Entry, Service, ServiceContext
from nightporter.services import ALL, GATEWAY, PRELOAD, RUNNER, RUNNER_AND_SANDBOXES, check_agent, prepare
from nightporter.settings import Settings
from nightporter.supervisor import Program, Supervisor
from nightporter.token import ensure_token, token_path
from workspace_store.liveness import Life

VALKEY_STAGE = 2


@dataclass(frozen=True)
class House:
    """Which services run in this process tree, and what happens before them."""

    title: str
    services: Sequence[Service]
    preload: Sequence[str] = PRELOAD
    prepare: Callable[[Settings], None] | None = prepare
    whole: bool = False
    """Everything of this home: alone in it, with the embedded Valkey."""
    leaves: bool = False
    """It may leave while others go on: `runner drain` finds it by its lock."""


WHOLE_HOUSE = House("up", ALL, whole=True)
GATEWAY_HOUSE = House("gateway-supervisor", (GATEWAY,))
RUNNER_HOUSE = House(home.LEAVER_TITLE, RUNNER_AND_SANDBOXES, leaves=True)


def run(settings: Settings, house: House = WHOLE_HOUSE, command: str = "nightporter") -> int:
    """Run a house until it is told to stop; returns the exit code."""
    setproctitle(f"nightporter: {house.title}")
    home.make_home(settings.home)
    private: tuple[int, ...] = (home.lock_home(settings.home),) if house.whole else ()
    if house.leaves:
        # Its children must not keep it: a free lock says that all of it has ended.
        private += (Life(settings.home / "run" / "lives", home.LEAVER, settings.runner.host).descriptor,)
    ensure_token(settings)
    with_valkey = house.whole and not settings.redis_url
    binary = valkey.server_binary() if with_valkey else None
    if not house.whole and not settings.redis_url and not valkey.answers(settings.home):
        structlog.get_logger().warning(texts.no_redis_here(settings.home))
    sockets = _bind(settings, house.services)
    entries = _preload(house)
    addresses = {name: str(address_of(bound)) for name, bound in sockets.items()}

    def ready() -> None:
        if addresses:
            home.write_listening(settings.home, addresses)
        where = "http.token" if settings.http.token else str(token_path(settings.home))
        print(texts.up_is_ready(nightporter.__version__, settings.home, addresses, command, where), flush=True)

    def late(names: list[str]) -> None:
        print(texts.still_waiting(names), file=sys.stderr, flush=True)

    supervisor = Supervisor(private, ready, late, settings.runner.drain_seconds if house.leaves else 0)
    supervisor.watch_signals()
    if binary is not None:
        server = binary
        supervisor.add(
            Program(
                "valkey",
                lambda _: valkey.become_server(settings.home, server),
                VALKEY_STAGE,
                lambda: valkey.answers(settings.home),
            )
        )
    try:
        if house.prepare is not None:
            _prepare(settings, house.prepare, private)
        if RUNNER in house.services and settings.agent.file is not None:
            _prepare(settings, check_agent, private)
        for service in house.services:
            supervisor.add(_program(service, entries[service.name], settings, sockets))
    except BaseException:
        supervisor.stop()
        raise
    return supervisor.run()


def _bind(settings: Settings, wanted: Sequence[Service]) -> dict[str, socket.socket]:
    addresses = {"http": ("http.listen", settings.http.listen), "smtp": ("email.listen", settings.email.listen)}
    names = [name for service in wanted for name in service.sockets]
    return {name: listen(*addresses[name]) for name in names}


def _preload(house: House) -> dict[str, Entry]:
    """Import what the services need, and put it beyond the garbage collector, so that forks share its memory."""
    gc.disable()
    for module in house.preload:
        importlib.import_module(module)
        if process.thread_count() != 1:
            raise RuntimeError(texts.preload_started_threads(module))
    entries = {service.name: service.load() for service in house.services}
    gc.freeze()
    return entries


def _program(service: Service, entry: Entry, settings: Settings, sockets: dict[str, socket.socket]) -> Program:
    def run_service(ready: Callable[[], None]) -> None:
        mine = {name: bound for name, bound in sockets.items() if name in service.sockets}
        for name, bound in sockets.items():
            if name not in mine:
                bound.close()
        entry(ServiceContext(settings, ready, mine))

    return Program(service.name, run_service, service.stop_stage, drains=service.drains)


def _prepare(settings: Settings, preparing: Callable[[Settings], None], private: Sequence[int]) -> None:
    """Run ``preparing`` in a child, since this process must not open what it opens; its words come back by a pipe."""
    reading, writing = os.pipe2(os.O_CLOEXEC)

    def run_it() -> None:
        try:
            preparing(settings)
        except Exception as error:
            structlog.get_logger().debug("prepare.failed", exc_info=True)
            words = str(error) if isinstance(error, ConfigurationError) else texts.prepare_failed(_words(error))
            with contextlib.suppress(OSError):
                os.write(writing, words.encode()[:4000])
            sys.exit(1)

    child = process.fork("nightporter: prepare", run_it, (*private, reading))
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise ConfigurationError(said or texts.prepare_failed("it ended without a word"))


def _words(error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

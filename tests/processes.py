"""Real processes for the tests, forked from a server that has imported what they need: they start in milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "psycopg", "workspace_store.outbox", "router.inbox", "sandbox_runner.turn"])

Event = _context.Event
Queue = _context.Queue
Process = ForkServerProcess


def start(function: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Run a module's function in a process of its own."""
    process = _context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def codes(*processes: ForkServerProcess) -> list[int | None]:
    """Wait for processes; their exit codes."""
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def kill(process: ForkServerProcess) -> None:
    """SIGKILL, and gone."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)

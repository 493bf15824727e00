"""The supervisor: forks programs, starts those again that die, and leaves none behind.

It is one thread without a loop library: it sleeps in ``select`` until a signal, a ready note or a restart is due.
Every program is started, and started again, by a fork from what is loaded in this process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType

import structlog

from nightporter import process
from nightporter.errors import MISCONFIGURED

RESTART_DELAYS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each start after a death; the first is at once, since who waits for an answer is waiting now."""
STEADY_SECONDS = 30.0
"""After so long a run, the next death counts as the first again."""
STAGE_SECONDS = (2.5, 1.4, 0.6)
"""What each stage gets to end on SIGTERM before it is killed; together below the promised 5 s."""
LATE_SECONDS = 10.0
"""When to say what is still being waited for."""
_PROBE_INTERVAL = 0.01


@dataclass(frozen=True)
class Program:
    """What the supervisor keeps running."""

    name: str
    run: Callable[[Callable[[], None]], None]
    """Called in the child with its ``ready`` function."""
    stop_stage: int = 0
    """Programs of stage 0 are told to stop first, those of the last stage when all others are gone."""
    probe: Callable[[], bool] | None = None
    """For a program that cannot call ``ready``: asked until it is true."""
    drains: bool = False
    """SIGUSR1 lets it end what it has in hand, however long that takes, and take nothing new."""


@dataclass
class Child:
    """One program and the process that runs it now."""

    program: Program
    pid: int | None = None
    started: float = 0.0
    due: float | None = None
    deaths: int = 0
    note: int | None = None
    """Read end of the pipe on which the child says that it is ready."""
    ready: bool = False
    was_ready: bool = False


@dataclass
class Supervisor:
    """Starts programs, watches them, stops them. ``private`` are descriptors that no child may keep."""

    private: tuple[int, ...] = ()
    on_ready: Callable[[], None] = lambda: None
    on_late: Callable[[list[str]], None] = lambda names: None
    """Told once, after ``LATE_SECONDS``, who is not ready."""
    drain_seconds: float = 0
    """SIGTERM drains for so long before it stops; a second one stops at once."""
    children: list[Child] = field(default_factory=list)
    _stop_asked: int = 0
    _drain_asked: bool = False
    _drain_until: float | None = None
    _wakeup: tuple[int, int] | None = None
    _told_ready: bool = False
    _late_at: float | None = None

    def watch_signals(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP as the wish to stop, SIGUSR1 as that to drain, and SIGCHLD as news.

        With ``drain_seconds`` the first SIGTERM is a wish to drain that ends in time.
        """
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = (reading, writing)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for wish in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(wish, self._ask_to_stop)
        signal.signal(signal.SIGUSR1, self._ask_to_drain)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _ask_to_drain(self, _signal: int, _frame: FrameType | None) -> None:
        self._drain_asked = True

    def _ask_to_stop(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM and self.drain_seconds and not self._drain_asked:
            self._drain_asked, self._drain_until = True, time.monotonic() + self.drain_seconds
        else:
            self._stop_asked += 1

    def add(self, program: Program) -> None:
        """Start a program now and keep it running."""
        child = Child(program)
        self.children.append(child)
        self._start(child)

    def run(self) -> int:
        """Watch until told to stop, stop everything, and return the exit code."""
        code: int | None = None
        self._late_at = time.monotonic() + LATE_SECONDS
        while not self._stop_asked and not self._drain_asked:
            self._wait(self._next_due())
            code = self._reap()
            if code is not None:
                break
            self._read_notes()
            self._restart_due()
            self._tell_ready()
        if not self._stop_asked and code is None:
            self.drain()
        self.stop()
        return code or 0

    def drain(self) -> None:
        """Let everything end by itself that can, stage by stage; told to stop meanwhile, or late, it is cut short."""
        drained = [child for child in self.children if child.program.drains]
        self._signal(drained, signal.SIGUSR1)
        for stage in range(len(STAGE_SECONDS)):
            members = [child for child in drained if child.program.stop_stage == stage]
            if stage:
                # It sleeps what nobody uses any more, and ends when it has.
                self._signal(members, signal.SIGTERM)
            while any(child.pid for child in members):
                if self._stop_asked or (self._drain_until is not None and time.monotonic() >= self._drain_until):
                    return
                self._wait(self._drain_until)
                self._reap(restart=False)

    def stop(self) -> None:
        """End all children, stage by stage, within the sum of ``STAGE_SECONDS``; asked twice, at once."""
        asked = self._stop_asked
        for stage, seconds in enumerate(STAGE_SECONDS):
            members = [child for child in self.children if child.program.stop_stage == stage]
            self._signal(members, signal.SIGTERM)
            deadline = time.monotonic() + seconds
            while any(c.pid for c in members) and time.monotonic() < deadline and self._stop_asked <= max(asked, 1):
                self._wait(deadline)
                self._reap(restart=False)
            self._signal(members, signal.SIGKILL)
        while any(child.pid for child in self.children):
            self._wait(time.monotonic() + 0.05)
            self._reap(restart=False)

    def _signal(self, children: Iterable[Child], number: signal.Signals) -> None:
        for child in children:
            if child.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, number)

    def _start(self, child: Child) -> None:
        program = child.program
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def run() -> None:
            program.run(lambda: _tell(writing))

        private = [*self.private, *(self._wakeup or ()), reading]
        private += [other.note for other in self.children if other.note is not None]
        child.pid = process.fork(f"nightporter: {program.name}", run, private)
        os.close(writing)
        child.note, child.ready, child.due, child.started = reading, False, None, time.monotonic()

    def _reap(self, *, restart: bool = True) -> int | None:
        """Collect the dead; an exit code when one of them cannot work as things are set."""
        fatal: int | None = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return fatal
            if pid == 0:
                return fatal
            child = next((c for c in self.children if c.pid == pid), None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            hopeless = restart and code == MISCONFIGURED and not child.was_ready
            fatal = MISCONFIGURED if hopeless else fatal
            self._bury(child, code, restart=restart and not hopeless)

    def _bury(self, child: Child, code: int, *, restart: bool) -> None:
        child.pid, child.ready = None, False
        if child.note is not None:
            os.close(child.note)
            child.note = None
        if not restart:
            return
        now = time.monotonic()
        if now - child.started >= STEADY_SECONDS:
            child.deaths = 0
        delay = RESTART_DELAYS[min(child.deaths, len(RESTART_DELAYS) - 1)]
        child.deaths += 1
        child.due = now + delay
        structlog.get_logger().warning("service.died", service=child.program.name, code=code, restart_in=delay)

    def _read_notes(self) -> None:
        for child in self.children:
            if child.pid is None or child.ready:
                continue
            if child.program.probe is not None:
                child.ready = child.program.probe()
            elif child.note is not None:
                with contextlib.suppress(BlockingIOError):
                    child.ready = bool(os.read(child.note, 16))
                    os.close(child.note)  # said, or never to be said: the child has closed its end
                    child.note = None
            child.was_ready = child.was_ready or child.ready

    def _restart_due(self) -> None:
        for child in self.children:
            if child.due is not None and child.due <= time.monotonic():
                self._start(child)

    def _tell_ready(self) -> None:
        if not self._told_ready and self.children and all(child.ready for child in self.children):
            self._told_ready = True
            self._late_at = None
            self.on_ready()
        elif self._late_at is not None and time.monotonic() >= self._late_at:
            self._late_at = None
            self.on_late([child.program.name for child in self.children if not child.ready])

    def _next_due(self) -> float | None:
        due = [child.due for child in self.children if child.due is not None]
        due += [self._late_at] if self._late_at is not None else []
        if any(child.pid and not child.ready and child.program.probe for child in self.children):
            due.append(time.monotonic() + _PROBE_INTERVAL)
        return min(due, default=None)

    def _wait(self, until: float | None) -> None:
        notes = [child.note for child in self.children if child.note is not None and child.program.probe is None]
        wakeup = [self._wakeup[0]] if self._wakeup else []
        timeout = None if until is None else max(0.0, until - time.monotonic())
        readable, _, _ = select.select([*wakeup, *notes], [], [], timeout)
        if wakeup and wakeup[0] in readable:
            os.read(wakeup[0], 4096)


def _tell(descriptor: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # said a second time
        os.write(descriptor, b"1")

"""A single-threaded reactor over ``poll``: readers, writers, timers, ended children.

No threads: the guest must go on answering when the sandbox may start no more of them.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.POLLIN | select.POLLHUP | select.POLLERR
_INPUT = select.POLLIN | select.POLLPRI


class Timer:
    """A call to come; ``cancel`` may be called at any time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks until ``stop``."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._running = True

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self._readers[fd] = callback
        self._register(fd)

    def remove_reader(self, fd: int) -> None:
        self._readers.pop(fd, None)
        self._register(fd)

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        self._writers[fd] = callback
        self._register(fd)

    def remove_writer(self, fd: int) -> None:
        self._writers.pop(fd, None)
        self._register(fd)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._count += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._count, timer))
        return timer

    def watch_children(self, callback: Callable[[], None]) -> None:
        """``callback`` runs after children ended (SIGCHLD)."""
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

        def ended() -> None:
            os.read(read_end, 4096)
            callback()

        self.add_reader(read_end, ended)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for fd, happened in self._poll.poll(self._milliseconds_to_next_timer()):
                # An earlier callback of this round may have closed the descriptor: look it up each time.
                reader = self._readers.get(fd)
                if reader is not None and happened & READ:
                    reader()
                writer = self._writers.get(fd)
                if writer is not None and happened & ~_INPUT:
                    writer()
            self._run_due_timers()

    def _run_due_timers(self) -> None:
        now = time.monotonic()
        while self._timers and (self._timers[0][2].callback is None or self._timers[0][0] <= now):
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()

    def _milliseconds_to_next_timer(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return max(0.0, (self._timers[0][0] - time.monotonic()) * 1000 + 0.5)

    def _register(self, fd: int) -> None:
        mask = (select.POLLIN if fd in self._readers else 0) | (select.POLLOUT if fd in self._writers else 0)
        if mask:
            self._poll.register(fd, mask)
        else:
            try:
                self._poll.unregister(fd)
            except KeyError:
                return

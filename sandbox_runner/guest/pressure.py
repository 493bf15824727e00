"""The watch on the number of processes: a sandbox that can start no more of them is emptied, not waited for."""

from __future__ import annotations

import time

from . import processes
from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 0.25
_PATIENCE_S = 2.0
_NEAR = 0.9


class PressureWatch:
    """Looks four times a second while anything runs; ``relieve`` after two seconds near ``limit`` (0: none)."""

    def __init__(self, loop: Loop, limit: int, is_active: Callable[[], bool], relieve: Callable[[], None]) -> None:
        self._loop = loop
        self._limit = limit
        self._is_active = is_active
        self._relieve = relieve
        self._since: float | None = None
        self._held: list[Callable[[], None]] = []
        self._looking = False

    def when_relieved(self, proceed: Callable[[], None]) -> None:
        """Go on at once, or, near the limit, once it is known whether that lasts."""
        if self.is_near():
            self._held.append(proceed)
        else:
            proceed()
        self._start()

    def is_near(self) -> bool:
        if not self._limit:
            return False
        return sum(process.threads for process in processes.scan().values()) + 1 >= self._limit * _NEAR

    def _start(self) -> None:
        if not self._looking and self._limit:
            self._looking = True
            self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = False
        now = time.monotonic()
        if not self.is_near():
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= _PATIENCE_S:
            self._since = None
            self._relieve()
            # Those that wait go on at the next look: what was killed takes a moment to be gone.
            self._start()
            return
        if self._since is None:
            held, self._held = self._held, []
            for proceed in held:
                proceed()
        if self._held or self._is_active():
            self._start()

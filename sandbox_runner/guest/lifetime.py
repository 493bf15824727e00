"""How long the sandbox may live, where its volume may go to another host: until the host's next word at most.

A sandbox manager that is paused ends nothing; what runs here ends by itself before another may write to the volume.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

_LOOK_S = 1.0
"""Timers stand still while the machine sleeps, and this clock does not."""


class Lifetime:
    """Without a word it never ends."""

    def __init__(self, loop: Loop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self._until: float | None = None

    def last(self, seconds: float) -> None:
        """Live so long from now, whatever was said before."""
        is_first = self._until is None
        self._until = time.clock_gettime(time.CLOCK_BOOTTIME) + seconds
        if is_first:
            self._look()

    def _look(self) -> None:
        assert self._until is not None
        left = self._until - time.clock_gettime(time.CLOCK_BOOTTIME)
        if left <= 0:
            self._end()
        else:
            self._loop.call_later(min(left, _LOOK_S), self._look)

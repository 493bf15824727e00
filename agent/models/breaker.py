"""A circuit breaker: a model that fails again and again is left alone for a while, then tried once.

After Nygard, Release It!: closed, open, half-open. Time comes in through ``clock``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

FAILURES = 3
OPEN_SECONDS = 15.0
OPEN_MOST_SECONDS = 300.0


@dataclass
class Breaker:
    """``clock``: seconds, monotonic."""

    clock: Callable[[], float]
    _failures: int = 0
    _open_until: float = 0.0
    _open_seconds: float = field(default=OPEN_SECONDS)
    _trying: bool = False

    def seconds_until_open_ends(self) -> float:
        return max(self._open_until - self.clock(), 0.0)

    def try_now(self) -> bool:
        """Whether to ask; after an open time only one may try, and its outcome decides for all."""
        if self._failures < FAILURES:
            return True
        if self._trying or self.seconds_until_open_ends() > 0:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        self._failures, self._open_seconds, self._trying = 0, OPEN_SECONDS, False

    def failed(self, seconds: float | None = None) -> None:
        """``seconds``: how long the provider asked to be left alone; then it is, from the first failure on."""
        again = self._trying
        self._trying = False
        self._failures += 1
        if again:
            self._open_seconds = min(2 * self._open_seconds, OPEN_MOST_SECONDS)
        if seconds is not None:
            self._failures = max(self._failures, FAILURES)
        if self._failures >= FAILURES:
            self._open_until = self.clock() + (self._open_seconds if seconds is None else seconds)

    def left(self) -> None:
        """The one that tried was cut off: that says nothing about the model."""
        self._trying = False

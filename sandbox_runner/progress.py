"""Progress of a turn as news: what runs now, and the answer as far as it is written. Best effort, never recorded.

The gateway makes of it what a platform can show: a draft that grows, or a word about what runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

ANSWER_SECONDS = 0.25
"""The least time between two pieces of news about an answer: each holds all of it."""


@dataclass
class TurnProgress:
    """``message``: the inbox message that the turn began with."""

    principal: UUID
    turn: UUID
    message: UUID
    publish: Callable[[UUID, dict[str, Any]], None]
    clock: Callable[[], float] = time.monotonic
    _answered_at: float | None = None

    def doing(self, what: str) -> None:
        """What runs from now on; empty: nothing does any more."""
        self._tell({"doing": what})

    def answering(self, text: str) -> None:
        now = self.clock()
        if self._answered_at is None or now - self._answered_at >= ANSWER_SECONDS:
            self._answered_at = now
            self._tell({"text": text})

    def _tell(self, what: dict[str, str]) -> None:
        self.publish(self.principal, {"progress": {"turn": self.turn.hex, "message": self.message.hex, **what}})

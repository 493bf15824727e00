"""Which ends of background tasks are worth telling a person; the host asks it too."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

TOLD_AFTER_S = 10.0
"""A process that a command merely left behind is told of when it ends only if it ran for longer."""


def is_worth_telling(argv: Sequence[str], started_at: float) -> bool:
    """Whether a task that ended just now, by itself, is told of. ``started_at``: Unix seconds."""
    return tuple(argv[:2]) == ("bash", "-c") or time.time() - started_at > TOLD_AFTER_S

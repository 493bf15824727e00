"""What bounds schedules; apart from their rows, since the settings are read by programs that need no database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScheduleLimits:
    """What is refused: more than ``most`` for one principal, and what comes more often than ``shortest_seconds``.

    ``zone``: the time zone of a schedule that names none. ``late_seconds``: from when on a run was missed.
    """

    most: int = 50
    shortest_seconds: int = 60
    late_seconds: int = 60
    zone: str = "UTC"

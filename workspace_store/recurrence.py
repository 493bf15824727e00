"""When something is due: a cron line, an interval, or one moment; as arithmetic, with no clock of its own.

Wall-clock times are in a time zone and follow its daylight saving time as Debian's cron does. What is due at fixed
hours, in an hour that is skipped, is due at the first moment after it; in an hour that comes twice, in the first of
the two, once. What is due all the hour round (``*/10 * * * *``, ``30 * * * *``) follows real time. An
interval knows no clock.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Kind = Literal["cron", "every", "at"]

SPEC_CHARACTERS = 200
COUNTED = 1000
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class BadTime(ValueError):
    """A time that is none; the text says what is wrong with it and what to write."""


@dataclass(frozen=True)
class Recurrence:
    """``spec``: five cron fields, a number of seconds, or a local moment (``2026-12-01T09:00``); ``zone`` is its time
    zone. ``anchor``: from when an interval counts, microseconds since the epoch."""

    kind: Kind
    spec: str
    zone: str = "UTC"
    anchor: int = 0

    def after(self, moment: int) -> int | None:
        """The first time after ``moment`` (microseconds since the epoch) at which it is due; None: never again."""
        return next(self.times(moment), None)

    def times(self, moment: int) -> Iterator[int]:
        """Every time after ``moment``, in order. Raises BadTime."""
        if self.kind == "every":
            step = int(self.spec) * 1_000_000
            due = self.anchor + max(1, (moment - self.anchor) // step + 1) * step
            while True:
                yield due
                due += step
        elif self.kind == "at":
            due = local_moment(datetime.fromisoformat(self.spec), self.zone)
            if due > moment:
                yield due
        else:
            yield from _cron_times(self.spec, self.zone, moment)

    def between(self, first: int, last: int) -> tuple[int, int]:
        """How often it is due from ``first``, which is one of its times, up to ``last``, counted up to ``COUNTED``; and
        the last of those times that was counted."""
        if self.kind == "every":
            step = int(self.spec) * 1_000_000
            more = max(0, (last - first) // step)
            return more + 1, first + more * step
        count, newest = 1, first
        for due in self.times(first):
            if due > last or count >= COUNTED:
                break
            count, newest = count + 1, due
        return count, newest

    def shortest_seconds(self, moment: int) -> float:
        """The shortest time between two of its next times; infinite where there are not two."""
        if self.kind == "every":
            return float(self.spec)
        times = list(islice(self.times(moment), 100))
        return min(((b - a) / 1e6 for a, b in pairwise(times)), default=float("inf"))


def cron(line: str, zone: str = "UTC") -> Recurrence:
    """Five cron fields, with names, lists, ranges and steps; or a nickname such as ``@daily``. Raises BadTime."""
    line = " ".join(NICKNAMES.get(line.strip().lower(), line).split())
    if len(line) > SPEC_CHARACTERS or len(line.split(" ")) != 5:
        raise BadTime(f"`{line[:60]}` is not five cron fields; write for example `30 7 * * mon-fri`")
    found = Recurrence("cron", line, zone_name(zone))
    if found.after(0) is None:
        raise BadTime(f"`{line}` never comes: there is no such day")
    return found


def zone_name(name: str) -> str:
    """A time zone's name. Raises BadTime."""
    _zone(name)
    return name


def local_moment(local: datetime, zone: str) -> int:
    """Microseconds since the epoch of a wall-clock time. One that is skipped is the first moment after the gap; of one
    that comes twice it is the first."""
    there = _zone(zone)
    found = local.replace(tzinfo=there, fold=0)
    while found != found.astimezone(UTC).astimezone(there):
        found = (local := local + timedelta(minutes=1)).replace(tzinfo=there, fold=0)
    return round(found.timestamp() * 1e6)


def at_local(moment: int, zone: str) -> datetime:
    """A moment (microseconds since the epoch) by the clocks of a time zone."""
    return datetime.fromtimestamp(moment / 1e6, UTC).astimezone(_zone(zone))


def _cron_times(line: str, zone: str, moment: int) -> Iterator[int]:
    from cronsim import CronSim, CronSimError

    try:
        for due in CronSim(line, at_local(moment, zone)):
            found = round(due.timestamp() * 1e6)
            # In an hour that comes twice, fixed times of its first round lie behind.
            if found > moment:
                yield found
                moment = found
    except (CronSimError, AssertionError) as error:
        reason = str(error).removeprefix("Bad ").lower() or "fields"
        raise BadTime(f"`{line}` is not a cron line: {reason}; write for example `30 7 * * mon-fri`") from error


@functools.lru_cache(maxsize=200)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadTime(f"there is no time zone `{name[:60]}`; write for example `Europe/Berlin` or `UTC`") from error

"""A schedule as people write it: when, perhaps where the clock hangs, and what is to be said then.

    every 30 minutes: is the build green?
    every day at 7:30 in Europe/Berlin: what is new?
    weekdays at 9am skip missed: plan the day
    at 2026-12-01 09:00: call Ann
    in 20 minutes: look at the oven
    cron 0 9 1,15 * * UTC: pay the rent

A small plain grammar, the same in chat, at the command line and for a model; what it does not understand it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

from workspace_store import recurrence
from workspace_store.recurrence import NICKNAMES, BadTime, Recurrence

Missed = Literal["catch-up", "skip"]

UNITS = {"second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "m": 60, "hour": 3600, "hr": 3600, "h": 3600,
         "day": 86400, "d": 86400, "week": 604800, "w": 604800}  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS = {name[:length]: name[:3] for name in WEEKDAYS for length in range(3, len(name) + 1)}
DAYS |= {f"{name}s": name[:3] for name in WEEKDAYS}
GROUPS = {"day": "*", "weekday": "mon-fri", "weekdays": "mon-fri", "weekend": "sat,sun", "weekends": "sat,sun"}
MOST_SECONDS = 10 * 366 * 86400
FIELD = re.compile(r"[\d*,/\-#a-zA-Z]+")
TIME = re.compile(r"(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?(?P<half>am|pm)?", re.IGNORECASE)
COUNT = re.compile(r"(?P<count>\d{1,9})(?P<unit>[a-z]+)?", re.IGNORECASE)
HOW = (
    "Say when and what: `every 30 minutes: …`, `every day at 7:30: …`, `weekdays at 9am in Europe/Berlin: …`, "
    "`at 2026-12-01 09:00: …`, `in 20 minutes: …` or `cron 30 7 * * mon-fri: …`"
)


@dataclass(frozen=True)
class Read:
    """What was understood; ``text`` is what is left: what is to be said when it is due."""

    when: Recurrence
    text: str
    missed: Missed | None = None
    to_last: bool | None = None
    """Answered where its person wrote last, not where it was made."""


def read(words: str, now: int, zone: str) -> Read:
    """Understand a schedule. ``now``: microseconds since the epoch; ``zone``: where none is named. Raises BadTime."""
    reader = _Reader(words, now, zone)
    found = reader.all()
    # The zone stands after the time that it is needed for.
    return found if reader.zone == zone else _Reader(words, now, reader.zone).all()


class _Reader:
    """Takes one word after the other from the beginning of the text."""

    def __init__(self, words: str, now: int, zone: str) -> None:
        self.rest = words.strip()
        self.now = now
        self.zone = zone
        self.ended = False
        """A colon has ended the time: what follows is what is to be said."""

    def all(self) -> Read:
        when = self._when()
        missed: Missed | None = None
        to_last: bool | None = None
        while not self.ended:
            if self._zone():
                continue
            if (said := self._missed()) is not None:
                missed = said
            elif (place := self._to()) is not None:
                to_last = place
            else:
                break
        left = self.rest if self.ended else self.rest.lstrip(" \t:,–—-")
        return Read(when, left.strip(), missed, to_last)

    # words

    def _peek(self) -> str:
        """The next word in lower case, without what ends it; empty at the end."""
        word = self.rest.split(maxsplit=1)[0] if self.rest.strip() and not self.ended else ""
        return word.strip("`'\"()").rstrip(":,").strip("`'\"()").lower()

    def _take(self) -> str:
        """The next word as it was written; a colon at its end ends the time."""
        if self.ended or not self.rest.strip():
            return ""
        word, *rest = self.rest.split(maxsplit=1)
        self.rest = rest[0] if rest else ""
        self.ended = word.rstrip("`'\"()").endswith(":")
        return word.strip("`'\"()").rstrip(":,").strip("`'\"()")

    def _take_if(self, *words: str) -> str:
        """The next word if it is one of these."""
        return self._take().lower() if self._peek() in words and self._peek() else ""

    # options

    def _zone(self) -> bool:
        before = (self.rest, self.ended)
        self._take_if("in", "zone", "tz")
        name = self._take()
        if name.upper() in ("UTC", "GMT") or re.fullmatch(r"[A-Za-z_]+/[A-Za-z_/+\-0-9]+", name):
            self.zone = recurrence.zone_name(name.upper() if "/" not in name else name)
            return True
        self.rest, self.ended = before
        return False

    def _missed(self) -> Missed | None:
        before = (self.rest, self.ended)
        named = bool(self._take_if("--missed", "missed"))
        word = self._take_if("skip", "catch-up", "catchup")
        if word and not named:
            named = bool(self._take_if("missed"))
        if word and (named or self.ended):
            return "skip" if word == "skip" else "catch-up"
        self.rest, self.ended = before
        return None

    def _to(self) -> bool | None:
        before = (self.rest, self.ended)
        if self._take_if("--to", "to") and (word := self._take_if("here", "last")):
            return word == "last"
        self.rest, self.ended = before
        return None

    # when

    def _when(self) -> Recurrence:
        first = self._peek()
        if first == "every":
            self._take()
            return self._every()
        if first == "daily":
            self._take()
            return self._on_days("*")
        if first == "hourly":
            self._take()
            return self._interval(3600)
        if first in GROUPS and first != "day":
            self._take()
            return self._on_days(GROUPS[first])
        if first == "in":
            self._take()
            return self._once(self.now + self._duration() * 1_000_000)
        if first in ("at", "on", "today", "tomorrow"):
            return self._at()
        return self._cron()

    def _every(self) -> Recurrence:
        word = self._peek()
        if word in GROUPS:
            self._take()
            return self._on_days(GROUPS[word])
        days: list[str] = []
        while (word := self._peek()) and all(part in DAYS for part in word.split(",")):
            days += [DAYS[part] for part in word.split(",")]
            self._take()
            self._take_if("and")
        if days:
            return self._on_days(",".join(days))
        if word == "month":
            self._take()
            return self._monthly()
        return self._interval(self._duration())

    def _monthly(self) -> Recurrence:
        self._take_if("on")
        self._take_if("the", "day")
        day = re.sub(r"(?<=\d)(st|nd|rd|th)$", "", self._take().lower())
        if not day.isdigit() or not 1 <= int(day) <= 31:
            raise BadTime("say on which day: `every month on 1 at 9:00`")
        return self._on_days("*", day)

    def _on_days(self, days: str, day: str = "*") -> Recurrence:
        clock = self._clock() if self._take_if("at") else recurrence.at_local(self.now, self.zone).time()
        return recurrence.cron(f"{clock.minute} {clock.hour} {day} * {days}", self.zone)

    def _interval(self, seconds: int) -> Recurrence:
        return Recurrence("every", str(seconds), self.zone, self.now)

    def _duration(self) -> int:
        """A length of time in seconds."""
        match = COUNT.fullmatch(self._peek())
        count, unit = 1, ""
        if match is not None:
            self._take()
            count, unit = int(match["count"]), (match["unit"] or "").lower()
        elif self._take_if("a", "an", "one"):
            pass
        unit = unit or self._take().lower()
        length = UNITS.get(unit) or UNITS.get(unit.removesuffix("s"))
        if length is None or not 1 <= count * length <= MOST_SECONDS:
            raise BadTime(f"I do not understand when. {HOW}")
        return count * length

    def _clock(self) -> time:
        word = self._take()
        match = TIME.fullmatch(word)
        if match is None:
            raise BadTime(f"`{word[:40]}` is not a time of day; write for example `7:30` or `9am`")
        half = (match["half"] or "").lower() or self._take_if("am", "pm")
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        if (half and not 1 <= hour <= 12) or hour > 23 or minute > 59:
            raise BadTime(f"`{word[:40]}` is not a time of day; write for example `7:30` or `9am`")
        return time(hour % 12 + (12 if half == "pm" else 0) if half else hour, minute)

    def _at(self) -> Recurrence:
        """One moment: a day and a time, or the next time that the clock says so."""
        today = recurrence.at_local(self.now, self.zone).date()
        first = self._take().lower()
        if first in ("today", "tomorrow"):
            self._take_if("at")
            return self._at_local(today + timedelta(days=first == "tomorrow"), self._clock())
        day, _, clock = self._peek().partition("t")
        try:
            named = date.fromisoformat(day)
        except ValueError:
            clock_time = self._clock()
            if self._take_if("tomorrow"):
                return self._at_local(today + timedelta(days=1), clock_time)
            soonest = self._at_local(today, clock_time)
            return soonest if soonest.after(self.now) else self._at_local(today + timedelta(days=1), clock_time)
        self._take()
        if not clock:
            self._take_if("at")
            return self._at_local(named, self._clock())
        try:
            return self._at_local(named, time.fromisoformat(clock.removesuffix("z")))
        except ValueError as error:
            raise BadTime(f"`{clock[:40]}` is not a time of day; write for example `2026-12-01 09:00`") from error

    def _at_local(self, day: date, clock: time) -> Recurrence:
        return Recurrence("at", datetime.combine(day, clock.replace(tzinfo=None)).isoformat(), self.zone)

    def _once(self, moment: int) -> Recurrence:
        # In UTC: by a clock that is set back meanwhile the moment would come twice.
        there = recurrence.at_local(moment, "UTC").replace(tzinfo=None, microsecond=0)
        return Recurrence("at", (there + timedelta(seconds=bool(moment % 1_000_000))).isoformat())

    def _cron(self) -> Recurrence:
        self._take_if("cron")
        if self._peek() in NICKNAMES:
            return recurrence.cron(NICKNAMES[self._take().lower()], self.zone)
        fields: list[str] = []
        while len(fields) < 5 and FIELD.fullmatch(self._peek()) and not self.ended:
            fields.append(self._take())
        if len(fields) < 5 or not (fields[0][0].isdigit() or fields[0][0] == "*"):
            raise BadTime(f"I do not understand when. {HOW}")
        return recurrence.cron(" ".join(fields), self.zone)


def in_words(when: Recurrence) -> str:
    """When it is due, for people."""
    if when.kind == "every":
        seconds = int(when.spec)
        for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
            if seconds % length == 0:
                count = seconds // length
                return f"every {unit}" if count == 1 else f"every {count} {unit}s"
        return f"every {seconds} seconds"
    if when.kind == "at":
        return f"at {datetime.fromisoformat(when.spec):%Y-%m-%d %H:%M} {when.zone}"
    return f"cron {when.spec} {when.zone}"

"""Settings of the runner, of what arrives, and of the files that come with messages and go out with replies."""

from __future__ import annotations

import os
import re
import socket
from datetime import time as clock_time
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from workspace_store import recurrence
from workspace_store.file_limits import FileLimits
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.section import PositiveFloat, PositiveInt, SecondsOrZero, Section

_INTERVAL = re.compile(r"[1-9][0-9]{0,5}[smhd]")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class RouterSettings(Section):
    """``[router]``: what becomes of messages that come close together."""

    arrivals: Literal["steer", "queue", "collect", "interrupt"] = "steer"
    """What you say while a turn runs there: joins in, waits for a turn each, for one together, or ends that turn."""
    settle_seconds: Annotated[SecondsOrZero, Field(le=10)] = 0.8
    """How long more of a message is waited for after an album's item, a file alone, or a text at the client's limit."""
    settle_most_seconds: Annotated[SecondsOrZero, Field(le=30)] = 3.0
    """How long that may go on, however much comes."""


def _host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError("it has letters, digits, `.`, `_` and `-`, at most 100; write for example `host-1`")
    return name


class RunnerSettings(Section):
    """``[runner]``: the process that runs turns."""

    concurrency: PositiveInt = 64
    """Turns that one runner works on at once."""
    host: Annotated[str, AfterValidator(_host)] = Field(default_factory=socket.gethostname)
    """Name of this host, the same for its runner and its sandbox manager; the system's when not set."""
    drain_seconds: SecondsOrZero = 0
    """How long a `runner` that is told to stop (SIGTERM) may drain, as `runner drain` does; what is left is cut off."""


def _system_zone() -> str:
    """The time zone that this machine's clock shows, by its name; UTC where it has none."""
    for name in (os.environ.get("TZ", "").lstrip(":"), os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]):
        try:
            return recurrence.zone_name(name)
        except recurrence.BadTime:
            continue
    return "UTC"


class SchedulesSettings(Section):
    """``[schedules]``: what is said again when it is time."""

    time_zone: Annotated[str, AfterValidator(recurrence.zone_name)] = Field(default_factory=_system_zone)
    """Time zone of a schedule that names none, such as `Europe/Berlin`; this machine's when not set."""
    most: PositiveInt = ScheduleLimits.most
    """Most schedules of one person, and of one room."""
    shortest_seconds: PositiveInt = ScheduleLimits.shortest_seconds
    """What would come more often than every so many seconds is refused."""
    late_seconds: PositiveInt = ScheduleLimits.late_seconds
    """How late a schedule may be said and still be in time; later, its time counts as missed."""

    @property
    def limits(self) -> ScheduleLimits:
        return ScheduleLimits(self.most, self.shortest_seconds, self.late_seconds, self.time_zone)


def _every(value: str) -> str:
    if value and not _INTERVAL.fullmatch(value):
        raise ValueError("it is no interval; write for example 30m or 2h")
    return value


def _quiet_hours(value: str) -> str:
    if value:
        _from_to(value)
    return value


def _seconds(every: str) -> int:
    return int(every[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[every[-1]]


def _from_to(hours: str) -> tuple[clock_time, clock_time]:
    begins, dash, ends = hours.partition("-")
    try:
        if not dash:
            raise ValueError
        return clock_time.fromisoformat(begins.strip()), clock_time.fromisoformat(ends.strip())
    except ValueError:
        raise ValueError("these are no hours; write for example 22:00-07:00") from None


class HeartbeatSettings(Section):
    """``[heartbeat]``: looking after what `HEARTBEAT.md` in a workspace says, without anybody having written."""

    every: Annotated[str, AfterValidator(_every)] = ""
    """How often, such as `30m` or `2h`; off when empty. Each time costs a turn for whoever has such a file."""
    quiet_hours: Annotated[str, AfterValidator(_quiet_hours)] = ""
    """When not, such as `22:00-07:00`, in `schedules.time_zone`."""

    @property
    def seconds(self) -> int:
        return _seconds(self.every)

    @property
    def quiet(self) -> tuple[clock_time, clock_time] | None:
        return _from_to(self.quiet_hours) if self.quiet_hours else None


class FilesSettings(Section):
    """``[files]``: what comes with messages and goes out with replies."""

    max_bytes: PositiveInt = FileLimits.max_bytes
    """Largest file that is taken in or sent, in bytes."""
    max_message_bytes: PositiveInt = FileLimits.max_message_bytes
    """Most that the files of one message, or of one reply, may have together, in bytes."""
    max_count: PositiveInt = FileLimits.max_count
    """Most files of one message, and of one reply."""
    fetch_seconds: PositiveFloat = 60.0
    """How long a message waits for its files to be fetched from its platform; then it is worked on without them."""

    @property
    def limits(self) -> FileLimits:
        return FileLimits(self.max_bytes, self.max_message_bytes, self.max_count)

"""Settings of the runner, of what arrives, and of the files that come with messages and go out with replies."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from workspace_store import recurrence
from workspace_store.file_limits import FileLimits
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.section import PositiveFloat, PositiveInt, Section


class RouterSettings(Section):
    """``[router]``: what becomes of messages that come close together."""

    arrivals: Literal["steer", "queue", "collect", "interrupt"] = "steer"
    """What you say while a turn runs there: joins in, waits for a turn each, for one together, or ends that turn."""
    settle_seconds: Annotated[float, Field(ge=0, le=10)] = 0.8
    """How long more of a message is waited for after an album's item, a file alone, or a text at the client's limit."""
    settle_most_seconds: Annotated[float, Field(ge=0, le=30)] = 3.0
    """How long that may go on, however much comes."""


class RunnerSettings(Section):
    """``[runner]``: the process that runs turns."""

    concurrency: PositiveInt = 64
    """Turns that one runner works on at once."""
    host: Annotated[str, StringConstraints(min_length=1)] = Field(default_factory=socket.gethostname)
    """Name of this host, the same for its runner and its sandbox manager; the system's when not set."""


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

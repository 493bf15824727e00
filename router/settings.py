"""Settings of the runner, of what arrives, and of the files that come with messages and go out with replies."""

from __future__ import annotations

import socket
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from workspace_store.file_limits import FileLimits
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

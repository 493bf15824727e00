"""Settings of the runner: how much it does at once and what its host is called."""

from __future__ import annotations

import socket
from typing import Annotated

from pydantic import Field, StringConstraints

from workspace_store.section import PositiveInt, Section


class RunnerSettings(Section):
    """``[runner]``: the process that runs turns."""

    concurrency: PositiveInt = 64
    """Turns that one runner works on at once."""
    host: Annotated[str, StringConstraints(min_length=1)] = Field(default_factory=socket.gethostname)
    """Name of this host, the same for its runner and its sandbox manager; the system's when not set."""

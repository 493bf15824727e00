"""What a service is to the supervisor, and what it is given when it starts."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from nightporter.settings import Settings


@dataclass(frozen=True)
class ServiceContext:
    """Handed to a service in its own process, after the fork."""

    settings: Settings
    ready: Callable[[], None]
    """To be called once, when the service does its work; until then ``up`` is not ready."""
    sockets: Mapping[str, socket.socket]
    """Listening sockets by name (``http``, ``smtp``): the parent's, so never shut down, only closed."""


Entry = Callable[[ServiceContext], None]


@dataclass(frozen=True)
class Service:
    """A row of the table of services.

    ``entry`` is ``module:function``; the function takes a ``ServiceContext``, installs its own SIGTERM handler, and
    returns when it is told to stop. Its module is imported before the fork.
    """

    name: str
    entry: str
    sockets: tuple[str, ...] = ()
    stop_stage: int = 0
    """Services of a lower stage are stopped before those of a higher one."""
    drains: bool = False
    """Whether SIGUSR1 lets it end what it has in hand and take nothing new."""

    def load(self) -> Entry:
        """Import the entry."""
        module, _, function = self.entry.partition(":")
        return cast("Entry", getattr(importlib.import_module(module), function))

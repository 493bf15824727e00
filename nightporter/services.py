"""The table of services, and the adapters between them and the settings: each service is given just its own sections.

An adapter imports what it calls inside the function only where that is not wanted in every process; what all need is
in ``PRELOAD``, imported once before the forks.
"""

from __future__ import annotations

from nightporter import texts
from nightporter.errors import ConfigurationError
from nightporter.service import Service, ServiceContext
from nightporter.settings import Settings

SANDBOX_MANAGER = Service("sandbox-manager", "nightporter.services:sandbox_manager", stop_stage=1)
GATEWAY = Service("gateway", "nightporter.services:gateway", sockets=("http", "smtp"))
RUNNER = Service("runner", "nightporter.services:runner")

ALL = (SANDBOX_MANAGER, GATEWAY, RUNNER)
RUNNER_AND_SANDBOXES = (SANDBOX_MANAGER, RUNNER)

PRELOAD = (
    "asyncio",
    "aiosmtpd.smtp",
    "blake3",
    "fastcdc",
    "redis.asyncio",
    "rq",
    "sqlmodel",
    "starlette.applications",
    "structlog",
    "uvicorn",
    "zstandard",
)
"""Imported once, by all services used; nothing here may start a thread."""


def sandbox_manager(context: ServiceContext) -> None:
    """Owns this host's warm sandboxes."""
    raise ConfigurationError(texts.not_part_of_this_build("sandbox-manager"))


def gateway(context: ServiceContext) -> None:
    """Takes messages in and brings replies out."""
    raise ConfigurationError(texts.not_part_of_this_build("gateway"))


def runner(context: ServiceContext) -> None:
    """Runs turns."""
    raise ConfigurationError(texts.not_part_of_this_build("runner"))


def prepare(settings: Settings) -> None:
    """Bring the database to the schema of this version; runs in a process of its own before any service."""

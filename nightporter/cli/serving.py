"""``up``, ``gateway`` and ``runner``."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.settings import AgentSettings
from nightporter import logs
from nightporter import up as houses
from nightporter.settings import load


def up(agent: Path | None) -> int:
    """Everything on this machine."""
    return _run(houses.WHOLE_HOUSE, agent)


def gateway() -> int:
    """The gateway alone."""
    return _run(houses.GATEWAY_HOUSE)


def runner(agent: Path | None) -> int:
    """A runner and its host's sandbox manager."""
    return _run(houses.RUNNER_HOUSE, agent)


def _run(house: houses.House, agent: Path | None = None) -> int:
    """``agent``: the agent's file, instead of the one of the settings."""
    settings = load()
    if agent is not None:
        settings = settings.model_copy(update={"agent": AgentSettings(file=agent.expanduser().absolute())})
    logs.configure()
    return houses.run(settings, house, sys.argv[0])

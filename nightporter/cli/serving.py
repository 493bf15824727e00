"""``up``, ``gateway`` and ``runner``."""

from __future__ import annotations

import sys

from nightporter import logs
from nightporter import up as houses
from nightporter.settings import load


def up() -> int:
    """Everything on this machine."""
    return _run(houses.WHOLE_HOUSE)


def gateway() -> int:
    """The gateway alone."""
    return _run(houses.GATEWAY_HOUSE)


def runner() -> int:
    """A runner and its host's sandbox manager."""
    return _run(houses.RUNNER_HOUSE)


def _run(house: houses.House) -> int:
    settings = load()
    logs.configure()
    return houses.run(settings, house, sys.argv[0])

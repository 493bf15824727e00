"""Which engine a setting names."""

from __future__ import annotations

from agent.engine import Engine
from agent.operator import Operator


class EngineNotAvailable(Exception):
    """The setting names an engine this release does not have."""


def make(model: str) -> Engine:
    """The engine of ``engine.model``. Raises EngineNotAvailable."""
    if model == "operator":
        return Operator()
    raise EngineNotAvailable(f"engine.model is {model!r}; this release has only the built-in `operator`")

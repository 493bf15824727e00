"""Which engine the settings name."""

from __future__ import annotations

from agent.engine import Engine
from agent.model_engine import ModelEngine
from agent.models import names
from agent.operator import Operator
from agent.settings import EngineSettings


class EngineNotAvailable(Exception):
    """The setting names an engine this release does not have."""


def make(settings: EngineSettings) -> Engine:
    """The engine of ``[engine]``; loads no library yet. Raises EngineNotAvailable."""
    if settings.model == "operator":
        return Operator()
    try:
        models = names.of_settings(settings)
    except names.UnknownModel as error:
        raise EngineNotAvailable(str(error)) from error
    return ModelEngine(models, settings.context_window, settings.timeout_seconds, settings.stream)

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


def make_judge(settings: EngineSettings) -> Engine | None:
    """Who judges claims that have no check command: ``engine.verifier``, else the models of ``[engine]``, the fallbacks
    first, since another model than the one that claims sees more; None: there is none. Raises EngineNotAvailable."""
    if settings.model == "operator" and not settings.verifier:
        return None
    try:
        if settings.verifier:
            models = [names.parse(settings.verifier, settings.base_url, settings.api_key)]
        else:
            first, *fallbacks = names.of_settings(settings)
            models = [*fallbacks, first]
    except names.UnknownModel as error:
        raise EngineNotAvailable(str(error)) from error
    return ModelEngine(models, settings.context_window, settings.timeout_seconds)

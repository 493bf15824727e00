"""Settings of the engine: which model thinks, what stands in for it, and what it may cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from workspace_store.section import PositiveFloat, PositiveInt, Secret, Section, SettingsPath, WebUrl


class EngineFallback(Section):
    """One entry of ``engine.fallbacks``: a model to ask when those before it fail."""

    model: str
    base_url: WebUrl = ""
    api_key: Secret = ""
    api_key_file: SettingsPath = None


def _fallback(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


class EngineSettings(Section):
    """``[engine]``: what thinks."""

    model: str = "operator"
    """`operator` (built in, no model), or a provider and model such as `anthropic:…` or `openai:…`."""
    base_url: WebUrl = ""
    """Address of an OpenAI-compatible server, when it is not the provider's own."""
    api_key: Secret = ""
    """The provider's key."""
    api_key_file: SettingsPath = None
    """File that holds `api_key`."""
    fallbacks: tuple[Annotated[EngineFallback, BeforeValidator(_fallback)], ...] = ()
    """Models to ask in turn when the first fails: names, or tables `{model, base_url, api_key}`."""
    context_window: PositiveInt | None = None
    """Tokens that fit in a request; the model's own when not set."""
    daily_budget_usd: PositiveFloat | None = None
    """What a day may cost in US dollars; no limit when not set."""

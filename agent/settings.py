"""Settings of the agent: what it is made of, which model thinks, what stands in for it, and what it may cost."""

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
    """`operator` (built in, no model), `anthropic:MODEL`, `openai:MODEL`, or any name that `base_url` knows."""
    base_url: WebUrl = ""
    """Address of the server, when not the provider's; OpenAI's protocol, or Anthropic's for `anthropic:` models."""
    api_key: Secret = ""
    """The provider's key."""
    api_key_file: SettingsPath = None
    """File that holds `api_key`."""
    fallbacks: tuple[Annotated[EngineFallback, BeforeValidator(_fallback)], ...] = ()
    """Models to ask in turn when the first fails: names, or tables `{model, base_url, api_key}`."""
    context_window: PositiveInt | None = None
    """Tokens that fit in a request; the model's own when not set."""
    timeout_seconds: PositiveFloat = 120.0
    """How long a model may take for one answer."""
    stream: bool = False
    """Ask for answers word by word, so that Slack and Telegram show them as they grow; the server must be able to."""
    patience_minutes: PositiveFloat = 60.0
    """How long a message waits for a model that cannot be reached, before its sender is told that it was given up."""
    verifier: str = ""
    """Model that judges claimed tasks without a check command; not set: the fallbacks, then `model` itself."""
    check_timeout_seconds: PositiveFloat = 600.0
    """How long the check command of a claimed task may run."""
    daily_budget_usd: PositiveFloat | None = None
    """What a day of one person or room may cost in US dollars; over it an admin is asked. No limit when not set."""


class AgentSettings(Section):
    """``[agent]``: what a team wrote for it."""

    file: SettingsPath = None
    """Python file with a role, tools and policies of your own; `up --agent FILE` is the same."""
    message_allow: tuple[str, ...] = ()
    """Whom the agent may write to without asking, such as `email:*@example.org` or `slack:T1/U1`."""


class MemorySettings(Section):
    """``[memory]``: how what was said is found again."""

    embeddings: str = "auto"
    """Vectors for search by meaning: `auto` (the local model where it is installed), `local`, `none`, or the name of a
    model that a server's `/embeddings` has."""
    embeddings_url: WebUrl = ""
    """Address of that server, up to `/v1`; `engine.base_url`, or OpenAI's, when empty."""
    embeddings_key: Secret = ""
    """Its key; `engine.api_key` when empty and the server is the engine's."""
    embeddings_key_file: SettingsPath = None
    """File that holds `embeddings_key`."""

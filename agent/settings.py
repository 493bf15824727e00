"""Settings of the agent: what it is made of, which model thinks, what stands in for it, and what it may cost."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

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
    fold_with_model: bool = False
    """Let the model write the records of old turns, after the reply and while nobody waits; each is checked."""
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
    """Vectors for search by meaning: `auto` (the local model if installed), `local`, `none`, or a server's model."""
    embeddings_url: WebUrl = ""
    """Address of that server, up to `/v1`; `engine.base_url`, or OpenAI's, when empty."""
    embeddings_key: Secret = ""
    """Its key; `engine.api_key` when empty and the server is the engine's."""
    embeddings_key_file: SettingsPath = None
    """File that holds `embeddings_key`."""


class McpServer(Section):
    """One entry of ``mcp.servers``: a ``command`` in the sandbox, or a ``url`` through the egress proxy."""

    command: tuple[str, ...] = ()
    """Program and arguments; it runs in each person's sandbox, in `/workspace`."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables for it. No secrets: whatever runs in the sandbox can read them."""
    url: WebUrl = ""
    """Address of a server elsewhere (streamable HTTP); its host is judged by `egress.allow` as any other."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with each request to it. No secrets: those belong into `egress.credentials`."""
    tools: tuple[str, ...] = ()
    """Those of its tools that may be used; all where the list is empty."""
    trust_hints: bool = False
    """Believe its hints which tools only read or may be repeated; otherwise each counts as done `once`."""
    approval: bool = False
    """Ask a person before each call."""
    timeout_seconds: Annotated[PositiveFloat, Field(le=3600)] = 60.0
    """How long a call may take."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError('it has to have either a command or a url, for example command = ["python3", "server.py"]')
        return self


def _server_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}", name):
        raise ValueError(f"{name!r} is no name for a server; use up to 32 letters, digits and -, for example weather")
    return name


class McpSettings(Section):
    """``[mcp]``: servers of the Model Context Protocol whose tools the agent may use."""

    servers: dict[Annotated[str, AfterValidator(_server_name)], McpServer] = Field(default_factory=dict)
    """A table for each, `[mcp.servers.NAME]`, with a `command` or a `url`; their tools are called `NAME__tool`."""

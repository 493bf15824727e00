"""Making a model of its settings: which library class speaks to it, with the libraries' own retries off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from agent.models.breaker import Breaker
from agent.models.lenient import LenientChatModel
from agent.models.names import ModelName

NO_KEY = "none"
"""Sent where no key is set: servers of one's own often want none, and the libraries refuse to start without any."""


# Breakpoints of Anthropic's cache: after the tools, the role and the last message; the head has one of its own. Each
# request is the beginning of the next, so that the last one's end is found again. Other providers need no telling.
# https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
CACHED = AnthropicModelSettings(
    anthropic_cache_tool_definitions=True, anthropic_cache_instructions=True, anthropic_cache_messages=True
)

CONNECT_SECONDS = 5.0
"""A server that does not even take the connection is away: the person is told so soon."""


@dataclass
class Candidate:
    """A model that may be asked, and whether it is worth asking now."""

    name: str
    model: Model
    breaker: Breaker

    client: anthropic.AsyncAnthropic | openai.AsyncOpenAI | None = None
    unseen: set[str] = field(default_factory=set)
    """Blobs of pictures that it refused to look at."""

    async def aclose(self) -> None:
        if self.client is not None:
            await self.client.close()

    @property
    def provider(self) -> str:
        return self.model.system


def make(name: ModelName, timeout_seconds: float, breaker: Breaker) -> Candidate:
    """The client of a model. One try a request: which error deserves another, and where, is decided by the engine."""
    key, base_url = name.api_key or NO_KEY, name.base_url or None
    if name.provider == "anthropic":
        patience: Any = anthropic.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        claude = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=patience)
        provider = AnthropicProvider(anthropic_client=claude)
        return Candidate(name.full, AnthropicModel(name.model, provider=provider, settings=CACHED), breaker, claude)
    patience = openai.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
    client = openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=patience)
    model = LenientChatModel(name.model, provider=OpenAIProvider(openai_client=client))
    return Candidate(name.full, model, breaker, client)

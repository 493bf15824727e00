"""Models that speak Anthropic's protocol. Imported only where one is asked."""

from __future__ import annotations

import anthropic
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from agent.models.names import ModelName
from agent.models.patience import CONNECT_SECONDS, NO_KEY

# Breakpoints of Anthropic's cache: after the tools, the role and the last message; the head has one of its own. Each
# request is the beginning of the next, so that the last one's end is found again. Other providers need no telling.
# https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
CACHED = AnthropicModelSettings(
    anthropic_cache_tool_definitions=True, anthropic_cache_instructions=True, anthropic_cache_messages=True
)


def make(name: ModelName, timeout_seconds: float) -> tuple[AnthropicModel, anthropic.AsyncAnthropic]:
    """The model and its client, which does not retry by itself."""
    patience = anthropic.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
    client = anthropic.AsyncAnthropic(
        api_key=name.api_key or NO_KEY, base_url=name.base_url or None, max_retries=0, timeout=patience
    )
    return AnthropicModel(name.model, provider=AnthropicProvider(anthropic_client=client), settings=CACHED), client

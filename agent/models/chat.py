"""Models that speak OpenAI's chat protocol, as most servers do. Imported only where one is asked."""

from __future__ import annotations

import openai
from pydantic_ai.providers.openai import OpenAIProvider

from agent.models.lenient import LenientChatModel
from agent.models.names import ModelName
from agent.models.patience import CONNECT_SECONDS, NO_KEY


def make(name: ModelName, timeout_seconds: float) -> tuple[LenientChatModel, openai.AsyncOpenAI]:
    """The model and its client, which does not retry by itself."""
    patience = openai.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
    client = openai.AsyncOpenAI(
        api_key=name.api_key or NO_KEY, base_url=name.base_url or None, max_retries=0, timeout=patience
    )
    return LenientChatModel(name.model, provider=OpenAIProvider(openai_client=client)), client

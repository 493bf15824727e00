"""Making a model of its settings: which library class speaks to it, with the libraries' own retries off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic_ai.models import Model

from agent.models.breaker import Breaker
from agent.models.names import ModelName

if TYPE_CHECKING:
    import anthropic
    import openai


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
    # A provider's library takes a second to import, and whoever asks one provider needs no other's.
    if name.provider == "anthropic":
        from agent.models import claude

        asked, client = claude.make(name, timeout_seconds)
        return Candidate(name.full, asked, breaker, client)
    from agent.models import chat

    model, talks = chat.make(name, timeout_seconds)
    return Candidate(name.full, model, breaker, talks)

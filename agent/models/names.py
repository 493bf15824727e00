"""Names of models: ``provider:model``, an address where it is not the provider's own, a key. Imports no library."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.settings import EngineSettings

PROVIDERS = ("anthropic", "openai")


class UnknownModel(ValueError):
    """The name says no provider this release can speak to."""


@dataclass(frozen=True)
class ModelName:
    """``provider``: whose protocol it speaks; any server with an address of its own speaks OpenAI's by default."""

    full: str
    provider: str
    model: str
    base_url: str
    api_key: str


def parse(full: str, base_url: str, api_key: str) -> ModelName:
    """Read ``provider:model``. Raises UnknownModel with what would do."""
    provider, colon, model = full.partition(":")
    if colon and provider in PROVIDERS and model:
        return ModelName(full, provider, model, base_url, api_key)
    if base_url and full:
        # Ollama, vLLM, LiteLLM, …: they speak OpenAI's protocol, and a model's own name may hold a colon.
        known = colon and provider in ("ollama", "vllm", "litellm", "openai-chat") and model
        return ModelName(full, "openai", model if known else full, base_url, api_key)
    raise UnknownModel(
        f"{full!r} can be asked nowhere: write `anthropic:MODEL` or `openai:MODEL`, or set engine.base_url to a server "
        "that speaks OpenAI's protocol"
    )


def of_settings(settings: EngineSettings) -> list[ModelName]:
    """``engine.model`` and its fallbacks, in order. Raises UnknownModel.

    A fallback that is only a name is another model of the same server: it takes its address and key.
    """
    first = parse(settings.model, settings.base_url, settings.api_key)
    found = [first]
    for other in settings.fallbacks:
        alone = not (other.base_url or other.api_key)
        name = parse(other.model, other.base_url or (settings.base_url if alone else ""), other.api_key)
        if alone and name.provider == first.provider:
            name = replace(name, api_key=first.api_key)
        elif alone:
            name = parse(other.model, "", "")
        found.append(name)
    return found

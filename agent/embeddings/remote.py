"""A provider's vectors: ``POST {base_url}/embeddings`` as OpenAI, Ollama, vLLM and LiteLLM have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.embeddings.embedder import EmbedderAway
from workspace_store.memory_search import packed

CHARACTERS = 8000
"""Of a text: what the smallest of today's models read."""


class RemoteEmbedder:
    """``name``: the provider's name of the model. Satisfies Embedder."""

    def __init__(self, name: str, base_url: str, api_key: str, timeout_seconds: float) -> None:
        self.model = f"{base_url.rstrip('/')}:{name}"
        self._name, self._timeout = name, timeout_seconds
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client: Any = None

    async def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        import httpx

        if not texts:
            return []
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=self._timeout, headers=self._headers)
        body = {"model": self._name, "input": [text[:CHARACTERS] for text in texts], "encoding_format": "float"}
        try:
            response = await self._client.post(self._url, json=body)
            response.raise_for_status()
            return _vectors(response.json(), len(texts))
        except httpx.HTTPStatusError as error:
            raise EmbedderAway(f"the embeddings' server says HTTP {error.response.status_code}") from error
        except httpx.HTTPError as error:
            raise EmbedderAway(f"the embeddings' server cannot be reached ({type(error).__name__})") from error
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise EmbedderAway("the embeddings' server answered with no embeddings") from error

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _vectors(body: dict[str, Any], count: int) -> list[bytes | None]:
    """In the order that was asked. Raises ValueError for an answer that is not whole."""
    found: list[bytes | None] = [None] * count
    for place, one in enumerate(body["data"]):
        values = [float(value) for value in one["embedding"]]
        found[int(one.get("index", place))] = packed(values) if any(values) else None
    if len(body["data"]) != count:
        raise ValueError("not every text has a vector")
    return found

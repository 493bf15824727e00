"""The protocol of an embedder: what makes vectors of words. It never touches the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class EmbedderAway(Exception):
    """It cannot be asked now; the text says why. Nothing is lost: what has no vector is found by its words."""


class Embedder(Protocol):
    """``model`` names the vectors: those of another name are no match."""

    model: str

    async def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """A vector of length one for each text, as ``memory_search.packed`` makes them; None where there is none.

        Raises EmbedderAway.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...

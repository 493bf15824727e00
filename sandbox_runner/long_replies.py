"""Answers longer than anybody reads in a chat: how they begin, and the whole of them as a file beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sandbox_runner import texts
from workspace_store.blobs import Blobs

LONGEST = 200_000
"""Characters: fifty messages of Telegram's, which take a minute to go out."""
SHOWN = 4_000


async def fitted(
    replies: Mapping[str, str], blobs: Blobs, owner: UUID, sending: list[Mapping[str, Any]]
) -> Mapping[str, str]:
    """The replies as they are said; what is too long is added to ``sending``, the files that go with them."""
    found = {}
    for message, text in replies.items():
        if len(text) <= LONGEST:
            found[message] = text
            continue
        data = text.encode("utf-8", "replace")
        name = "answer.md" if not found else f"answer-{len(found) + 1}.md"
        blob = await asyncio.to_thread(blobs.put, owner, data)
        sending.append({"name": name, "content_type": "text/markdown", "size": len(data), "blob": blob})
        found[message] = f"{text[:SHOWN].rstrip()}…\n\n{texts.whole_in_file(name, len(text))}"
    return found

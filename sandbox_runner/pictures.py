"""Pictures that came with messages, as an engine that looks at them is given them: those of the turns it reads.

The newest first, within bounds; what is no picture by its own bytes, or is gone, stays a file with a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from agent.trajectory import Context, Said, picture_type
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs

MOST_BYTES = 3_700_000
"""Of one, before it is written in base64: providers take 5 MB."""
MOST_OF_A_MESSAGE = 4
MOST_BYTES_TOGETHER = 16 << 20


def of_files(files: Iterable[Mapping[str, Any]]) -> list[str]:
    """The blobs of a message's files that may be pictures."""
    found = [
        str(file["blob"])
        for file in files
        if file.get("blob") and str(file["content_type"]).startswith("image/") and int(file["size"]) <= MOST_BYTES
    ]
    return found[:MOST_OF_A_MESSAGE]


async def shown(
    context: Context, blobs: Blobs, owner: UUID, held: dict[str, tuple[str, bytes]]
) -> Mapping[str, tuple[str, bytes]]:
    """(type, bytes) of the pictures in a context, by blob. ``held``: what this turn has read already."""
    left, found = MOST_BYTES_TOGETHER, dict[str, tuple[str, bytes]]()
    for blob in _newest_first([*context.recent, context.turn]):
        if blob not in held:
            held[blob] = await asyncio.to_thread(_read, blobs, owner, blob)
        kind, data = held[blob]
        left -= len(data)
        if left < 0:
            break
        if kind:
            found[blob] = (kind, data)
    return found


def _newest_first(turns: Sequence[Sequence[Said]]) -> list[str]:
    named = [str(blob) for turn in turns for said in turn for blob in said.data.get("pictures", ())]
    return list(dict.fromkeys(reversed(named)))


def _read(blobs: Blobs, owner: UUID, blob: str) -> tuple[str, bytes]:
    try:
        data = blobs.get(owner, blob)
    except (BlobMissing, BlobCorrupt, OSError):
        return "", b""
    kind = picture_type(data)
    return (kind, data) if kind else ("", b"")

"""Files of a message at intake: safe names, and what is too large or too many, decided before anything is fetched."""

from __future__ import annotations

from collections.abc import Sequence

from router import texts
from router.envelope import Attachment
from workspace_store import blobs, names
from workspace_store.attachments import New
from workspace_store.file_limits import FileLimits

MAX_TYPE_CHARACTERS = 200
KNOWN_BEYOND = 50
"""Of a message with more files than it may have, so many of the others are still named."""


def prepare(attachments: Sequence[Attachment], limits: FileLimits) -> list[New]:
    """The files of a message as they are recorded. Sizes are what the sender claims: fetching measures them."""
    taken: set[str] = set()
    left = limits.max_message_bytes
    found = []
    for position, item in enumerate(attachments[: limits.max_count + KNOWN_BEYOND]):
        name = names.unique_name(names.safe_name(item.name, f"file-{position + 1}"), taken)
        reason = item.problem or _problem(position, item.size, left, limits)
        left -= 0 if reason else item.size
        kept = blobs.is_name(item.blob)
        found.append(
            New(
                name=name,
                content_type=item.content_type[:MAX_TYPE_CHARACTERS],
                size=item.size,
                reference="" if kept else item.blob,
                blob=item.blob if kept and not reason else None,
                reason=reason or None,
            )
        )
    return found


def _problem(position: int, size: int, left: int, limits: FileLimits) -> str:
    if position >= limits.max_count:
        return texts.too_many_files(limits.max_count)
    if size > limits.max_bytes:
        return texts.file_too_large(limits.max_bytes)
    if size > left:
        return texts.files_too_large(limits.max_message_bytes)
    return ""

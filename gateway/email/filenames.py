"""Names of a mail's files: what the message claims, made safe to store."""

from __future__ import annotations

import mimetypes

from workspace_store import names
from workspace_store.names import MAX_NAME_BYTES, unique_name

__all__ = ["MAX_NAME_BYTES", "extension_of", "safe_name", "unique_name"]


def safe_name(claimed: str, content_type: str, number: int) -> str:
    """As ``names.safe_name``; the ``number``-th file of a mail gets a name by its type where it has none."""
    return names.safe_name(claimed, f"attachment-{number}{extension_of(content_type)}")


def extension_of(content_type: str) -> str:
    """The usual extension of a media type, with its dot; empty for an unknown one."""
    return {"message/rfc822": ".eml", "text/calendar": ".ics", "image/jpeg": ".jpg", "text/plain": ".txt"}.get(
        content_type
    ) or (mimetypes.guess_extension(content_type) or "")

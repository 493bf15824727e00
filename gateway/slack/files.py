"""Files of a message, by reference, and quoted messages as context.

https://docs.slack.dev/reference/objects/file-object; a file shared from another workspace may be an id only
(``file_access: check_file_info``), a deleted one is a ``tombstone``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.slack import blocks, tokens
from gateway.slack.parsed import Bot, File

GONE = frozenset({"tombstone"})


def files_of(message: Mapping[str, Any]) -> tuple[File, ...]:
    """The files of a message and of the messages it shares; deleted ones are left out."""
    found = list(_dicts(message.get("files")))
    for shared in _dicts(message.get("attachments")):
        found += _dicts(shared.get("files"))
    return tuple(_file(item) for item in found if item.get("mode") not in GONE and item.get("id"))


def _file(item: Mapping[str, Any]) -> File:
    content_type = _string(item.get("mimetype"))
    transcription = item.get("transcription")
    preview = transcription.get("preview") if isinstance(transcription, dict) else None
    size = item.get("size")
    return File(
        id=_string(item.get("id")),
        name=_string(item.get("name")) or _string(item.get("title")),
        content_type=content_type,
        size=size if isinstance(size, int) else 0,
        url=_string(item.get("url_private_download")) or _string(item.get("url_private")),
        voice=item.get("subtype") == "slack_audio" or content_type.startswith("audio/"),
        transcript=_string(preview.get("content")) if isinstance(preview, dict) else "",
    )


def context_of(message: Mapping[str, Any], bot: Bot) -> str:
    """Words of shared messages and link previews: what the sender points at, not what they say."""
    return "\n\n".join(filter(None, (_quoted(item, bot) for item in _dicts(message.get("attachments")))))


def _quoted(item: Mapping[str, Any], bot: Bot) -> str:
    text = _string(item.get("text"))
    body = tokens.words(text, bot) if text else blocks.text_of(_message_blocks(item), bot)
    body = body or tokens.words(_string(item.get("fallback")), bot)
    title = tokens.words(_string(item.get("title")), bot)
    head = [_string(item.get("author_name")) or _string(item.get("service_name")), title, _string(item.get("from_url"))]
    return "\n".join(filter(None, (" · ".join(filter(None, head)), body)))


def _message_blocks(item: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = list(_dicts(item.get("blocks")))
    for part in _dicts(item.get("message_blocks")):
        message = part.get("message")
        if isinstance(message, dict):
            found += _dicts(message.get("blocks"))
    return found


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

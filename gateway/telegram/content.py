"""What a message holds besides text: files by reference, and things described in words.

https://core.telegram.org/bots/api#message
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.telegram import texts
from gateway.telegram.parsed import File

_FILES = ("animation", "audio", "document", "sticker", "story", "video", "video_note", "voice", "live_photo")


def files_of(message: Mapping[str, Any]) -> tuple[File, ...]:
    """The files of a message. Of a photo the largest size; an animation also fills ``document``: one file."""
    found: dict[str, File] = {}
    for kind in _FILES:
        item = message.get(kind)
        if isinstance(item, dict) and item.get("file_id"):
            found.setdefault(str(item.get("file_unique_id")), _file(kind, item))
    photo = _largest(message.get("photo"))
    if photo:
        found.setdefault(str(photo.get("file_unique_id")), _file("photo", photo))
    paid = message.get("paid_media")
    for item in _dicts(paid.get("paid_media")) if isinstance(paid, dict) else []:
        inside = _largest(item.get("photo")) or item.get("video")
        if isinstance(inside, dict) and inside.get("file_id"):
            found.setdefault(str(inside.get("file_unique_id")), _file(str(item.get("type")), inside))
    return tuple(found.values())


def _largest(sizes: object) -> dict[str, Any]:
    def area(size: dict[str, Any]) -> int:
        width, height = size.get("width"), size.get("height")
        return width * height if isinstance(width, int) and isinstance(height, int) else 0

    return max(_dicts(sizes), key=area, default={})


def _file(kind: str, item: Mapping[str, Any]) -> File:
    size = item.get("file_size")
    name = item.get("file_name")
    return File(
        id=str(item["file_id"]),
        name=name if isinstance(name, str) and name else f"{kind}:{item.get('file_unique_id')}",
        content_type=str(item.get("mime_type") or _type(kind, item)),
        size=size if isinstance(size, int) else 0,
        named=isinstance(name, str) and bool(name),
    )


def _type(kind: str, item: Mapping[str, Any]) -> str:
    """The media type of what comes without one."""
    if kind == "sticker":
        # https://core.telegram.org/stickers
        animated = "application/x-tgsticker" if item.get("is_animated") else "image/webp"
        return "video/webm" if item.get("is_video") else animated
    return {"photo": "image/jpeg", "video_note": "video/mp4", "voice": "audio/ogg"}.get(kind, "")


def described(message: Mapping[str, Any]) -> str:
    """In words, what a message without text shows: a place, a contact, a poll, a sticker's emoji, …"""
    found = {kind: message[kind] for kind in _DESCRIBED if isinstance(message.get(kind), dict)}
    if "venue" in found:
        found.pop("location", None)
    return "\n".join(filter(None, (_DESCRIBED[kind](value) for kind, value in found.items())))


def holds_something(message: Mapping[str, Any]) -> bool:
    """Whether a person said or sent something: any other message is Telegram's own (joins, pins, titles, …)."""
    said = any(isinstance(message.get(kind), str) for kind in ("text", "caption"))
    return said or bool(files_of(message)) or any(isinstance(message.get(kind), dict) for kind in _DESCRIBED)


def _venue(item: Mapping[str, Any]) -> str:
    return f"{item.get('title')}, {item.get('address')} ({_location(_dict(item.get('location')))})"


def _location(item: Mapping[str, Any]) -> str:
    return f"{item.get('latitude')}, {item.get('longitude')}"


def _contact(item: Mapping[str, Any]) -> str:
    name = " ".join(filter(None, (_string(item.get("first_name")), _string(item.get("last_name")))))
    return f"{name}, {_string(item.get('phone_number'))}"


def _poll(item: Mapping[str, Any]) -> str:
    options = [f"- {_string(option.get('text'))}" for option in _dicts(item.get("options"))]
    return "\n".join([_string(item.get("question")), *options])


def _dice(item: Mapping[str, Any]) -> str:
    return f"{_string(item.get('emoji'))} {item.get('value')}"


def _checklist(item: Mapping[str, Any]) -> str:
    tasks = [
        f"- [{'x' if task.get('completion_date') else ' '}] {_string(task.get('text'))}"
        for task in _dicts(item.get("tasks"))
    ]
    return "\n".join([_string(item.get("title")), *tasks])


def _titled(item: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (_string(item.get("title")), _string(item.get("description")))))


def _sticker(item: Mapping[str, Any]) -> str:
    return _string(item.get("emoji"))


def _story(item: Mapping[str, Any]) -> str:
    return texts.STORY


def _paid(item: Mapping[str, Any]) -> str:
    """Of what is not paid for, there is a preview only."""
    hidden = any(media.get("type") == "preview" for media in _dicts(item.get("paid_media")))
    return texts.PAID if hidden else ""


_DESCRIBED = {
    "sticker": _sticker,
    "dice": _dice,
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "game": _titled,
    "invoice": _titled,
    "story": _story,
    "paid_media": _paid,
}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""Talk from elsewhere as JSON lines: ``{"id", "time", "role", "text", "channel"?}``, one object a line."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from nightporter.cli import memory_texts
from workspace_store.imported import Words

ROLES = {
    "user": "user", "human": "user", "me": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant",
    "agent": "assistant", "bot": "assistant", "system": "system", "developer": "system", "tool": "tool",
    "function": "tool",
}  # fmt: skip
KEY_CHARACTERS = 512
CHANNEL_CHARACTERS = 200
TEXT_CHARACTERS = 1_000_000
MILLISECONDS_FROM = 1e11
"""A number above is milliseconds: as seconds it would be the year 5138."""
LATEST = 253_402_300_799
"""The end of the year 9999, in Unix seconds."""


class BadLine(Exception):
    """The line cannot be taken in; the text says why."""


def read(line: bytes) -> Words | None:
    """The words of a line; None for an empty one. Raises BadLine."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise BadLine(memory_texts.NOT_UTF8) from error
    if not text:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLine(memory_texts.not_json(str(error))) from error
    if not isinstance(body, dict):
        raise BadLine(memory_texts.NOT_AN_OBJECT)
    return Words(_key(body), _time(body), _role(body), _text(body), _channel(body))


def _key(body: dict[str, Any]) -> str:
    key = body.get("id")
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not isinstance(key, str) or not key.strip():
        raise BadLine(memory_texts.field_missing("id"))
    if len(key) > KEY_CHARACTERS or "\x00" in key or not key.isprintable():
        raise BadLine(memory_texts.field_wrong("id", "up to 512 printable characters"))
    return key


def _time(body: dict[str, Any]) -> int:
    """Microseconds since the epoch."""
    given = body.get("time")
    if given is None or isinstance(given, bool):
        raise BadLine(memory_texts.field_missing("time"))
    if isinstance(given, str):
        try:
            seconds = float(given) if given.replace(".", "", 1).isdigit() and len(given) > 8 else _iso(given)
        except (ValueError, OverflowError) as error:
            raise BadLine(memory_texts.field_wrong("time", "ISO 8601, or Unix seconds")) from error
    elif isinstance(given, int | float):
        seconds = float(given)
    else:
        raise BadLine(memory_texts.field_wrong("time", "ISO 8601, or Unix seconds"))
    if seconds > MILLISECONDS_FROM:
        seconds /= 1000
    if not math.isfinite(seconds) or not 0 <= seconds <= LATEST:
        raise BadLine(memory_texts.field_wrong("time", "between 1970 and 9999"))
    return round(seconds * 1e6)


def _iso(given: str) -> float:
    moment = datetime.fromisoformat(given.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _role(body: dict[str, Any]) -> str:
    role = body.get("role")
    if not isinstance(role, str) or role.strip().lower() not in ROLES:
        raise BadLine(memory_texts.field_wrong("role", "user, assistant, system or tool"))
    return ROLES[role.strip().lower()]


def _text(body: dict[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadLine(memory_texts.field_missing("text"))
    if len(text) > TEXT_CHARACTERS:
        raise BadLine(memory_texts.field_wrong("text", "up to a million characters"))
    return text


def _channel(body: dict[str, Any]) -> str:
    channel = body.get("channel")
    if channel is None:
        return ""
    if not isinstance(channel, str) or len(channel) > CHANNEL_CHARACTERS:
        raise BadLine(memory_texts.field_wrong("channel", "a name of up to 200 characters"))
    return channel.replace("\x00", "")

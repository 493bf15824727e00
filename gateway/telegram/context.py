"""What a message points at: the message it answers, a quoted part of it, or whose words it forwards.

https://core.telegram.org/bots/api#message: in a topic, ``reply_to_message`` of a plain message is the topic's creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.telegram import content, speaker, texts


def answered(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that this one answers; empty where it only stands in a topic."""
    found = _dict(message.get("reply_to_message"))
    return {} if "forum_topic_created" in found else found


def context_of(message: Mapping[str, Any]) -> str:
    """The quoted part if the sender chose one, else the words of the answered message, with who said them."""
    quote = _dict(message.get("quote")).get("text")
    outside = _dict(message.get("external_reply"))
    found = answered(message)
    text = quote if isinstance(quote, str) and quote else _words(found) or _words(outside)
    if not text:
        return texts.STORY if isinstance(message.get("reply_to_story"), dict) else ""
    author = speaker.name(_dict(found.get("from"))) or origin_name(_dict(outside.get("origin")))
    return f"{author}:\n{text}" if author else text


def _words(message: Mapping[str, Any]) -> str:
    said = message.get("text") or message.get("caption")
    if isinstance(said, str):
        return said
    files = content.files_of(message)
    return content.described(message) or ", ".join(file.name for file in files)


def forwarded_from(message: Mapping[str, Any]) -> str | None:
    """Whose words a forwarded message holds; None where it is not forwarded."""
    origin = message.get("forward_origin")
    return origin_name(origin) if isinstance(origin, dict) else None


def origin_name(origin: Mapping[str, Any]) -> str:
    """https://core.telegram.org/bots/api#messageorigin"""
    hidden = origin.get("sender_user_name")
    if isinstance(hidden, str):
        return hidden
    for place in ("sender_user", "sender_chat", "chat"):
        if isinstance(origin.get(place), dict):
            return speaker.name(origin[place])
    return ""


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

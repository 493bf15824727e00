"""Who speaks in a message: a person, a person behind a group or channel, a bot, or nobody to be answered.

https://core.telegram.org/bots/api#message: an anonymous admin speaks as GroupAnonymousBot with the group as
``sender_chat``; who speaks as a channel, as Channel_Bot with that channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.telegram.parsed import Bot

TELEGRAM = 777000
"""Service account that forwards a linked channel's posts into its discussion group."""
ANONYMOUS_ADMIN = 1087968824
CHANNEL_SPEAKER = 136817688


@dataclass(frozen=True)
class Speaker:
    """``because``: why not to answer; empty for a person."""

    user: int | None
    display: str
    because: str = ""
    anonymous: bool = False


def of(message: Mapping[str, Any], bot: Bot) -> Speaker:
    """The speaker of a message. An inline result of the agent itself is its own words, whoever sent it."""
    sender, chat = _dict(message.get("from")), _dict(message.get("chat"))
    user, display = identifier(sender), name(sender)
    behind = _dict(message.get("sender_chat"))
    if message.get("is_automatic_forward") or user == TELEGRAM:
        return Speaker(user, display, "channel")
    if user == bot.id or identifier(_dict(message.get("via_bot"))) == bot.id:
        return Speaker(user, display, "self")
    if user in {ANONYMOUS_ADMIN, CHANNEL_SPEAKER} and behind:
        title = str(message.get("author_signature") or behind.get("title") or "")
        return Speaker(identifier(behind), title, anonymous=True)
    if sender.get("is_bot") is True or message.get("sender_business_bot"):
        return Speaker(user, display, "bot")
    if not sender:
        return Speaker(None, "", "channel" if chat.get("type") == "channel" or behind else "unknown")
    return Speaker(user, display)


def identifier(item: Mapping[str, Any]) -> int | None:
    found = item.get("id")
    return found if isinstance(found, int) else None


def name(item: Mapping[str, Any]) -> str:
    """A user's or chat's name as people see it."""
    parts = (item.get("first_name"), item.get("last_name"))
    full = " ".join(part for part in parts if isinstance(part, str) and part)
    return full or str(item.get("title") or item.get("username") or "")


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

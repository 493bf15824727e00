"""One Telegram update as one ``Parsed``. https://core.telegram.org/bots/api#update

Nothing here fails on an update of an unknown shape or with new fields: what is not understood is ignored with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.telegram import messages, speaker
from gateway.telegram.parsed import Action, Bot, Parsed

_ANSWERS: dict[str, Action] = {
    "a": "approve",
    "approve": "approve",
    "d": "deny",
    "deny": "deny",
    "u": "undo",
    "undo": "undo",
    "s": "say",
}
_LIFECYCLE = frozenset(
    {"chat_member", "chat_join_request", "chat_boost", "removed_chat_boost", "business_connection"}
    | {"message_reaction_count", "poll", "poll_answer", "managed_bot"}
)
_GONE = frozenset({"kicked", "left"})


def load(body: bytes) -> dict[str, Any]:
    """An update's JSON object; empty where it is none."""
    try:
        found = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse(update: Mapping[str, Any], bot: Bot) -> Parsed:
    """One update."""
    for kind, value in update.items():
        if isinstance(value, dict):
            return _read(kind, value, bot)
    return messages.ignored("unknown")


def _read(kind: str, value: Mapping[str, Any], bot: Bot) -> Parsed:
    if kind in {"message", "edited_message"}:
        return messages.read(value, bot, edited=kind == "edited_message")
    if kind in {"business_message", "edited_business_message"}:
        return _business(value, bot, edited=kind == "edited_business_message")
    if kind in {"channel_post", "edited_channel_post"}:
        return messages.ignored("channel", None, speaker.identifier(_dict(value.get("chat"))))
    if kind == "callback_query":
        return _pressed(value)
    if kind == "my_chat_member":
        return _membership(value)
    if kind == "message_reaction":
        return _reaction(value, bot)
    if kind == "guest_message" or kind in _LIFECYCLE:
        reason = "lifecycle" if kind in _LIFECYCLE else "unknown"
        user, channel = _dict(value.get("from") or value.get("user")), _dict(value.get("chat"))
        return messages.ignored(reason, speaker.identifier(user), speaker.identifier(channel))
    return messages.ignored("unknown")


def _business(message: Mapping[str, Any], bot: Bot, *, edited: bool) -> Parsed:
    """A message to a business account; its chat is the customer, so whoever else speaks is the owner."""
    chat, sender = speaker.identifier(_dict(message.get("chat"))), speaker.identifier(_dict(message.get("from")))
    if chat != sender:
        return messages.ignored("self", sender, chat)
    return messages.read(message, bot, edited=edited)


def _pressed(query: Mapping[str, Any]) -> Parsed:
    """A button's press. The message may be gone or too old (``date`` 0): the press counts all the same."""
    message, user = _dict(query.get("message")), _dict(query.get("from"))
    chat, data = _dict(message.get("chat")), query.get("data")
    channel = speaker.identifier(chat)
    action = _ANSWERS.get(str(data).partition(":")[0])
    if action is None or not isinstance(data, str):
        return messages.ignored("unknown", speaker.identifier(user), channel)
    return Parsed(
        action=action,
        user=speaker.identifier(user),
        channel=channel,
        thread=messages.topic(message),
        dedupe_key=f"cb:{query.get('id')}",
        message_id=message["message_id"] if isinstance(message.get("message_id"), int) else 0,
        display=speaker.name(user),
        direct=chat.get("type") == "private",
        details={
            "value": data,
            "message": message.get("message_id"),
            **({"stale": True} if message.get("date") == 0 else {}),
        },
    )


def _membership(change: Mapping[str, Any]) -> Parsed:
    """In a private chat, ``kicked`` means blocked by the person."""
    chat, user = _dict(change.get("chat")), speaker.identifier(_dict(change.get("from")))
    before = _dict(change.get("old_chat_member")).get("status")
    after = _dict(change.get("new_chat_member")).get("status")
    channel = speaker.identifier(chat)
    if chat.get("type") != "private" or (before in _GONE) == (after in _GONE):
        return messages.ignored("lifecycle", user, channel)
    return Parsed("blocked" if after in _GONE else "unblocked", None, user, channel)


def _reaction(reaction: Mapping[str, Any], bot: Bot) -> Parsed:
    """A changed reaction: the emoji that is new, or that all are gone."""
    channel = speaker.identifier(_dict(reaction.get("chat")))
    user = speaker.identifier(_dict(reaction.get("user") or reaction.get("actor_chat")))
    if user == bot.id:
        return messages.ignored("self", user, channel)
    before, after = _emoji(reaction.get("old_reaction")), _emoji(reaction.get("new_reaction"))
    new = [emoji for emoji in after if emoji not in before]
    details: dict[str, Any] = {"emoji": next(reversed(new or after), None), "target": reaction.get("message_id")}
    if not after:
        details = {**details, "emoji": next(reversed(before), None), "removed": True}
    at = reaction.get("date")
    return Parsed("reaction", None, user, channel, changed_at=at if isinstance(at, int) else 0, details=details)


def _emoji(given: object) -> list[str]:
    """https://core.telegram.org/bots/api#reactiontype"""
    found = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    return [str(item.get("emoji") or item.get("custom_emoji_id") or "⭐") for item in found]


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

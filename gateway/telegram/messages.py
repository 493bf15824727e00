"""Messages: whether they count, what they say, where the answer goes.

Private chats count; in groups a mention, a reply to the agent's message or a command counts. Commands stand at the
start of the text: https://core.telegram.org/bots/features#commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.telegram import content, context, entities, speaker
from gateway.telegram.parsed import Action, Bot, Parsed

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,64})(?:@([A-Za-z0-9_]+))?")


def read(message: Mapping[str, Any], bot: Bot, *, edited: bool = False) -> Parsed:
    """A ``message`` or ``edited_message``."""
    who, chat = speaker.of(message, bot), _dict(message.get("chat"))
    channel = speaker.identifier(chat)
    if isinstance(message.get("migrate_to_chat_id"), int):
        return Parsed("migrate", None, who.user, channel, details={"new_channel": message["migrate_to_chat_id"]})
    if who.because:
        return ignored(who.because, who.user, channel)
    if chat.get("type") == "channel":
        return ignored("channel", who.user, channel)
    if not content.holds_something(message):
        return ignored("service", who.user, channel)
    text = _first_string(message, "text", "caption")
    marks = entities.read(text, message.get("entities") or message.get("caption_entities"))
    command, to = _command(text, marks)
    private = chat.get("type") == "private"
    if to and to.lower() != bot.username.lower():
        return ignored("not_addressed", who.user, channel)
    addressed = private or command or _addressed(message, marks, bot)
    said = _said(message, text, marks, command, bot, who)
    if not addressed and (edited or not said.group):
        return ignored("not_addressed", who.user, channel)
    return _edit(said, message) if edited else replace(said, needs_group=not addressed)


def decide(said: Parsed, album_addressed: bool) -> Parsed:
    """Settle what ``needs_group``: only one item of an album holds the words, and with them the mention."""
    if not said.needs_group:
        return said
    if album_addressed:
        return replace(said, needs_group=False)
    return ignored("not_addressed", said.user, said.channel)


def _said(
    message: Mapping[str, Any],
    text: str,
    marks: list[entities.Entity],
    command: str,
    bot: Bot,
    who: speaker.Speaker,
) -> Parsed:
    chat, files = _dict(message.get("chat")), content.files_of(message)
    rest = text[marks[0].end :] if command else text
    words = entities.words(rest, _after(marks, rest, text) if command else marks, bot)
    forwarded = context.forwarded_from(message)
    action: Action = "start" if command == "start" else "command" if command else "message"
    channel, message_id = speaker.identifier(chat), _number(message.get("message_id"))
    group = message.get("media_group_id")
    details = {
        "command": command or None,
        "group": group,
        "forwarded_from": forwarded,
        "anonymous": who.anonymous or None,
        "voice": True if "voice" in message else None,
        "too_big": any(file.too_big for file in files) or None,
        "business_connection_id": message.get("business_connection_id"),
        "reply_to": True if chat.get("type") in {"group", "supergroup"} else None,
    }
    return Parsed(
        action=action,
        text=words.strip() if command else words or content.described(message),
        user=who.user,
        channel=channel,
        thread=topic(message),
        dedupe_key=f"{channel}:{message_id}",
        files=files,
        context=context.context_of(message),
        message_id=message_id,
        sent_at=_number(message.get("date")),
        display=who.display,
        direct=chat.get("type") == "private",
        title=speaker.name(chat),
        forwarded=forwarded is not None,
        group=group if isinstance(group, str) else "",
        details={name: value for name, value in details.items() if value is not None},
    )


def _edit(said: Parsed, message: Mapping[str, Any]) -> Parsed:
    """An edit changes words; a live location moves without anybody saying something."""
    if isinstance(message.get("location"), dict):
        return ignored("live_location", said.user, said.channel)
    return replace(
        said,
        action="edit",
        dedupe_key=None,
        changed_at=_number(message.get("edit_date")),
        details={**said.details, "edits": said.message_id},
    )


def _command(text: str, marks: list[entities.Entity]) -> tuple[str, str]:
    """A command at the start and whom it is to; elsewhere a slash is only text (``/etc``)."""
    if not marks or marks[0].start != 0 or marks[0].kind != "bot_command":
        return "", ""
    found = _COMMAND.fullmatch(marks[0].words)
    return (found[1].lower(), found[2] or "") if found else ("", "")


def _after(marks: list[entities.Entity], rest: str, text: str) -> list[entities.Entity]:
    """The entities of what follows a command, placed in it."""
    shift = len(text) - len(rest)
    return [replace(mark, start=mark.start - shift, end=mark.end - shift) for mark in marks if mark.start >= shift]


def _addressed(message: Mapping[str, Any], marks: list[entities.Entity], bot: Bot) -> bool:
    if any(entities.mentions(mark, bot) for mark in marks):
        return True
    return speaker.identifier(_dict(context.answered(message).get("from"))) == bot.id


def topic(message: Mapping[str, Any]) -> int | None:
    """The topic to answer in; ``message_thread_id`` alone may be a mere chain of replies, which is none."""
    found = message.get("message_thread_id")
    return found if message.get("is_topic_message") is True and isinstance(found, int) else None


def ignored(reason: str, user: int | None = None, channel: int | None = None) -> Parsed:
    return Parsed("ignore", None, user, channel, details={"reason": reason})


def _first_string(message: Mapping[str, Any], *names: str) -> str:
    return next((value for value in map(message.get, names) if isinstance(value, str)), "")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

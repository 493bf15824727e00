"""Message events of the Events API: said, edited, deleted, or only bookkeeping.

https://docs.slack.dev/reference/events/message. A person's words count in a direct message, where they mention the
agent, and in a thread where it takes part; bots never count. A mention arrives as ``message`` and as ``app_mention``:
one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.slack import blocks, files, tokens
from gateway.slack.parsed import Bot, Parsed
from gateway.slack.place import Place, author, is_direct

SAID = frozenset({"", "file_share", "me_message", "thread_broadcast", "reply_broadcast"})
"""Subtypes that are a person's words; any other is a service message."""
SLACKBOT = "USLACKBOT"


@dataclass(frozen=True)
class Heard:
    """A message event with what is needed to judge it."""

    event: Mapping[str, Any]
    place: Place
    bot: Bot
    app: str
    ids: Mapping[str, Any]

    @property
    def channel(self) -> str:
        return _string(self.event.get("channel"))

    @property
    def direct(self) -> bool:
        return is_direct(self.channel, self.event.get("channel_type"))


def read(heard: Heard) -> Parsed:
    """A ``message`` or ``app_mention`` event."""
    subtype = _string(heard.event.get("subtype"))
    if subtype == "message_changed":
        return _changed(heard)
    if subtype == "message_deleted":
        return _deleted(heard)
    because = _not_a_person(heard.event, heard)
    if because:
        return _ignored(heard, because, joins=_own_thread(heard) if because == "self" else "")
    if subtype not in SAID:
        return _ignored(heard, "subtype")
    # What nobody says is nobody's: it must not become the words of whoever else has no name.
    return _said(heard) if _string(heard.event.get("user")) else _ignored(heard, "unknown")


def _said(heard: Heard) -> Parsed:
    event, bot = heard.event, heard.bot
    ts, thread_ts = _string(event.get("ts")), _string(event.get("thread_ts"))
    key = _key(heard, ts)
    addressed = heard.direct or event.get("type") == "app_mention" or _mentioned(event, bot)
    root = thread_ts and thread_ts != ts
    if not addressed and not root:
        return _ignored(heard, "not_addressed", key=key)
    found = files.files_of(event)
    thread = thread_ts or (None if heard.direct else ts)
    voice = next((file for file in found if file.voice), None)
    return Parsed(
        action="message",
        text=_text(event, bot),
        user=_string(event.get("user")) or None,
        team=heard.place.team,
        channel=heard.channel,
        thread=thread,
        dedupe_key=key,
        files=found,
        context=files.context_of(event, bot),
        ts=ts,
        client_msg_id=_string(event.get("client_msg_id")),
        needs_thread=not addressed and not _takes_part(event, bot),
        joins_thread=thread or "",
        details={
            **heard.ids,
            **author(event, heard.place),
            **({"enterprise": heard.place.enterprise} if heard.place.enterprise else {}),
            **({"voice": True} if voice else {}),
            **({"transcript": voice.transcript} if voice and voice.transcript else {}),
            **({"client_msg_id": event["client_msg_id"]} if event.get("client_msg_id") else {}),
        },
    )


def _changed(heard: Heard) -> Parsed:
    """An edit counts where a person changed words that count; link previews and titles change messages too."""
    message, before = _dict(heard.event.get("message")), _dict(heard.event.get("previous_message"))
    if message.get("subtype") == "assistant_app_thread":
        return _ignored(heard, "self")
    if message.get("subtype") == "tombstone":  # A thread's first message was deleted, its replies stay.
        return _deleted(heard)
    because = _not_a_person(message, heard)
    if because:
        return _ignored(heard, because)
    user = _string(message.get("user")) or _string(before.get("user")) or None
    if _string(message.get("subtype")) not in SAID:
        return _ignored(heard, "subtype", user=user)
    text = _text(message, heard.bot)
    same = (
        before and text == _text(before, heard.bot) and _mentioned(message, heard.bot) == _mentioned(before, heard.bot)
    )
    if not message.get("edited") or same:
        return _ignored(heard, "unfurl", user=user)
    return _about(heard, message, before, "edit", "edits", text)


def _deleted(heard: Heard) -> Parsed:
    before = _dict(heard.event.get("previous_message"))
    because = _not_a_person(before, heard)
    if because:
        return _ignored(heard, because)
    message = {**before, "ts": _string(heard.event.get("deleted_ts")) or before.get("ts")}
    return _about(heard, message, before, "delete", "deletes", None)


def _about(
    heard: Heard, message: Mapping[str, Any], before: Mapping[str, Any], action: Any, word: str, text: str | None
) -> Parsed:
    """What happens to an earlier message, if the agent could have heard that one or is named now."""
    ts, thread_ts = _string(message.get("ts")), _string(message.get("thread_ts"))
    addressed = heard.direct or _mentioned(message, heard.bot) or _mentioned(before, heard.bot)
    user = _string(message.get("user")) or _string(before.get("user")) or None
    key = _key(heard, ts)
    if not addressed and not (thread_ts and thread_ts != ts):
        return _ignored(heard, "not_addressed", key=key, user=user)
    return Parsed(
        action=action,
        text=text,
        user=user,
        team=heard.place.team,
        channel=heard.channel,
        thread=thread_ts or (None if heard.direct else ts),
        dedupe_key=key,
        files=files.files_of(message) if action == "edit" else (),
        ts=ts,
        needs_thread=not addressed and not _takes_part(message, heard.bot),
        details={**heard.ids, word: ts, **author(message, heard.place)},
    )


def _ignored(heard: Heard, reason: str, *, key: str | None = None, user: str | None = None, joins: str = "") -> Parsed:
    return Parsed(
        action="ignore",
        user=user or _string(heard.event.get("user")) or None,
        team=heard.place.team,
        channel=heard.channel or None,
        dedupe_key=key,
        joins_thread=joins,
        details={**heard.ids, "reason": reason},
    )


def _not_a_person(message: Mapping[str, Any], heard: Heard) -> str:
    """``self`` or ``bot``; empty for a person's message."""
    user, bot_id = _string(message.get("user")), _string(message.get("bot_id"))
    if user == heard.bot.user or (bot_id and bot_id == heard.bot.bot_id):
        return "self"
    if bot_id and heard.app and message.get("app_id") == heard.app:
        return "self"
    if bot_id or user == SLACKBOT or message.get("subtype") == "bot_message" or message.get("bot_profile"):
        return "bot"
    return ""


def _mentioned(message: Mapping[str, Any], bot: Bot) -> bool:
    return tokens.mentions(_string(message.get("text")), bot) or blocks.mentions(message.get("blocks"), bot)


def _takes_part(message: Mapping[str, Any], bot: Bot) -> bool:
    """Whether the event itself says that the agent is in the thread."""
    root = _dict(message.get("root"))
    answered = root.get("reply_users")
    return (
        message.get("parent_user_id") == bot.user
        or root.get("user") == bot.user
        or (isinstance(answered, list) and bot.user in answered)
    )


def _own_thread(heard: Heard) -> str:
    return _string(heard.event.get("thread_ts")) or _string(heard.event.get("ts"))


def _text(message: Mapping[str, Any], bot: Bot) -> str:
    text = _string(message.get("text"))
    return tokens.words(text, bot) if text.strip() else blocks.text_of(message.get("blocks"), bot)


def _key(heard: Heard, ts: str) -> str:
    return f"{heard.place.team}:{heard.channel}:{ts}"


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

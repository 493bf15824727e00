"""What Slack delivers, by whichever way, as one ``Parsed``: Events API, Socket Mode, interactions, slash commands.

Nothing here fails on a payload of an unknown shape: what is not understood is ignored with a reason, and acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from gateway.slack import messages, place
from gateway.slack.interactions import read_command, read_interaction
from gateway.slack.parsed import Bot, Parsed

_SOCKET_WORDS = frozenset({"hello", "disconnect"})
_INTERACTIONS = frozenset(
    {"block_actions", "view_submission", "view_closed", "message_action", "shortcut", "block_suggestion"}
)
_TWINS = frozenset({"file_shared", "file_created"})
"""Their content comes with the message that shares the file."""
_LIFECYCLE_PREFIXES = (
    "app_", "assistant_", "channel_", "group_", "im_", "mpim_", "member_", "team_", "user_", "file_", "emoji_", "pin_",
    "star_", "subteam_", "shared_channel_", "call_", "link_", "dnd_", "bot_", "workflow_", "function_", "entity_",
)  # fmt: skip


def load(body: bytes) -> dict[str, Any]:
    """A body as Slack sends it: JSON, or a form, whose ``payload`` field is JSON. Empty where it is neither."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        form = dict(parse_qsl(text.strip(), keep_blank_values=True))
        if "payload" not in form:
            return dict(form) if {"command", "ssl_check"} & form.keys() else {}
        try:
            found = json.loads(form["payload"])
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def parse(body: Mapping[str, Any], bot: Bot) -> Parsed:
    """One delivery. A message in a thread where only memory knows whether it counts has ``needs_thread``."""
    envelope_id = body.get("envelope_id")
    inner = body.get("payload")
    if isinstance(envelope_id, str) and isinstance(inner, dict):
        parsed = parse({**inner, "type": inner.get("type") or body.get("type")}, bot)
        return replace(parsed, details={**parsed.details, "ack": "envelope_id", "envelope_id": envelope_id})
    kind = body.get("type")
    if kind == "event_callback" or (kind == "events_api" and isinstance(body.get("event"), dict)):
        return _event(body, bot)
    if kind in _INTERACTIONS:
        return read_interaction(body, bot)
    if isinstance(body.get("command"), str) or body.get("ssl_check"):
        return read_command(body, bot)
    if kind == "url_verification":
        return Parsed(action="challenge", details={"respond": body.get("challenge")})
    if kind == "app_rate_limited":
        return Parsed(action="ignore", team=_string(body.get("team_id")), details={"reason": "rate_limited"})
    reason = "lifecycle" if kind in _SOCKET_WORDS else "unknown"
    return Parsed(action="ignore", team=_string(body.get("team_id")), details={"reason": reason})


def decide(parsed: Parsed, takes_part: bool) -> Parsed:
    """Settle what ``needs_thread``: without a mention it counts only where the agent takes part in the thread."""
    if not parsed.needs_thread:
        return parsed
    if takes_part:
        return replace(parsed, needs_thread=False)
    return Parsed(
        action="ignore",
        user=parsed.user,
        team=parsed.team,
        channel=parsed.channel,
        dedupe_key=parsed.dedupe_key,
        details={**parsed.details, "reason": "not_addressed"},
    )


def _event(body: Mapping[str, Any], bot: Bot) -> Parsed:
    event = body.get("event")
    if not isinstance(event, dict):
        return Parsed(action="ignore", team=_string(body.get("team_id")), details={"reason": "unknown"})
    bot = bot if bot.user else Bot(place.agent(body))
    where = place.of(body, bot)
    ids = {"event_id": body["event_id"]} if isinstance(body.get("event_id"), str) else {}
    kind = _string(event.get("type")) or ""
    if kind in {"message", "app_mention"}:
        return messages.read(messages.Heard(event, where, bot, _string(body.get("api_app_id")) or "", ids))
    if kind in {"reaction_added", "reaction_removed"}:
        return _reaction(event, where, bot, ids)
    if kind == "assistant_thread_started":
        return _opened(event, where, ids)
    if kind == "assistant_thread_context_changed":
        return _looked_elsewhere(event, where, ids)
    if kind == "app_uninstalled":
        return Parsed(action="uninstall", team=where.team, details=ids)
    if kind == "tokens_revoked" and _revokes_bot(event):
        return Parsed(action="revoke", team=where.team, details=ids)
    return _bookkeeping(event, where, ids)


def _reaction(event: Mapping[str, Any], where: place.Place, bot: Bot, ids: Mapping[str, Any]) -> Parsed:
    item = event.get("item")
    item = item if isinstance(item, dict) else {}
    channel = _string(item.get("channel"))
    user, whose = _string(event.get("user")), _string(event.get("item_user"))
    reason = ""
    if user == bot.user:
        reason = "self"
    elif item.get("type") != "message":
        reason = "unknown"
    elif whose and whose != bot.user and not place.is_direct(channel):
        reason = "not_addressed"
    if reason:
        return Parsed("ignore", None, user, where.team, channel, details={**ids, "reason": reason})
    removed = {"removed": True} if event.get("type") == "reaction_removed" else {}
    details = {**ids, "emoji": event.get("reaction"), "target": item.get("ts"), **removed}
    return Parsed("reaction", None, user, where.team, channel, details=details)


def _opened(event: Mapping[str, Any], where: place.Place, ids: Mapping[str, Any]) -> Parsed:
    thread = event.get("assistant_thread")
    thread = thread if isinstance(thread, dict) else {}
    return Parsed(
        action="welcome",
        user=_string(thread.get("user_id")),
        team=where.team,
        channel=_string(thread.get("channel_id")),
        thread=_string(thread.get("thread_ts")),
        joins_thread=_string(thread.get("thread_ts")) or "",
        details={**ids, **_viewing(thread)},
    )


def _looked_elsewhere(event: Mapping[str, Any], where: place.Place, ids: Mapping[str, Any]) -> Parsed:
    """Nothing was said; what they look at now goes with what they say next."""
    thread = event.get("assistant_thread")
    thread = thread if isinstance(thread, dict) else {}
    return Parsed(
        action="ignore",
        user=_string(thread.get("user_id")),
        team=where.team,
        channel=_string(thread.get("channel_id")),
        thread=_string(thread.get("thread_ts")),
        details={**ids, "reason": "lifecycle", **_viewing(thread)},
    )


def _viewing(thread: Mapping[str, Any]) -> dict[str, str]:
    context = thread.get("context")
    channel = _string(context.get("channel_id")) if isinstance(context, dict) else None
    return {"viewing": channel} if channel else {}


def _bookkeeping(event: Mapping[str, Any], where: place.Place, ids: Mapping[str, Any]) -> Parsed:
    kind = _string(event.get("type")) or ""
    lifecycle = kind == "tokens_revoked" or kind.startswith(_LIFECYCLE_PREFIXES)
    reason = "twin" if kind in _TWINS else "lifecycle" if lifecycle else "unknown"
    return Parsed(
        action="ignore",
        user=_string(event.get("user")) or _string(event.get("user_id")),
        team=where.team,
        channel=_string(event.get("channel")) or _string(event.get("channel_id")),
        details={**ids, "reason": reason},
    )


def _revokes_bot(event: Mapping[str, Any]) -> bool:
    """Whether a bot's token is gone; users' own tokens are none of the agent's."""
    tokens = event.get("tokens")
    return not isinstance(tokens, dict) or bool(tokens.get("bot")) or not tokens.get("oauth")


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

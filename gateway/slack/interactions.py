"""Buttons, modals and slash commands.

https://docs.slack.dev/reference/interaction-payloads and https://docs.slack.dev/interactivity/implementing-slash-commands.
What is typed into a modal is not escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from gateway.slack import blocks, tokens
from gateway.slack.parsed import Action, Bot, Parsed
from gateway.slack.place import is_direct

_ANSWER = re.compile(r"(?:.*[^a-z])?(approve|deny|undo|say)(?:[^a-z].*)?", re.IGNORECASE | re.DOTALL)
"""An action id that answers: ``approve``, ``approval_approve``, ``deny:3``; ``say`` says its value."""

_HELD = ("value", "selected_date", "selected_time", "selected_user", "selected_conversation", "selected_channel")


def read_interaction(payload: Mapping[str, Any], bot: Bot) -> Parsed:
    """An interactive payload: a button's press, a modal's answer, a shortcut."""
    kind = payload.get("type")
    if kind == "block_actions":
        return _pressed(payload)
    if kind == "view_submission":
        return _submitted(payload)
    if kind in {"message_action", "shortcut"}:
        return _shortcut(payload, bot)
    return _ignored(payload, "lifecycle" if kind == "view_closed" else "unknown")


def _pressed(payload: Mapping[str, Any]) -> Parsed:
    actions = payload.get("actions")
    action = _dict(actions[0]) if isinstance(actions, list) and actions else {}
    if action.get("url"):
        return _ignored(payload, "url_button")
    answer = _ANSWER.fullmatch(_string(action.get("action_id")))
    if not answer:
        return _ignored(payload, "unknown")
    container, message = _dict(payload.get("container")), _dict(payload.get("message"))
    team, channel = _team(payload), _channel(payload)
    message_ts = _string(container.get("message_ts")) or _string(message.get("ts"))
    thread = _string(container.get("thread_ts")) or _string(message.get("thread_ts"))
    if not thread and channel and not is_direct(channel):
        thread = message_ts
    ts = _string(action.get("action_ts"))
    return Parsed(
        action=cast("Action", answer[1].lower()),
        user=_user(payload),
        team=team,
        channel=channel,
        thread=thread or None,
        dedupe_key=f"{team}:{channel}:{ts}",
        ts=ts,
        details={
            "value": _chosen(action),
            "message": message_ts,
            "asked": _string(message.get("text")),
            "action_id": action.get("action_id"),
            "response_url": _string(payload.get("response_url")),
            **_external(payload, team),
        },
    )


def _submitted(payload: Mapping[str, Any]) -> Parsed:
    view = _dict(payload.get("view"))
    values = _dict(_dict(view.get("state")).get("values"))
    typed = [
        _chosen(_dict(field), rich=True)
        for block in values.values()
        if isinstance(block, dict)
        for field in block.values()
    ]
    return Parsed(
        action="submit",
        text="\n".join(filter(None, typed)),
        user=_user(payload),
        team=_team(payload),
        dedupe_key=f"{_string(view.get('id'))}:{_string(view.get('hash'))}",
        details={
            "callback_id": _string(view.get("callback_id")),
            "private_metadata": _string(view.get("private_metadata")),
            **_external(payload, _team(payload)),
        },
    )


def _shortcut(payload: Mapping[str, Any], bot: Bot) -> Parsed:
    message = _dict(payload.get("message"))
    team, channel = _team(payload), _channel(payload)
    said = _string(message.get("text"))
    return Parsed(
        action="command",
        text="",
        user=_user(payload),
        team=team,
        channel=channel,
        thread=_string(message.get("thread_ts")) or None,
        dedupe_key=_string(payload.get("trigger_id")) or f"{team}:{channel}:{payload.get('action_ts')}",
        context=tokens.words(said, bot) if said else blocks.text_of(message.get("blocks"), bot),
        details={"command": _string(payload.get("callback_id"))},
    )


def read_command(form: Mapping[str, Any], bot: Bot) -> Parsed:
    """A slash command's form. ``trigger_id`` is its only id of its own."""
    if form.get("ssl_check"):
        return Parsed(action="ignore", details={"reason": "lifecycle"})
    return Parsed(
        action="command",
        text=tokens.words(_string(form.get("text")).strip(), bot),
        user=_string(form.get("user_id")) or None,
        team=_string(form.get("team_id")) or None,
        channel=_string(form.get("channel_id")) or None,
        thread=_string(form.get("thread_ts")) or None,
        dedupe_key=_string(form.get("trigger_id")) or None,
        details={
            "command": _string(form.get("command")),
            "response_url": _string(form.get("response_url")),
            **({"enterprise": form["enterprise_id"]} if form.get("enterprise_id") else {}),
        },
    )


def _ignored(payload: Mapping[str, Any], reason: str) -> Parsed:
    return Parsed(
        action="ignore",
        user=_user(payload),
        team=_team(payload),
        channel=_channel(payload),
        details={"reason": reason},
    )


def _chosen(field: Mapping[str, Any], *, rich: bool = False) -> str:
    """What a block element holds: a button's value, typed text, a chosen option or several."""
    if rich and isinstance(field.get("rich_text_value"), dict):
        return blocks.text_of([field["rich_text_value"]], Bot(""))
    option = field.get("selected_option")
    if isinstance(option, dict):
        return _string(option.get("value"))
    options = field.get("selected_options")
    if isinstance(options, list):
        return ", ".join(_string(_dict(item).get("value")) for item in options)
    for name in (
        "value",
        "selected_date",
        "selected_time",
        "selected_user",
        "selected_conversation",
        "selected_channel",
    ):
        if isinstance(field.get(name), str):
            return _string(field[name])
    return ""


def _team(payload: Mapping[str, Any]) -> str | None:
    """``team`` is null where the app is installed on a whole Enterprise Grid: then the presser's."""
    team = _dict(payload.get("team")).get("id") or _dict(payload.get("user")).get("team_id")
    return _string(team) or None


def _external(payload: Mapping[str, Any], team: str | None) -> dict[str, Any]:
    """The presser's own workspace, where it is another and not of the same grid."""
    own = _string(_dict(payload.get("user")).get("team_id"))
    if not own or own == team or payload.get("enterprise"):
        return {}
    return {"user_team": own, "external": True}


def _user(payload: Mapping[str, Any]) -> str | None:
    return _string(_dict(payload.get("user")).get("id")) or None


def _channel(payload: Mapping[str, Any]) -> str | None:
    found = _dict(payload.get("channel")).get("id") or _dict(payload.get("container")).get("channel_id")
    return _string(found) or None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

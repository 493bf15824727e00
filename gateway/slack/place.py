"""Where a delivery comes from: the installed workspace, the author's workspace, the kind of conversation.

https://docs.slack.dev/apis/events-api: ``team_id`` may be another workspace's in Slack Connect channels; the
installation is in ``authorizations``, whose ``team_id`` is null for an app installed on a whole Enterprise Grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.slack.parsed import Bot


@dataclass(frozen=True)
class Place:
    """``team``: the workspace in which the agent is installed and heard this."""

    team: str | None
    enterprise: str | None
    shared: bool


def of(payload: Mapping[str, Any], bot: Bot) -> Place:
    """The place of an Events API payload."""
    installed = _installation(payload, bot)
    # Bolt's own authorisation looks at the first entry; with several, ours is the one of our bot user.
    team = _string(installed.get("team_id")) or _string(payload.get("context_team_id"))
    enterprise = _string(payload.get("enterprise_id")) or _string(installed.get("enterprise_id"))
    return Place(team or _string(payload.get("team_id")), enterprise, payload.get("is_ext_shared_channel") is True)


def agent(payload: Mapping[str, Any]) -> str:
    """The agent's user id as the payload has it, for who does not know it otherwise."""
    return _string(_installation(payload, Bot("")).get("user_id")) or ""


def _installation(payload: Mapping[str, Any], bot: Bot) -> Mapping[str, Any]:
    given = payload.get("authorizations")
    found = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    ours = [item for item in found if item.get("user_id") == bot.user]
    return (ours or found or [{}])[0]


def author(message: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The author's own workspace where it is another one: an external (Slack Connect) user."""
    team = _string(message.get("user_team")) or _string(message.get("source_team")) or _string(message.get("team"))
    if not team or not place.team or team == place.team or team == place.enterprise:
        return {}
    if place.enterprise and not place.shared:
        return {}  # Another workspace of the same grid.
    return {"user_team": team, "external": True}


def is_direct(channel: str | None, channel_type: object = None) -> bool:
    """A conversation of one person and the agent; a group DM is not."""
    return channel_type == "im" or (channel or "").startswith("D")


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

"""What Slack says of a person, asked once: the mail address of a member of a trusted team.

https://docs.slack.dev/reference/methods/users.info. Guests, bots, and people of other workspaces (Slack Connect) have
none that counts, nor has an address that its owner has not confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.slack import outcomes
from identity.vouching import NONE

log = structlog.get_logger()

REMEMBERED = 10_000


@dataclass
class People:
    """``trusted``: the teams whose word about mail counts."""

    trusted: frozenset[str] = frozenset()
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    async def mail_of(self, client: AsyncWebClient, team: str, user: str) -> str:
        """The address that Slack vouches for, ``NONE`` where there is none; empty where Slack cannot be asked now."""
        if team not in self.trusted or not user:
            return ""
        if (team, user) not in self._known:
            try:
                answer = await client.users_info(user=user)
            except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
                log.warning("slack cannot say who somebody is", team=team, reason=str(error))
                return ""
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[team, user] = _vouched(answer.get("user") or {}, team)
        return self._known[team, user]


_EXCLUDED = (
    "deleted", "is_bot", "is_app_user", "is_workflow_bot", "is_restricted", "is_ultra_restricted", "is_stranger",
)  # fmt: skip


def _vouched(person: Mapping[str, Any], team: str) -> str:
    profile = person.get("profile")
    address = profile.get("email") if isinstance(profile, dict) else None
    excluded = any(person.get(name) for name in _EXCLUDED)
    if excluded or person.get("team_id") != team or person.get("is_email_confirmed") is not True:
        return NONE
    return address if isinstance(address, str) and address.count("@") == 1 else NONE

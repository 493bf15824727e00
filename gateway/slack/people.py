"""What Slack says of a person, asked once: their name, and the mail address of a member of a trusted team.

https://docs.slack.dev/reference/methods/users.info. A name is for reading only: nothing is decided by it, and nothing
waits long for it. Guests, bots, and people of other workspaces (Slack Connect) have no address that counts, nor has an
address that its owner has not confirmed.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.slack import outcomes
from identity.vouching import NONE

log = structlog.get_logger()

REMEMBERED = 10_000
REMEMBERED_SECONDS = 24 * 3600.0
AGAIN_SECONDS = 60.0
"""When Slack could not say who somebody is: nobody else's message waits for that so soon again."""
NAME_SECONDS = 0.7


@dataclass(frozen=True)
class _Person:
    name: str
    mail: str
    until: float


@dataclass
class People:
    """``trusted``: the teams whose word about mail counts."""

    trusted: frozenset[str] = frozenset()
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[tuple[str, str], _Person] = field(default_factory=OrderedDict)
    _asking: dict[tuple[str, str], asyncio.Task[_Person]] = field(default_factory=dict)

    async def mail_of(self, client: AsyncWebClient, team: str, user: str) -> str:
        """The address that Slack vouches for, ``NONE`` where there is none; empty where Slack cannot be asked now."""
        if team not in self.trusted or not user:
            return ""
        return (await self._person(client, team, user)).mail

    async def name_of(self, client: AsyncWebClient, team: str, user: str) -> str:
        """The name a person goes by; empty where Slack does not say in a moment: it is known the next time."""
        if not user:
            return ""
        try:
            async with asyncio.timeout(NAME_SECONDS):
                return (await self._person(client, team, user)).name
        except TimeoutError:
            return ""

    async def _person(self, client: AsyncWebClient, team: str, user: str) -> _Person:
        key = (team, user)
        known = self._known.get(key)
        if known is not None and known.until > self.clock():
            return known
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask(client, team, user))
        # Whoever stops waiting does not stop the question.
        return await asyncio.shield(self._asking[key])

    async def _ask(self, client: AsyncWebClient, team: str, user: str) -> _Person:
        key = (team, user)
        try:
            said: Mapping[str, Any] = (await client.users_info(user=user)).get("user") or {}
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            log.warning("slack cannot say who somebody is", team=team, reason=str(error))
            person = _Person("", "", self.clock() + AGAIN_SECONDS)
        else:
            person = _Person(_name(said), _vouched(said, team), self.clock() + REMEMBERED_SECONDS)
        finally:
            self._asking.pop(key, None)
        # Of a trusted team, what is not known is asked again with the next message: identity depends on it.
        if person.mail or team not in self.trusted:
            self._known[key] = person
            self._known.move_to_end(key)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return person


def _name(person: Mapping[str, Any]) -> str:
    profile = person.get("profile")
    given = [profile.get("display_name"), profile.get("real_name")] if isinstance(profile, dict) else []
    names = [*given, person.get("real_name"), person.get("name")]
    return next((" ".join(name.split())[:80] for name in names if isinstance(name, str) and name.strip()), "")


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

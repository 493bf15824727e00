"""The workspaces in which the agent is installed: its token and who it is there."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.slack import outcomes, texts
from gateway.slack.config import SlackConfig
from gateway.slack.parsed import Bot

log = structlog.get_logger()

REQUEST_SECONDS = 15
AGAIN_SECONDS = 30.0


@dataclass
class Installation:
    """``disabled``: why nothing is sent there any more, ``trouble``: why it was not the last time; else empty."""

    team: str
    bot: Bot
    client: AsyncWebClient
    enterprise: str = ""
    disabled: str = ""
    trouble: str = ""
    looked_at: float = float("-inf")


class UnknownWorkspace(Exception):
    """No token is set for a workspace."""


@dataclass
class Installations:
    """Asks Slack once who the agent is, and remembers."""

    config: SlackConfig
    session: aiohttp.ClientSession
    _found: dict[str, Installation] = field(default_factory=dict)
    _pending: list[str] | None = None
    _wrong: dict[str, str] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def client(self, token: str | None = None) -> AsyncWebClient:
        """A client that never repeats a request by itself: a repeated ``chat.postMessage`` is a second message."""
        return AsyncWebClient(
            token, self.config.api_url, timeout=REQUEST_SECONDS, session=self.session, retry_handlers=[]
        )

    async def load(self) -> None:
        """Find out who the agent is. Raises SlackApiError, OSError and the like where Slack cannot be asked."""
        async with self._lock:
            if self._pending is None:
                self._pending = list(self.config.tokens)
            while self._pending:
                token = self._pending[-1]
                client = self.client(token)
                try:
                    who = await client.auth_test()
                except SlackApiError as error:
                    code = outcomes.error_code(error)
                    if code not in outcomes.CREDENTIALS:
                        raise
                    self._wrong[token[-4:]] = texts.bad_credentials(code)
                else:
                    bot = Bot(str(who.get("user_id") or ""), str(who.get("bot_id") or ""))
                    team, enterprise = str(who.get("team_id") or ""), str(who.get("enterprise_id") or "")
                    self._found[team] = Installation(team, bot, client, enterprise)
                self._pending.pop()

    async def of(self, team: str | None) -> Installation:
        """A workspace's installation; that of its grid where the app is installed there. Raises UnknownWorkspace."""
        await self.load()
        if team in self._found:
            return self._found[team]
        for installation in self._found.values():
            if installation.enterprise and installation.team in {installation.enterprise, ""}:
                return installation
        raise UnknownWorkspace(texts.no_installation(team or "?"))

    def known(self, team: str | None) -> Installation | None:
        return self._found.get(team or "")

    async def look_again(self, installation: Installation) -> None:
        """Whether a workspace that was off is on again, now and then."""
        now = asyncio.get_running_loop().time()
        if now - installation.looked_at < AGAIN_SECONDS:
            return
        installation.looked_at = now
        with contextlib.suppress(SlackApiError, *outcomes.CONNECTION_ERRORS):
            await installation.client.auth_test()
            installation.disabled = ""
            log.info("slack is on again in a workspace", team=installation.team)

    def wrong(self) -> list[str]:
        """What does not work, for people to read."""
        told = {item.team: item.disabled or item.trouble for item in self._found.values()}
        return [*self._wrong.values(), *(f"{team}: {reason}" for team, reason in told.items() if reason)]

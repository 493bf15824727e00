"""The platform channels that are configured; a platform's library is imported only when its channel is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
from starlette.routing import BaseRoute

from gateway.changes import Changed
from gateway.channel import Channel
from gateway.conversations import StoredConversations
from gateway.files import Fetched, reader
from gateway.progress import OutboxProgress
from gateway.reading import OneReader
from gateway.settings import SlackSettings, TelegramSettings
from router.doors import Doors
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store.blobs import Blobs
from workspace_store.database import Database

log = structlog.get_logger()

Accept = Callable[[Envelope], Awaitable[Accepted | None]]


class Platform(Channel, Protocol):
    """A channel that has a life of its own: connections, pollers, routes for what the platform calls."""

    async def fetch(self, account: str, file: str, most: int) -> Fetched:
        """A file that somebody sent, of at most ``most`` bytes. Raises NoFile and NotYet."""
        ...

    async def start(self) -> None:
        """Begin to take deliveries; before ``routes``. Does not wait for the platform, nor fail without it."""
        ...

    async def close(self) -> None: ...

    def routes(self) -> Sequence[BaseRoute]:
        """What the platform calls. Each checks the platform's own proof, not the bearer token."""
        ...

    def wrong(self) -> list[str]:
        """What keeps the channel from working, a sentence each."""
        ...


@dataclass(frozen=True)
class PlatformSettings:
    slack: SlackSettings
    telegram: TelegramSettings
    trusted_teams: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KeepAside:
    """Keeps what cannot be recorded as a blob in quarantine, so that one delivery never blocks what follows it."""

    blobs: Blobs
    source: str

    async def __call__(self, delivery: Mapping[str, Any], why: str) -> None:
        body = json.dumps({"why": why, "delivery": delivery}, default=str).encode("utf-8", "replace")
        blob = await asyncio.to_thread(self.blobs.quarantine, self.source, body)
        log.error("a delivery could not be recorded and was kept aside", channel=self.source, why=why, blob=blob)


def configured(
    settings: PlatformSettings,
    accept: Accept,
    changed: Changed,
    database: Database,
    claimer: str,
    lives: Path,
    blobs: Blobs,
    doors: Doors,
) -> list[Platform]:
    """The platforms whose tokens are set."""
    progress = OutboxProgress(database, claimer)
    found: list[Platform] = []
    if settings.slack.bot_token:
        from gateway.slack.channel import SlackChannel
        from gateway.slack.config import SlackConfig
        from gateway.slack.threads import answered_in

        slack = settings.slack
        config = SlackConfig(
            slack.bot_token, slack.app_token, slack.signing_secret, slack.api_url, settings.trusted_teams
        )
        aside = KeepAside(blobs, "slack")
        thread = answered_in(database)
        found.append(SlackChannel(config, accept, progress, thread, changed, aside, reader(blobs)))
    if settings.telegram.token:
        from gateway.telegram.channel import TelegramChannel
        from gateway.telegram.config import TelegramConfig

        bot = settings.telegram
        telegram = TelegramConfig(bot.token, bot.api_url, bot.webhook_url, bot.webhook_secret, bot.business)
        aside, stored = KeepAside(blobs, "telegram"), StoredConversations(database, "telegram")
        reading = OneReader(database, lives, claimer)
        files = reader(blobs)
        found.append(TelegramChannel(telegram, accept, progress, changed, aside, stored, reading, doors, files))
    return found

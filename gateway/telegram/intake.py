"""From updates to the inbox: read, joined where several are one message, recorded; only then confirmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from gateway.changes import Changed
from gateway.conversations import Conversations, Unchanged
from gateway.telegram import texts
from gateway.telegram.albums import Albums
from gateway.telegram.envelopes import change_of, envelope_of
from gateway.telegram.parse import parse
from gateway.telegram.parsed import ACTS, Bot, Parsed
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store.database import DatabaseUnavailable

log = structlog.get_logger()

Accept = Callable[[Envelope], Awaitable[Accepted | None]]
Quarantine = Callable[[Mapping[str, Any], str], Awaitable[None]]
"""(update, why) → kept aside: what cannot be recorded must not hold up what follows."""


@dataclass
class Intake:
    """``heard`` is told of what was recorded, for signs of life, ``unanswered`` of presses that get no answer."""

    bot: Bot
    accept: Accept
    changed: Changed
    heard: Callable[[Envelope], None]
    unanswered: Callable[[str], None]
    quarantine: Quarantine
    business: bool = False
    conversations: Conversations = field(default_factory=Unchanged)
    albums: Albums = field(default_factory=Albums)

    def read(self, update: Mapping[str, Any]) -> Parsed:
        parsed = parse(update, self.bot)
        if parsed.details.get("business_connection_id") and not self.business:
            return Parsed("ignore", details={"reason": "business"})
        return parsed

    async def record(self, updates: Sequence[tuple[Mapping[str, Any], Parsed]]) -> None:
        """Record updates in their order. Raises DatabaseUnavailable: some are not recorded, all are to come again."""
        for update, read in updates:
            for parsed in self.albums.judge(read):
                try:
                    await self._record(parsed, int(update.get("update_id") or 0))
                except DatabaseUnavailable:
                    raise
                except Exception as error:
                    log.exception("a telegram update could not be recorded", key=parsed.dedupe_key)
                    await self.quarantine(update, f"{type(error).__name__}: {error}")

    async def _record(self, parsed: Parsed, update: int) -> None:
        if parsed.action in ACTS:
            envelope = envelope_of(parsed, self.bot)
            accepted = await self.accept(envelope)
            if (parsed.dedupe_key or "").startswith("cb:"):
                if accepted is None or accepted.duplicate:
                    self.unanswered(str(parsed.dedupe_key).removeprefix("cb:"))
            elif accepted and not accepted.duplicate and not accepted.acted:
                self.heard(envelope)
        elif parsed.action == "migrate":
            await self.conversations.moved(str(self.bot.id), str(parsed.channel), str(parsed.details["new_channel"]))
        elif parsed.action == "blocked":
            await self.conversations.closed(str(self.bot.id), str(parsed.channel), texts.BLOCKED)
        elif parsed.action == "unblocked":
            await self.conversations.opened(str(self.bot.id), str(parsed.channel), texts.BLOCKED)
        elif parsed.action in {"edit", "reaction"}:
            await self.changed(change_of(parsed, self.bot, update))
        else:
            log.debug("telegram update", action=parsed.action, reason=parsed.details.get("reason"))

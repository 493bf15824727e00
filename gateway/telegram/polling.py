"""Long polling: updates are recorded, then the offset advances; what is not recorded comes again.

https://core.telegram.org/bots/api#getupdates. After a start and after a day of silence it asks without an offset: ids
begin anew at random after a quiet week, and the inbox knows what it has.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import structlog
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError
from telegram.request import BaseRequest

from gateway.telegram import outcomes, texts
from gateway.telegram.intake import Intake
from router.bells import let_ring
from workspace_store.database import DatabaseUnavailable

log = structlog.get_logger()

POLL_SECONDS = 25
LIMIT = 100
SILENCE_SECONDS = 24 * 3600.0
RETRY_SECONDS = 1.0
CONFLICT_SECONDS = 5.0
ALLOWED = ("message", "edited_message", "callback_query", "my_chat_member", "message_reaction")
BUSINESS = ("business_message", "edited_business_message")

Update = Mapping[str, Any]


@dataclass
class Polling:
    """``url``: of the method, with the token. ``wrong``: why nothing comes, for people to read."""

    request: BaseRequest
    url: str
    intake: Intake
    clock: Callable[[], float] = time.monotonic
    wrong: str = ""
    _offset: int | None = None
    _heard_at: float = 0.0

    async def run(self) -> None:
        """Poll until cancelled."""
        self._heard_at = self.clock()
        while True:
            try:
                await self._round()
            except DatabaseUnavailable as error:
                log.warning("telegram updates not recorded; they come again", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except TelegramError as error:
                await asyncio.sleep(self._wait_after(error))
            else:
                self.wrong = ""

    async def _round(self) -> None:
        if self.clock() - self._heard_at > SILENCE_SECONDS:
            self._offset = None
        updates = await self._get(POLL_SECONDS)
        if not updates:
            return
        self._heard_at = self.clock()
        await self.intake.record([(update, self.intake.read(update)) for update in updates])
        self._offset = max(int(update["update_id"]) for update in updates) + 1
        await let_ring()

    async def _get(self, seconds: int) -> list[Update]:
        # As plain JSON: the library's own reading of updates fails as a whole where one has an unknown shape.
        asked: dict[str, Any] = {"timeout": seconds, "limit": LIMIT, "allowed_updates": json.dumps(self._allowed())}
        if self._offset is not None:
            asked["offset"] = self._offset
        found: Any = await self.request.post(f"{self.url}?{urlencode(asked)}", read_timeout=seconds + 10)
        return [update for update in found if isinstance(update, dict)] if isinstance(found, list) else []

    def _allowed(self) -> list[str]:
        return [*ALLOWED, *BUSINESS] if self.intake.business else [*ALLOWED]

    def _wait_after(self, error: TelegramError) -> float:
        if isinstance(error, Conflict):
            set_elsewhere = "webhook" in error.message.lower()
            self.wrong, wait = texts.WEBHOOK_ELSEWHERE if set_elsewhere else texts.CONFLICT, CONFLICT_SECONDS
        elif isinstance(error, InvalidToken):
            self.wrong, wait = texts.BAD_TOKEN, outcomes.TOKEN_RETRY_SECONDS
        elif isinstance(error, RetryAfter):
            return outcomes.seconds_of(error)
        else:
            self.wrong, wait = texts.unreachable(error.message), RETRY_SECONDS
        log.warning("no telegram updates", reason=self.wrong)
        return wait

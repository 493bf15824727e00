"""Typing: shown from when a message is heard until its answer goes out. Telegram ends it after 5 s by itself.

An answer that comes as quickly as one can look is its own sign of life.

https://core.telegram.org/bots/api#sendchataction
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog
from telegram import Bot
from telegram.error import TelegramError

log = structlog.get_logger()

FIRST_SECONDS = 0.1
AGAIN_SECONDS = 4.5
MOST_SECONDS = 120.0


@dataclass
class Typing:
    """By (conversation, thread)."""

    bot: Bot
    _shown: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)

    def begin(self, conversation: str, thread: str, business: str | None = None) -> None:
        key = (conversation, thread)
        if key not in self._shown:
            self._shown[key] = asyncio.create_task(self._show(key, business))

    def end(self, conversation: str, thread: str) -> None:
        task = self._shown.pop((conversation, thread), None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._shown.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self, key: tuple[str, str], business: str | None) -> None:
        conversation, thread = key
        topic = int(thread) if thread else None
        try:
            await asyncio.sleep(FIRST_SECONDS)
            for _ in range(int(MOST_SECONDS / AGAIN_SECONDS)):
                await self.bot.send_chat_action(int(conversation), "typing", topic, business)
                await asyncio.sleep(AGAIN_SECONDS)
        except TelegramError as error:
            log.debug("no typing", reason=error.message)
        finally:
            if self._shown.get(key) is asyncio.current_task():
                del self._shown[key]

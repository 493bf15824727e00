"""The Telegram channel: updates in by polling or webhook, replies out. Imported only where Telegram is configured."""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import httpx
import structlog
import telegram
from starlette.routing import Route
from telegram.error import InvalidToken, TelegramError
from telegram.request import HTTPXRequest

from gateway.changes import Changed, drop
from gateway.channel import Outcome, Sent
from gateway.conversations import Conversations, Unchanged
from gateway.drafts import Showing, Shown
from gateway.files import Fetched, NoFile, Read, nothing_kept
from gateway.progress import Progress
from gateway.reading import Alone, Reading
from gateway.telegram import menu, outcomes, polling, texts, webhook
from gateway.telegram.config import TelegramConfig
from gateway.telegram.drafts import PACE_SECONDS, Drafts
from gateway.telegram.envelopes import NAME
from gateway.telegram.intake import Accept, Intake, Quarantine
from gateway.telegram.parsed import Bot
from gateway.telegram.send import Sender
from gateway.telegram.typing import Typing
from gateway.texts import file_too_large
from router.doors import Doors
from router.envelope import Envelope
from workspace_store.outbox import Reply

log = structlog.get_logger()

RETRY_SECONDS = 5.0
WEBHOOK_LOOK_SECONDS = 60.0
FAILING_SECONDS = 180.0
"""An error of a delivery is told for so long, while others wait."""
DOWNLOAD_SECONDS = 55.0
CONNECTIONS = 64


async def log_only(update: Mapping[str, Any], why: str) -> None:
    log.error("set aside", update_id=update.get("update_id"), reason=why)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once: each client would take 25 ms and a megabyte for its own."""
    return httpx.create_ssl_context()


class TelegramChannel:
    """``start`` before use, ``close`` after; both in the loop that serves ``routes``."""

    name = NAME
    pace = PACE_SECONDS

    def __init__(
        self,
        config: TelegramConfig,
        accept: Accept,
        progress: Progress,
        changed: Changed = drop,
        quarantine: Quarantine = log_only,
        conversations: Conversations | None = None,
        reading: Reading | None = None,
        doors: Doors | None = None,
        files: Read = nothing_kept,
    ) -> None:
        self._config = config
        self._doors = doors or Doors()
        self._accept = accept
        self._changed = changed
        self._quarantine = quarantine
        self._conversations = conversations or Unchanged()
        self._reading = reading or Alone()
        tls = {"verify": _certificates()}
        self._request = HTTPXRequest(
            CONNECTIONS, read_timeout=15, write_timeout=15, connect_timeout=5, pool_timeout=10, httpx_kwargs=tls
        )
        self._polling_request = HTTPXRequest(1, read_timeout=40, connect_timeout=10, httpx_kwargs=tls)
        self._bot = telegram.Bot(
            config.token,
            base_url=f"{config.api_url.rstrip('/')}/bot",
            base_file_url=f"{config.api_url.rstrip('/')}/file/bot",
            request=self._request,
            get_updates_request=self._polling_request,
        )
        self._drafts = Drafts(self._bot)
        self._sender = Sender(self._bot, progress, self._conversations, files)
        self._typing = Typing(self._bot)
        self._intake: Intake | None = None
        self._polling: polling.Polling | None = None
        self._webhook = webhook.Webhook(config.secret, lambda: self._intake)
        self._wrong = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to take updates. Does not wait for Telegram, nor fail without it."""
        self._spawn(self._run())

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._typing.close()
        await self._request.shutdown()
        await self._polling_request.shutdown()

    def routes(self) -> list[Route]:
        """``POST /telegram/webhook``, where a webhook is set up. Its secret header stands for our token."""
        return [Route(webhook.PATH, self._webhook_endpoint, methods=["POST"])] if self._config.webhook_url else []

    async def _webhook_endpoint(self, request: Any) -> Any:
        return await self._webhook(request)

    def wrong(self) -> list[str]:
        """What does not work and what to do, for ``status``; empty: all is well."""
        return [reason for reason in (self._wrong, self._polling.wrong if self._polling else "") if reason]

    async def send(self, reply: Reply) -> Outcome:
        """Send a reply; one of unknown fate once more, said to be possibly repeated."""
        self._typing.end(reply.conversation, reply.thread)
        data = reply.content.get("reply") or {}
        if reply.edits is not None:
            return await self._sender.edit(reply)
        if data.get("query") and await self._answer_press(reply, str(data["query"])):
            return Sent(None)
        return await self._sender.send(reply)

    async def show(self, draft: Reply, known: str | None, showing: Showing) -> Shown:
        """Show what a turn has come to so far. Raises NotShown, NotYet."""
        return await self._drafts.show(draft, known, showing)

    async def fetch(self, account: str, file: str, most: int) -> Fetched:
        """An attachment ``telegram:ID``. Raises NoFile and NotYet."""
        try:
            found = await self._bot.get_file(file.removeprefix(f"{NAME}:"))
            if (found.file_size or 0) > most:
                raise NoFile(file_too_large(most))
            return Fetched(bytes(await found.download_as_bytearray(read_timeout=DOWNLOAD_SECONDS)))
        except TelegramError as error:
            raise outcomes.of_file_error(error) from error

    async def _run(self) -> None:
        """Learn who the agent is, say which commands there are, then poll or have updates sent."""
        me = await self._insist(self._bot.get_me)
        bot = Bot(me.username or "", me.id)
        self._doors.telegram = bot.username
        self._intake = Intake(
            bot,
            self._accept,
            self._changed,
            self._heard,
            self._unanswered,
            self._quarantine,
            self._config.business,
            self._conversations,
        )
        self._spawn(menu.offer(self._bot))
        if self._config.webhook_url:
            await self._keep_webhook()
        else:
            await self._reading.while_ours(f"{NAME}:{bot.id}", self._poll)

    async def _poll(self) -> None:
        assert self._intake is not None
        await self._insist(self._bot.delete_webhook)
        url = f"{self._bot.base_url}/getUpdates"
        self._polling = polling.Polling(self._polling_request, url, self._intake)
        try:
            await self._polling.run()
        finally:
            # Whoever reads now says what is wrong.
            self._polling = None

    async def _keep_webhook(self) -> None:
        """Have updates sent, and look now and then whether they get through."""
        while True:
            await self._insist(self._set_webhook)
            while True:
                await asyncio.sleep(WEBHOOK_LOOK_SECONDS)
                found = await self._insist(self._bot.get_webhook_info)
                if found.url != self._config.webhook_url:
                    break
                since = time.time() - found.last_error_date.timestamp() if found.last_error_date else float("inf")
                failing = since < FAILING_SECONDS and found.pending_update_count > 0
                self._wrong = texts.webhook_fails(str(found.last_error_message)) if failing else ""

    async def _insist(self, ask: Any) -> Any:
        """Ask until there is an answer."""
        while True:
            try:
                found = await ask()
            except InvalidToken:
                self._wrong = texts.BAD_TOKEN
            except TelegramError as error:
                self._wrong = texts.unreachable(error.message)
            else:
                self._wrong = ""
                return found
            log.error("telegram does not work", reason=self._wrong)
            await asyncio.sleep(RETRY_SECONDS)

    async def _set_webhook(self) -> None:
        allowed = [*polling.ALLOWED, *(polling.BUSINESS if self._config.business else ())]
        await self._bot.set_webhook(
            self._config.webhook_url, allowed_updates=allowed, secret_token=self._config.secret, max_connections=40
        )

    # Signs of life

    def _heard(self, envelope: Envelope) -> None:
        self._typing.begin(envelope.conversation, envelope.thread, envelope.reply.get("business"))

    def _unanswered(self, query: str) -> None:
        """A press that nobody will answer: it came before, or from somebody who may not speak."""
        self._spawn(self._end_progress(query))

    async def _end_progress(self, query: str) -> None:
        try:
            await self._bot.answer_callback_query(query)
        except TelegramError as error:
            log.debug("press not answered", reason=error.message)

    async def _answer_press(self, reply: Reply, query: str) -> bool:
        """Answer a press where it was made: a note in passing, or a window for what needs explaining; False: too late.

        https://core.telegram.org/bots/api#answercallbackquery
        """
        text = str(reply.content.get("text") or "")
        decided = bool(reply.content.get("decided"))
        try:
            await self._bot.answer_callback_query(query, texts.shortened(text), show_alert=not decided)
        except TelegramError as error:
            log.debug("press not answered", reason=error.message)
            # What was decided is said by the question itself.
            return decided
        return True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

"""The Slack channel: deliveries in by Bolt, replies out by the Web API. Imported only where Slack is configured."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError
from starlette.routing import Route

from gateway.changes import Changed, drop
from gateway.channel import Outcome, Refused, Retry, Sent
from gateway.drafts import NotNow, NotShown, Showing, Shown
from gateway.files import Fetched, NoFile, NotYet, Read, files_of, nothing_kept
from gateway.progress import Progress
from gateway.slack import answers, app, downloads, outcomes, texts
from gateway.slack.config import SlackConfig
from gateway.slack.direct import Direct, is_person
from gateway.slack.drafts import PACE_SECONDS, Drafts
from gateway.slack.installations import REQUEST_SECONDS, Installation, Installations, UnknownWorkspace
from gateway.slack.intake import NAME, Accept, Intake, TakesPart
from gateway.slack.people import People
from gateway.slack.send import Sender
from gateway.slack.target import Target
from gateway.slack.uploads import Uploads
from workspace_store.outbox import Reply

log = structlog.get_logger()


async def log_only(delivery: Mapping[str, Any], why: str) -> None:
    log.error("set aside", event=delivery.get("event_id"), reason=why)


class SlackChannel:
    """``start`` before ``routes`` and ``send``, ``close`` after; all in one loop.

    ``takes_part`` says from the database whether the agent has answered in a thread; see ``gateway.slack.threads``.
    """

    name = NAME
    pace = PACE_SECONDS

    def __init__(
        self,
        config: SlackConfig,
        accept: Accept,
        progress: Progress,
        takes_part: TakesPart,
        changed: Changed = drop,
        quarantine: app.Quarantine = log_only,
        files: Read = nothing_kept,
    ) -> None:
        self._config = config
        self._accept = accept
        self._takes_part = takes_part
        self._changed = changed
        self._quarantine = quarantine
        self._drafts = Drafts()
        self._progress, self._files = progress, files
        self._direct = Direct()
        self._working: list[asyncio.Task[None]] = []
        self._socket: app.Socket | None = None

    async def start(self) -> None:
        """Begin to take deliveries. Does not wait for Slack, nor fail without it."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)
        self._installations = Installations(self._config, self._session)
        uploads = Uploads(self._session, self._config.api_url)
        self._sender = Sender(self._progress, self._drafts, uploads, self._files)
        self._intake = Intake(
            self._installations, self._accept, self._takes_part, self._changed, People(self._config.trusted_teams)
        )
        client = self._installations.client()
        bolt = app.build(self._config, client, self._intake.handle, self._quarantine)
        self._endpoint = app.endpoint(bolt)
        if self._config.app_token:
            self._socket = app.Socket(bolt, self._config.app_token, client)
            self._working.append(asyncio.create_task(self._socket.run()))
        self._working.append(asyncio.create_task(self._introduce()))

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._session.close()

    def routes(self) -> list[Route]:
        """``POST /slack/events``, where a signing secret is set. Slack signs it: no token of ours."""
        if not self._config.signing_secret:
            return []
        return [Route(app.PATH, self._endpoint, methods=["POST"])]

    def wrong(self) -> list[str]:
        """What does not work and what to do, for ``status``; empty: all is well."""
        found = self._installations.wrong()
        return [*found, self._socket.wrong] if self._socket is not None and self._socket.wrong else found

    async def send(self, reply: Reply) -> Outcome:
        """Send a reply; one of unknown fate is looked for in its conversation first."""
        try:
            installation = await self._installations.of(reply.account)
        except UnknownWorkspace as error:
            wrong = self._installations.wrong()
            return Retry(wrong[0], outcomes.CREDENTIALS_RETRY_SECONDS) if wrong else Refused(str(error))
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            return Retry(texts.unreachable(str(error)), outage=True)
        if installation.disabled:
            return Refused(installation.disabled)
        outcome = await self._answer(reply, installation)
        refused = isinstance(outcome, Retry) and outcome.seconds == outcomes.CREDENTIALS_RETRY_SECONDS
        installation.trouble = outcome.reason if isinstance(outcome, Retry) and refused else ""
        return outcome

    async def _answer(self, reply: Reply, installation: Installation) -> Outcome:
        data = reply.content.get("reply") or {}
        conversation, thread = reply.conversation, reply.thread
        if reply.edits is not None:
            return await self._sender.edit(reply, Target(installation.client, conversation, thread))
        if data.get("pressed") and reply.content.get("decided"):
            # The question loses its buttons and says so itself.
            return Sent(None)
        if data.get("private"):
            url = str(data.get("response_url") or "")
            text = str(reply.content.get("text") or "")
            # Such an answer carries no files; those, and their words with them, go to the direct conversation.
            here = answers.is_slacks(url, self._config.api_url) and not files_of(reply)
            if here and await answers.only_for_you(self._session, url, text):
                return Sent(None, repeated=reply.was_sending)
            conversation, thread = str(data.get("user") or conversation), ""
        if is_person(conversation):
            opened = await self._direct.conversation(installation, conversation)
            if isinstance(opened, Retry):
                return opened
            conversation = opened
        target = Target(installation.client, conversation, thread, installation.bot.user)
        return await self._sender.send(reply, target)

    async def show(self, draft: Reply, known: str | None, showing: Showing) -> Shown:
        """Show what a turn has come to so far. Raises NotShown, NotNow."""
        try:
            installation = await self._installations.of(draft.account)
        except UnknownWorkspace as error:
            raise NotShown(str(error)) from error
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            raise NotNow(str(error)) from error
        if installation.disabled:
            raise NotShown(installation.disabled)
        target = Target(installation.client, draft.conversation, draft.thread, installation.bot.user)
        return await self._drafts.show(draft, known, showing, target)

    async def fetch(self, account: str, file: str, most: int) -> Fetched:
        """An attachment ``slack:ID``. Raises NoFile and NotYet."""
        try:
            installation = await self._installations.of(account)
        except UnknownWorkspace as error:
            raise NoFile(str(error)) from error
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            raise NotYet(texts.unreachable(str(error))) from error
        reference = file.removeprefix(f"{NAME}:")
        return await downloads.fetch(self._session, installation, self._config.api_url, reference, most)

    async def _introduce(self) -> None:
        """Learn who the agent is; what is wrong is then in ``wrong``."""
        while True:
            with contextlib.suppress(SlackApiError, *outcomes.CONNECTION_ERRORS):
                await self._installations.load()
                for reason in self._installations.wrong():
                    log.error("slack does not work", reason=reason)
                return
            await asyncio.sleep(app.RETRY_SECONDS)

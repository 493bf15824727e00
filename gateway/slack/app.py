"""Slack's deliveries through Bolt: signed requests at ``/slack/events``, and Socket Mode.

Bolt answers only after the intake has recorded the delivery (``process_before_response``); an error there is an answer
of 500, or none on the socket, so that Slack delivers again. https://docs.slack.dev/apis/events-api#retries
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gateway.slack import outcomes, texts
from gateway.slack.config import SlackConfig
from workspace_store.database import DatabaseUnavailable

log = structlog.get_logger()

PATH = "/slack/events"
MAX_BODY_BYTES = 4 << 20
RETRY_SECONDS = 5.0
LOOK_SECONDS = 10.0

Handle = Callable[[Mapping[str, Any]], Awaitable[str]]
Quarantine = Callable[[Mapping[str, Any], str], Awaitable[None]]
"""(delivery, why) → kept aside: what cannot be recorded must not be delivered for ever."""


def build(config: SlackConfig, client: AsyncWebClient, handle: Handle, quarantine: Quarantine) -> AsyncApp:
    """A Bolt app whose every verified delivery goes to ``handle``."""

    async def intake(req: AsyncBoltRequest) -> BoltResponse:
        try:
            return BoltResponse(status=200, body=await handle(req.body))
        except (DatabaseUnavailable, SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            log.warning("slack delivery not recorded; Slack will deliver it again", reason=str(error))
            return BoltResponse(status=503, body="")
        except Exception as error:
            # Delivered again it would fail again: it is kept aside, where a person can look at it.
            log.exception("a slack delivery could not be recorded")
            await quarantine(req.body, f"{type(error).__name__}: {error}")
            return BoltResponse(status=200, body="")

    async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
        raise AssertionError("never asked: the intake comes first and answers")

    return AsyncApp(
        name="nightporter",  # else it looks for the name of its caller's file in the sources of every module
        client=client,
        signing_secret=config.signing_secret or "unused: only Socket Mode is on",
        authorize=authorize,
        before_authorize=intake,
        process_before_response=True,
        request_verification_enabled=True,
        ignoring_self_events_enabled=False,
    )


def endpoint(app: AsyncApp) -> Callable[[Request], Awaitable[Response]]:
    """The handler of ``POST /slack/events``. Bolt checks the signature and that the request is at most 5 minutes old.

    https://docs.slack.dev/authentication/verifying-requests-from-slack
    """
    handler = AsyncSlackRequestHandler(app)

    async def events(request: Request) -> Response:
        declared = request.headers.get("content-length", "")
        if not declared.isdigit() or int(declared) > MAX_BODY_BYTES:
            return PlainTextResponse("too long", 413)
        try:
            return await handler.handle(request)
        except (
            ValueError,
            RecursionError,
            AttributeError,
            TypeError,
        ):  # Bolt reads a body before it checks who sent it.
            return PlainTextResponse("not a delivery of Slack", 400)

    return events


class Socket:
    """One Socket Mode connection, kept up. ``wrong``: why it is not, for people to read."""

    def __init__(self, app: AsyncApp, app_token: str, client: AsyncWebClient) -> None:
        self._handler: AsyncSocketModeHandler | None = None
        self._app = app
        self._token = app_token
        self._client = client
        self.wrong = ""

    async def run(self) -> None:
        """Stay connected until cancelled; the SDK's client renews the connection and reconnects after a loss."""
        while True:
            try:
                # Asked once before the SDK tries for ever without a word about why.
                await self._client.apps_connections_open(app_token=self._token)
            except SlackApiError as error:
                self.wrong = texts.bad_app_token(outcomes.error_code(error))
            except outcomes.CONNECTION_ERRORS as error:
                self.wrong = texts.unreachable(str(error))
            else:
                self.wrong = ""
                break
            log.warning("no Socket Mode", reason=self.wrong)
            await asyncio.sleep(RETRY_SECONDS)
        self._handler = AsyncSocketModeHandler(self._app, self._token, web_client=self._client, ping_interval=5)
        await self._handler.connect_async()  # type: ignore[no-untyped-call]
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.wrong = await self._look(self._handler)

    async def _look(self, handler: AsyncSocketModeHandler) -> str:
        """Why it is not connected; the SDK's client goes on trying without a word."""
        if await handler.client.is_connected():
            return ""
        try:
            await self._client.apps_connections_open(app_token=self._token)
        except SlackApiError as error:
            return texts.bad_app_token(outcomes.error_code(error))
        except outcomes.CONNECTION_ERRORS as error:
            return texts.unreachable(str(error))
        return texts.NOT_CONNECTED

    async def close(self) -> None:
        if self._handler is not None:
            await self._handler.close_async()  # type: ignore[no-untyped-call]

"""A local Slack, and the channel that talks to it through real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import uvicorn
from starlette.applications import Starlette

from gateway.slack.channel import SlackChannel
from gateway.slack.config import SlackConfig
from nightporter.testing.book import Book
from nightporter.testing.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackServer


@dataclass
class House:
    """The channel at work. ``url``: its ``/slack/events``."""

    slack: SlackServer
    book: Book
    channel: SlackChannel
    url: str


@asynccontextmanager
async def house(
    slack: SlackServer, book: Book, *, app_token: str = "", bot_token: str = BOT_TOKEN
) -> AsyncIterator[House]:
    config = SlackConfig(bot_token, app_token, SIGNING_SECRET, slack.api_url)
    channel = SlackChannel(config, book.accept, book, book.takes_part, book.changed)
    await channel.start()
    async with serving(channel) as url:
        yield House(slack, book, channel, url)


@asynccontextmanager
async def serving(channel: SlackChannel) -> AsyncIterator[str]:
    """A started channel's routes on a port of this machine; closes the channel."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=channel.routes()), log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/slack/events"
    finally:
        server.should_exit = True
        await task
        await channel.close()


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def at_work(slack: SlackServer) -> AsyncIterator[House]:
    async with house(slack, Book()) as found:
        yield found


@pytest.fixture
async def on_socket(slack: SlackServer) -> AsyncIterator[House]:
    async with house(slack, Book(), app_token=APP_TOKEN) as found:
        yield found

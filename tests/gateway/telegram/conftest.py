"""A local Telegram, and the channel that talks to it through real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import uvicorn
from starlette.applications import Starlette

from gateway.telegram import channel as channel_module
from gateway.telegram.channel import TelegramChannel
from gateway.telegram.config import TelegramConfig
from nightporter.testing.book import Book
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

SECRET = "s3cret"


@dataclass
class House:
    """The channel at work. ``url``: its webhook, if it has one."""

    telegram: TelegramServer
    book: Book
    channel: TelegramChannel
    url: str = ""


@asynccontextmanager
async def polling(telegram: TelegramServer, book: Book, token: str = TOKEN) -> AsyncIterator[House]:
    channel = TelegramChannel(TelegramConfig(token, telegram.api_url), book.accept, book, book.changed)
    await channel.start()
    try:
        yield House(telegram, book, channel)
    finally:
        await channel.close()


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def at_work(telegram: TelegramServer) -> AsyncIterator[House]:
    async with polling(telegram, Book()) as found:
        yield found


@pytest.fixture
async def with_webhook(telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(channel_module, "WEBHOOK_LOOK_SECONDS", 0.1)
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/telegram/webhook"
    book = Book()
    config = TelegramConfig(TOKEN, telegram.api_url, url, SECRET)
    channel = TelegramChannel(config, book.accept, book, book.changed)
    await channel.start()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=channel.routes()), log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: telegram.webhook, "the webhook is set")
    yield House(telegram, book, channel, url)
    server.should_exit = True
    await serving
    await channel.close()

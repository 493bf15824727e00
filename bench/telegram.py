"""Telegram update to `sendMessage` through the real channel: 30 ms without a tool, 60 ms with one command, warm."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.table import Row, show
from nightporter.testing import House
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until


async def replies(server: TelegramServer, text: str, count: int) -> list[float]:
    """Milliseconds from an update to the `sendMessage` that answers it; the first one is not counted."""
    measured = []
    for _ in range(count + 1):
        before = len(server.messages)
        start = time.perf_counter()
        server.say(server.message(text))
        while len(server.messages) == before:  # noqa: ASYNC110 - a stopwatch, finer than an event would be
            await asyncio.sleep(0.0005)
        measured.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.02)
    return measured[1:]


async def measured(count: int) -> list[Row]:
    async with TelegramServer() as server:
        with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
            given = {"telegram__token": TOKEN, "telegram__api_url": server.api_url, "access__policy": "open"}
            house = House(Path(folder) / "home", **given)
            await asyncio.to_thread(house.start)
            try:
                server.say(server.message("$ true"))
                await until(lambda: server.messages, "an answer", 30)
                plain = await replies(server, "hello", count)
                command = await replies(server, "$ echo 1", count // 2)
            finally:
                await asyncio.to_thread(house.stop)
    return [
        Row("Telegram update to sendMessage, no tool", plain, 30, "ms"),
        Row("Telegram update to sendMessage, warm command", command, 60, "ms"),
    ]


def measure(count: int = 60) -> list[Row]:
    return asyncio.run(measured(count))


if __name__ == "__main__":
    show(measure())

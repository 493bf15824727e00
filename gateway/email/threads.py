"""Threads for libraries that wait for the network: awaited by the loop, and no reason for a process to stay.

The standard library's pools are joined when the interpreter ends, however long what they wait for takes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """At most ``count`` calls at a time; more wait their turn. The threads begin with the first call."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = 0

    async def run(self, call: Callable[[], T]) -> T:
        """What ``call`` returns or raises. A call whose waiter is cancelled goes on, and nobody hears of it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._calls.put(lambda: _settle(loop, future, call))
        return await future

    def close(self) -> None:
        """End the threads after what they do now."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _settle(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], call: Callable[[], Any]) -> None:
    if future.cancelled():
        return
    try:
        result, error = call(), None
    except BaseException as raised:  # handed on to who waits
        result, error = None, raised

    def tell() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        return  # the loop has ended, and with it whoever waited

"""What the local servers of the platforms share: a server on a free port of this machine, and faults on demand."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web

FaultKind = Literal["rate_limit", "error", "refuse", "lose_request", "lose_response"]


@dataclass(frozen=True)
class Fault:
    """What happens to one call.

    ``rate_limit``: 429 with ``seconds``; ``error``: HTTP ``status``; ``refuse``: the platform's own error ``reason``;
    ``lose_request``: the connection ends before anything is done; ``lose_response``: it is done, the answer is lost.
    """

    kind: FaultKind
    seconds: float = 1
    status: int = 503
    reason: str = ""
    when: Callable[[dict[str, Any]], bool] = field(default=lambda call: True)
    """Which calls of the method it is for."""


@dataclass(frozen=True)
class Call:
    """A call that arrived: its method, what it said, when (loop time)."""

    method: str
    said: dict[str, Any]
    at: float


class PlatformServer:
    """Serves ``routes`` on 127.0.0.1. ``faults``: method → what its next calls meet. ``calls``: all that arrived."""

    def __init__(self) -> None:
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.calls: list[Call] = []
        self.origin = ""
        self._runner: web.AppRunner | None = None

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.origin = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next calls of a method meet these faults, one each."""
        self.faults[method].extend(faults)

    def fault_of(self, method: str, said: dict[str, Any]) -> Fault | None:
        waiting = self.faults[method]
        return waiting.popleft() if waiting and waiting[0].when(said) else None

    def record(self, method: str, said: dict[str, Any]) -> None:
        self.calls.append(Call(method, said, asyncio.get_running_loop().time()))

    def said(self, method: str) -> list[dict[str, Any]]:
        """What the calls of a method said."""
        return [call.said for call in self.calls if call.method == method]


def hang_up(request: web.Request) -> None:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()


async def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """The first true value of ``condition``; AssertionError with ``what`` when there is none in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        found = condition()
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: ``asyncio.wait_for`` of Python 3.11 loses a cancellation that meets its result."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    await asyncio.gather(task, return_exceptions=True)

"""HTTP/1.1 with bounds on what a connection may cost before its request is known: bytes of the head, time, places.

The parser itself has none: a header without end is put together byte by byte in memory, at a cost that grows with its
square, and a client that never finishes keeps its descriptor for good.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, given up where a client takes too long or too much."""

    head_bytes = 64 << 10
    """Of a request's line and headers beyond the piece of data in which they begin (https://httpwg.org: 431)."""
    head_seconds = 10.0
    body_seconds = 60.0
    """From the end of the head to the end of the body."""
    max_connections = 400

    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _seen = 0
    _waits_since: float | None = None
    """Since when the next request's head is waited for; None: a request is in hand."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._make_room()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        went_on = self._in_head
        super().data_received(data)
        if went_on and self._in_head:
            self._seen += len(data)
            if self._seen > self.head_bytes and not self.transport.is_closing():
                self.transport.write(HEAD_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._seen = True, 0
        if self._timer is None:
            self._expect(self.head_seconds)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head, self._waits_since = False, None
        self._expect(self.body_seconds)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._expect(None)
        if self.cycle is not None and self.cycle.response_complete:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._waits_since = self.loop.time()
        self._expect(self.head_seconds)

    def _expect(self, seconds: float | None) -> None:
        """Give the client so long for what is to come next."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Too many connections: the one that has kept us waiting longest goes, else this one."""
        waiting = [one for one in cast("set[Any]", self.connections) if one is not self and one._waits_since]
        oldest = min(waiting, key=lambda one: one._waits_since, default=self)
        self.connections.discard(oldest)
        oldest.transport.abort()

"""One request and its response: written anew on both sides, counted, digested, secrets taken out on the way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from sandbox_runner.egress import http1
from sandbox_runner.egress.http1 import Framing, Headers, Request, Response
from sandbox_runner.egress.ledger import Outgoing
from sandbox_runner.egress.redact import CannotLook, Decoder, Redactor
from sandbox_runner.egress.wire import Reading, Wire, WireEnded

ANSWER_SECONDS = 600.0
"""How long nothing may move."""
LOOK_SECONDS = 15.0
_LENGTH = re.compile(rb"[0-9]{1,18}")


@dataclass
class Exchange:
    """``settle`` is awaited before the client can know that it is over; ``redactor``: what to take out, if anything."""

    request: Request
    client: Wire
    reading: Reading
    server: Wire
    going: Outgoing
    spend: Callable[[int], None]
    settle: Callable[[], Awaitable[None]]
    redactor: Redactor | None = None
    begun: bool = False
    """Something of a response has been sent to the client."""
    keeps: bool = False
    """The client was told that it may ask again on this connection."""

    async def run(self, first: bytes, headers: Headers) -> bool:
        """Send the request with this first line, bring the response back; whether the client may ask again here.

        Raises WireEnded, BadMessage, TooLong, CannotLook, OverBudget, TimeoutError; see ``begun``.
        """
        if self.request.expects:
            await self.client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        sending = asyncio.create_task(self._send(first, headers))
        receiving = asyncio.create_task(self._receive())
        try:
            await self._until_answered(sending, receiving)
        finally:
            complete = sending.done() and not sending.cancelled() and sending.exception() is None
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
        return complete and self.keeps

    async def _until_answered(self, sending: asyncio.Task[None], receiving: asyncio.Task[None]) -> None:
        """As long as anything moves. A server may answer before it was sent everything: its answer counts."""
        loop = asyncio.get_running_loop()
        moved, since = -1, loop.time()
        while not receiving.done():
            under_way = [task for task in (sending, receiving) if not task.done()]
            await asyncio.wait(under_way, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            if moved != (moved := self.going.bytes_out + self.going.bytes_in):
                since = loop.time()
            elif loop.time() - since > ANSWER_SECONDS:
                raise TimeoutError
        receiving.result()

    async def _send(self, first: bytes, headers: Headers) -> None:
        framing = self.request.framing
        chunked = framing.length is None
        if chunked:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        elif framing.length or self.request.method not in ("GET", "HEAD", "OPTIONS", "DELETE"):
            headers = [*headers, (b"content-length", str(framing.length).encode())]
        self.going.sent = True
        taken = await self._offer(http1.head(first, [*headers, (b"connection", b"close")]))
        async for data in http1.body(self.reading, framing):
            self.going.digest.update(data)
            if taken:
                self.going.bytes_out += len(data)
                self.spend(len(data))
                taken = await self._offer(http1.chunk(data) if chunked else data)
        if chunked and taken:
            await self._offer(http1.LAST_CHUNK)

    async def _offer(self, data: bytes) -> bool:
        """A server may answer before it has read everything, and close: its answer counts, the rest is dropped."""
        try:
            await self.server.send(data)
        except WireEnded:
            return False
        return True

    async def _receive(self) -> None:
        answer = Reading(self.server)
        response = await http1.read_response(answer, self.request.method)
        self.going.outcome = response.status
        no_body = response.framing == Framing(0)
        decoder = Decoder(response.values(b"content-encoding") if self.redactor and not no_body else ())
        # Until the last piece is let go the client cannot know that it is over; then it is in the ledger.
        held = self._head(response, decoded=decoder.active, no_body=no_body)
        if not no_body:
            async for data in self._pieces(answer, response, decoder):
                await self._give(held)
                held = data if self.request.old else http1.chunk(data)
        await self.settle()
        await self._give(held)
        if not no_body and not self.request.old:
            await self.client.send(http1.LAST_CHUNK)

    async def _give(self, data: bytes) -> None:
        self.begun = True
        await self.client.send(data)

    async def _pieces(self, answer: Reading, response: Response, decoder: Decoder) -> AsyncIterator[bytes]:
        async for data in http1.body(answer, response.framing):
            self.going.bytes_in += len(data)
            self.spend(len(data))
            for piece in decoder.feed(data):
                clean = self.redactor.feed(piece) if self.redactor else piece
                if clean:
                    yield clean
        if self.redactor and (rest := self.redactor.end()):
            yield rest

    def _head(self, response: Response, *, decoded: bool, no_body: bool) -> bytes:
        headers = http1.end_to_end(response.headers, (b"content-encoding",) if decoded else ())
        reason = response.reason
        if self.redactor:
            headers = [(name, self.redactor.whole(value)) for name, value in headers]
            reason = self.redactor.whole(reason)
        lengths = response.values(b"content-length")
        if no_body and self.request.method == "HEAD" and len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]):
            headers.append((b"content-length", lengths[0]))
        elif no_body and response.status not in (204, 304) and self.request.method != "HEAD":
            headers.append((b"content-length", b"0"))
        elif not no_body and not self.request.old:
            headers.append((b"transfer-encoding", b"chunked"))
        self.keeps = self.request.keep_alive and not (self.request.old and not no_body)
        headers.append((b"connection", b"keep-alive" if self.keeps else b"close"))
        return http1.head(b"HTTP/1.1 %d %b" % (response.status, reason), headers)


__all__ = ["CannotLook", "Exchange", "WireEnded"]

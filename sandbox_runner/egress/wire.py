"""Bytes in and out: one small protocol for plain and encrypted connections, and reading with bounds."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Protocol

CHUNK = 65536


class WireEnded(Exception):
    """The other side ended in the middle, or was too slow."""


class TooLong(Exception):
    """The other side sent more than is read in one piece."""


class Wire(Protocol):
    """A connection. ``receive`` gives b"" at its end; ``send`` returns once the other side has room for more."""

    async def receive(self) -> bytes: ...

    async def send(self, data: bytes) -> None: ...

    async def finish(self) -> None:
        """Say that nothing more will be sent."""
        ...

    def close(self) -> None: ...


class StreamWire:
    """Over asyncio's streams; TLS too, where asyncio does it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        try:
            return await self._reader.read(CHUNK)
        except (OSError, ssl.SSLError):
            return b""

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, ssl.SSLError) as error:
            raise WireEnded(str(error)) from error

    async def finish(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()


class TlsServerWire:
    """The server's side of TLS over another wire, from the bytes of the ClientHello on that were read already."""

    def __init__(self, wire: Wire, context: ssl.SSLContext, first: bytes) -> None:
        self._wire = wire
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._in.write(first)
        self._object = context.wrap_bio(self._in, self._out, server_side=True)

    async def handshake(self) -> None:
        """Raises WireEnded where the client does not accept the certificate, or breaks off."""
        while True:
            try:
                self._object.do_handshake()
                await self._flush()
                return
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    raise WireEnded("the client broke off the TLS handshake") from None
            except ssl.SSLError as error:
                with contextlib.suppress(WireEnded):
                    await self._flush()
                raise WireEnded(f"TLS failed: {error.reason or error}") from error

    async def receive(self) -> bytes:
        while True:
            try:
                return self._object.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    return b""
            except ssl.SSLError:
                return b""

    async def send(self, data: bytes) -> None:
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            raise WireEnded(str(error)) from error
        await self._flush()

    async def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()
        with contextlib.suppress(WireEnded):
            await self._flush()
        await self._wire.finish()

    def close(self) -> None:
        self._wire.close()

    async def _fill(self) -> bool:
        data = await self._wire.receive()
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        return bool(data)

    async def _flush(self) -> None:
        data = self._out.read()
        if data:
            await self._wire.send(data)


class Reading:
    """What a wire brings, read in pieces of known size; at most a little more than asked for is held."""

    def __init__(self, wire: Wire, first: bytes = b"") -> None:
        self._wire = wire
        self._held = bytearray(first)
        self._ended = False

    async def _more(self) -> bool:
        if self._ended:
            return False
        data = await self._wire.receive()
        self._ended = not data
        self._held += data
        return bool(data)

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Through ``mark``; b"" where the wire ended before anything came. Raises WireEnded, TooLong."""
        start = 0
        while True:
            found = self._held.find(mark, start)
            if found >= 0:
                end = found + len(mark)
                if end > limit:
                    raise TooLong
                return self._take(end)
            if len(self._held) > limit:
                raise TooLong
            start = max(0, len(self._held) - len(mark) + 1)
            if not await self._more():
                if not self._held:
                    return b""
                raise WireEnded("the connection ended in the middle of a message")

    async def some(self, most: int = CHUNK) -> bytes:
        """What is there, at least one byte; b"" at the end."""
        if not self._held and not await self._more():
            return b""
        return self._take(min(most, len(self._held)))

    async def exactly(self, count: int) -> bytes:
        """Raises WireEnded."""
        while len(self._held) < count:
            if not await self._more():
                raise WireEnded("the connection ended in the middle of a message")
        return self._take(count)

    def rest(self) -> bytes:
        """What was read too much, taken out."""
        return self._take(len(self._held))

    def _take(self, count: int) -> bytes:
        data = bytes(self._held[:count])
        del self._held[:count]
        return data

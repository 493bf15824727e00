"""HTTP/1.1 heads and bodies, read strictly (RFC 9112): what two parsers could read differently is refused.

Nothing received is passed on as it came: a head is parsed and written anew, a body is unframed and framed anew, so no
second request can hide in either.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from sandbox_runner.egress.wire import CHUNK, Reading, WireEnded

HEAD_LIMIT = 64 << 10
_LINE_LIMIT = 8 << 10

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: (.*))?")

# Meant for the next hop alone (RFC 9110, 7.6.1), and what would turn the connection into something else.
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
     b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"http2-settings", b"content-length")
)  # fmt: skip

Headers = list[tuple[bytes, bytes]]


class BadMessage(Exception):
    """Not HTTP/1.1 as it has to be written; the text says what is wrong."""


@dataclass(frozen=True)
class Framing:
    """How long a body is. ``length`` None: chunked, or (``until_close``) as long as the connection lasts."""

    length: int | None = 0
    until_close: bool = False


@dataclass(frozen=True)
class Request:
    """A request's head, checked."""

    method: str
    target: str
    headers: Headers
    framing: Framing
    keep_alive: bool
    old: bool = False
    """HTTP/1.0: no chunks can be sent back."""
    expects: bool = False
    """The client waits for a word before it sends the body."""

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    @property
    def host(self) -> str | None:
        found = self.values(b"host")
        return found[0].decode("latin-1") if found else None


@dataclass(frozen=True)
class Response:
    status: int
    reason: bytes
    headers: Headers
    framing: Framing = field(default_factory=Framing)

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


async def read_request(reading: Reading) -> Request | None:
    """The next request's head; None at the end. Raises BadMessage, WireEnded, TooLong."""
    head = await reading.until(b"\r\n\r\n", HEAD_LIMIT)
    if not head:
        return None
    first, headers = _head(head)
    parts = first.split(b" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise BadMessage("the request line is not METHOD TARGET HTTP/1.1")
    if parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadMessage("only HTTP/1.1 is spoken here")
    old = parts[2] == b"HTTP/1.0"
    named = [value for key, value in headers if key == b"host"]
    if len(named) > 1 or (not named and not old):
        raise BadMessage("a request has exactly one Host header")
    framing = _framing(headers, old=old)
    tokens = _connection(headers)
    keep = b"close" not in tokens and (not old or b"keep-alive" in tokens)
    expects = any(value.lower() == b"100-continue" for key, value in headers if key == b"expect")
    method, target = parts[0].decode("ascii"), parts[1].decode("ascii")
    return Request(method, target, headers, framing or Framing(0), keep, old, expects and not old)


async def read_response(reading: Reading, method: str) -> Response:
    """A response's head, interim ones passed over. Raises BadMessage, WireEnded, TooLong."""
    for _ in range(16):
        head = await reading.until(b"\r\n\r\n", HEAD_LIMIT)
        if not head:
            raise WireEnded("the server closed the connection without an answer")
        first, headers = _head(head)
        match = _STATUS.fullmatch(first)
        if match is None or not _VALUE.fullmatch(match[2] or b""):
            raise BadMessage("the server's status line is none")
        status = int(match[1])
        if status == 101:
            raise BadMessage("the server changed the protocol without being asked")
        if status >= 200:
            framing = _framing(headers, old=first.startswith(b"HTTP/1.0"))
            if method == "HEAD" or status in (204, 304):
                framing = Framing(0)
            return Response(status, match[2] or b"", headers, framing or Framing(None, until_close=True))
    raise BadMessage("the server sent interim answers without end")


def _head(head: bytes) -> tuple[bytes, Headers]:
    """First line and headers, names in lower case."""
    lines = head[:-4].split(b"\r\n")
    headers: Headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        value = value.strip(b" \t")
        # No folding, no space before the colon, no bare CR or LF, no NUL: each has smuggled requests somewhere.
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadMessage("a header line is not NAME: VALUE")
        headers.append((name.lower(), value))
    if b"\r" in lines[0] or b"\n" in lines[0]:
        raise BadMessage("a bare CR or LF in the first line")
    return lines[0], headers


def _framing(headers: Headers, *, old: bool) -> Framing | None:
    """None: the head says nothing of a body. Raises BadMessage where it says two things (RFC 9112, 6.3)."""
    codings = [value for key, value in headers if key == b"transfer-encoding"]
    lengths = [value for key, value in headers if key == b"content-length"]
    if codings:
        if lengths:
            raise BadMessage("both Content-Length and Transfer-Encoding")
        if old or len(codings) != 1 or codings[0].lower() != b"chunked":
            raise BadMessage("a Transfer-Encoding other than chunked")
        return Framing(None)
    if not lengths:
        return None
    if len(lengths) != 1 or not _DIGITS.fullmatch(lengths[0]):
        raise BadMessage("more than one Content-Length, or none that is a number")
    return Framing(int(lengths[0]))


def _connection(headers: Headers) -> set[bytes]:
    given = b",".join(value for key, value in headers if key in (b"connection", b"proxy-connection"))
    return {token.strip().lower() for token in given.split(b",") if token.strip()}


def end_to_end(headers: Headers, without: Iterable[bytes] = ()) -> Headers:
    """The headers that go on: not those of one hop, nor those that Connection names, nor ``without``."""
    dropped = _HOP_BY_HOP | _connection(headers) | set(without)
    return [(name, value) for name, value in headers if name not in dropped]


async def body(reading: Reading, framing: Framing) -> AsyncIterator[bytes]:
    """A body's bytes without its framing; trailers are dropped. Raises BadMessage, WireEnded."""
    if framing.until_close:
        while data := await reading.some():
            yield data
    elif framing.length is not None:
        left = framing.length
        while left:
            data = await reading.some(min(left, CHUNK))
            if not data:
                raise WireEnded("the connection ended in the middle of a body")
            left -= len(data)
            yield data
    else:
        async for data in _chunks(reading):
            yield data


async def _chunks(reading: Reading) -> AsyncIterator[bytes]:
    while True:
        line = (await reading.until(b"\r\n", _LINE_LIMIT))[:-2]
        # Extensions are dropped: nobody needs them, and other parsers read them differently.
        size = line.partition(b";")[0].strip(b" \t")
        if not _CHUNK_SIZE.fullmatch(size) or b"\n" in line or b"\r" in line:
            raise BadMessage("a chunk without a size")
        left = int(size, 16)
        if left == 0:
            break
        while left:
            data = await reading.some(min(left, CHUNK))
            if not data:
                raise WireEnded("the connection ended in the middle of a chunk")
            left -= len(data)
            yield data
        if await reading.exactly(2) != b"\r\n":
            raise BadMessage("a chunk longer than it says")
    for _ in range(64):
        if await reading.until(b"\r\n", _LINE_LIMIT) == b"\r\n":
            return
    raise BadMessage("trailers without end")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def head(first: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A head as it is written. Headers must have been read by this module, or be known to hold no line end."""
    lines = [first, *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"

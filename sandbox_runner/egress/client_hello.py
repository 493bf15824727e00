"""The first message of a TLS client: which server name it asks for (RFC 8446, 4.1.2; RFC 6066, 3).

Reads only what it needs and refuses whatever is not plainly a ClientHello: a tunnel that starts with anything else is
no TLS.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox_runner.egress.wire import Reading, WireEnded

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_MOST = 48 << 10
_RECORD = 16384 + 256
_SERVER_NAME, _ENCRYPTED_CLIENT_HELLO, _OLD_ENCRYPTED_SNI = 0, 0xFE0D, 0xFFCE

ACCESS_DENIED = bytes((21, 3, 3, 0, 2, 2, 49))
"""A TLS record with the fatal alert ``access_denied``, which clients show in their errors."""


class NotTls(Exception):
    """What came first is no ClientHello."""


@dataclass(frozen=True)
class ClientHello:
    """``server_name`` as it was sent, None without one; ``encrypted``: a second, hidden hello may ask for another."""

    server_name: str | None
    encrypted: bool
    raw: bytes
    """Every byte read so far, to be passed on."""


async def read(reading: Reading) -> ClientHello:
    """Raises NotTls, WireEnded."""
    raw, message = b"", b""
    while True:
        header = await reading.exactly(5) if raw else await _first_header(reading)
        length = int.from_bytes(header[3:5], "big")
        if header[0] != _HANDSHAKE or header[1] != 3 or not 0 < length <= _RECORD:
            raise NotTls
        fragment = await reading.exactly(length)
        raw += header + fragment
        message += fragment
        if message[0] != _CLIENT_HELLO:
            raise NotTls
        if len(message) >= 4:
            wanted = 4 + int.from_bytes(message[1:4], "big")
            if wanted > _MOST or len(message) > wanted:
                raise NotTls
            if len(message) == wanted:
                return _parse(message[4:], raw)


async def _first_header(reading: Reading) -> bytes:
    """Decided by the first byte: a client of another protocol may send less than a header and wait."""
    first = await reading.exactly(1)
    if first[0] != _HANDSHAKE:
        raise NotTls
    return first + await reading.exactly(4)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise NotTls
        self._at += count
        return self._data[self._at - count : self._at]

    def vector(self, width: int) -> bytes:
        return self.take(int.from_bytes(self.take(width), "big"))

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def _parse(message: bytes, raw: bytes) -> ClientHello:
    hello = _Bytes(message)
    hello.take(2 + 32)
    hello.vector(1)
    hello.vector(2)
    hello.vector(1)
    found: str | None = None
    encrypted = False
    seen: set[int] = set()
    extensions = _Bytes(hello.vector(2)) if hello.left else _Bytes(b"")
    if hello.left:
        raise NotTls
    while extensions.left:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise NotTls
        seen.add(kind)
        if kind == _SERVER_NAME:
            found = _server_name(content)
        encrypted = encrypted or kind in (_ENCRYPTED_CLIENT_HELLO, _OLD_ENCRYPTED_SNI)
    return ClientHello(found, encrypted, raw)


def _server_name(content: bytes) -> str:
    """Exactly one name of type host_name; two would let server and proxy read different ones."""
    extension = _Bytes(content)
    names = _Bytes(extension.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind != 0 or names.left or extension.left or not name:
        raise NotTls
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise NotTls from None


__all__ = ["ACCESS_DENIED", "ClientHello", "NotTls", "WireEnded", "read"]

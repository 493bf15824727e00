"""Taking secrets out of what a server sends back, wherever the pieces of it are cut.

Knows each secret as it is and in the usual spellings (percent, base64, JSON). A server that sets out to hide a secret
in other ways cannot be stopped here: a credential is for hosts that one trusts with it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable
from urllib.parse import quote

MARK = b"[redacted]"
_SHORTEST = 4
_PIECE = 1 << 18


class CannotLook(Exception):
    """A body in a coding that cannot be looked into."""


def secrets(value: str) -> set[str]:
    """What is secret in a header's value: all of it, and what comes after a scheme such as ``Bearer``."""
    scheme, space, rest = value.partition(" ")
    found = {value, rest.strip()} if space else {value}
    if space and scheme.lower() == "basic":
        try:
            pair = base64.b64decode(rest.strip(), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            pair = ""
        found |= {pair, pair.partition(":")[2]}
    return {secret for secret in found if len(secret.encode()) >= _SHORTEST}


def spellings(value: str) -> set[bytes]:
    """What must not come back of a header's value."""
    found: set[bytes] = set()
    for secret in secrets(value):
        raw = secret.encode("utf-8")
        found |= {
            raw,
            quote(secret, safe="").encode(),
            json.dumps(secret)[1:-1].encode(),
            json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
            base64.b64encode(raw).rstrip(b"="),
            base64.urlsafe_b64encode(raw).rstrip(b"="),
        }
    return found


class Redactor:
    """One stream of bytes; ``feed`` gives what is surely not the beginning of a secret, ``end`` the rest."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        found = sorted(set(secrets), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, found))) if found else None
        self._prefixes = {secret[:length] for secret in found for length in range(1, len(secret))}
        self._longest = max(map(len, found), default=0)
        self._held = b""
        self.count = 0

    def feed(self, data: bytes) -> bytes:
        if self._pattern is None:
            return data
        text, times = self._pattern.subn(MARK, self._held + data)
        self.count += times
        keep = next(
            (n for n in range(min(self._longest - 1, len(text)), 0, -1) if text[-n:] in self._prefixes),
            0,
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> bytes:
        data, self._held = self._held, b""
        return data

    def whole(self, data: bytes) -> bytes:
        """A piece that stands by itself, such as a header's value."""
        if self._pattern is None:
            return data
        text, times = self._pattern.subn(MARK, data)
        self.count += times
        return text


class Decoder:
    """Undoes a Content-Encoding piece by piece; what one piece unpacks to is bounded by its reader's patience."""

    def __init__(self, codings: Iterable[bytes]) -> None:
        named = [part.strip().lower() for coding in codings for part in coding.split(b",") if part.strip(b" \t") != b""]
        named = [name for name in named if name != b"identity"]
        if len(named) > 1 or any(name not in (b"gzip", b"x-gzip", b"deflate") for name in named):
            raise CannotLook(b", ".join(named).decode("latin-1"))
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32) if named else None

    @property
    def active(self) -> bool:
        return self._inflate is not None

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Raises CannotLook for a damaged body."""
        if self._inflate is None:
            yield data
            return
        try:
            full = False
            while data or full:
                piece = self._inflate.decompress(data, _PIECE)
                yield piece
                full = len(piece) == _PIECE
                data = self._inflate.unconsumed_tail
                if self._inflate.eof:
                    # Members may follow each other (RFC 1952, 2.2).
                    data = self._inflate.unused_data
                    self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
                    full = False
        except zlib.error as error:
            raise CannotLook(str(error)) from error

"""The seal of a state file: proof that the agent of a sandbox wrote it, and when among all it wrote.

Each life of a sandbox gets a key of its own from the host, which nothing else in the sandbox can read. The host checks
seals (``sandbox_runner.kept_state``); the guest only sets them. The seal is the file's second line, over all the rest.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LINE = re.compile(rb'\{\n "seal": (\{[^\n]{1,500}\}),\n')
_BLOCK = 64


class Unsealed(ValueError):
    """The file has no seal, or one that says nothing."""


class Seal:
    """``life``: of the sandbox that wrote it. ``number``: grows with every file of a principal."""

    def __init__(self, life: str, number: int, mac: str, body: bytes) -> None:
        self.life = life
        self.number = number
        self.mac = mac
        self.body = body
        """What it is the seal of."""

    def fits(self, key: str) -> bool:
        """Whether it was set with that key. (Not in constant time: who may read the file may not guess at it.)"""
        return self.mac == _mac(key, self.number, self.body)


def sha256(data: bytes = b"") -> Any:
    """From the interpreter's own module: ``hashlib`` loads OpenSSL, which takes 3 ms of every wake."""
    for name in ("_sha2", "_sha256"):
        try:
            return __import__(name).sha256(data)
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256(data)


def keyed(key: str, data: bytes) -> str:
    """HMAC-SHA-256 (RFC 2104) in hex; ``key`` is text of up to 64 bytes."""
    padded = key.encode().ljust(_BLOCK, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in padded) + data).digest()
    return str(sha256(bytes(byte ^ 0x5C for byte in padded) + inner).hexdigest())


def _mac(key: str, number: int, body: bytes) -> str:
    return keyed(key, b"%d\n" % number + body)


def sealed(body: bytes, key: str, life: str, number: int) -> bytes:
    """A file with its seal; ``body`` is an indented JSON object."""
    said = json.dumps({"life": life, "mac": _mac(key, number, body), "number": number})
    return b'{\n "seal": ' + said.encode() + b",\n" + body[len(b"{\n") :]


def read(data: bytes) -> Seal:
    """Raises Unsealed."""
    match = _LINE.match(data)
    try:
        said = json.loads(match[1]) if match else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or match is None:
        raise Unsealed("it has no seal")
    life, number, mac = said.get("life"), said.get("number"), said.get("mac")
    if not (isinstance(life, str) and isinstance(mac, str) and isinstance(number, int) and 0 <= number < 1 << 62):
        raise Unsealed("its seal says nothing")
    return Seal(life, number, mac, b"{\n" + data[match.end() :])

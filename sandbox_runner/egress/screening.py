"""Whether a text holds a credential of the settings: asked before anything of a sandbox is written down.

A sandbox never holds a credential, nor a digest of one, which could be guessed at inside: it shows what it is about to
write, and is told which of it not to. That somebody who knows a credential can learn so that it is one is meant.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

from sandbox_runner.egress import redact
from sandbox_runner.egress.credentials import Keyring

_SHORTEST_PIECE = 8


class Screen:
    """Knows each credential as it is, and as JSON, percent, hexadecimal and base64 write it, also amid other text."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {each for value in values for secret in redact.secrets(value) for each in _written(secret)}
        longest_first = sorted(found, key=lambda text: (-len(text), text))
        self._exact = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of(cls, keyring: Keyring) -> Screen | None:
        """None where there is nothing to look for."""
        return cls(each.value for each in keyring.credentials) if keyring.credentials else None

    def held(self, texts: Sequence[str]) -> list[int]:
        """Places of the texts that hold one."""
        pattern = self._exact
        if pattern is None:
            return []
        return [place for place, text in enumerate(texts) if pattern.search(text) or pattern.search(_folded(text))]

    def __repr__(self) -> str:
        return "Screen()"


def _folded(text: str) -> str:
    """Percent codes as they are usually written, and nothing between the lines that base64 is broken into."""
    text = re.sub(r"%[0-9a-fA-F]{2}", lambda match: match[0].upper(), text)
    return re.sub(r"(?<=[A-Za-z0-9+/])\s*\\?\n\s*(?=[A-Za-z0-9+/=])", "", text)


def _written(secret: str) -> set[str]:
    raw = secret.encode()
    as_json = json.dumps(secret)[1:-1]
    found = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), as_json, as_json.replace("/", "\\/")}
    found |= {raw.hex(), raw.hex().upper()}
    for before in range(3):
        # Wherever in a base64 text it begins: without the characters that others have a part in.
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        piece = encoded[(0, 2, 3)[before] : len(encoded) - (0 if (before + len(raw)) % 3 == 0 else 1)]
        if len(piece) >= _SHORTEST_PIECE:
            found |= {piece, piece.replace("+", "-").replace("/", "_")}
    return found

"""How much may come with one message, and go out with one reply."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileLimits:
    """``max_bytes`` of a file, ``max_message_bytes`` of all of a message or reply, ``max_count`` of them."""

    max_bytes: int = 50 << 20
    max_message_bytes: int = 100 << 20
    max_count: int = 20

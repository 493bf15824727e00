"""What people read from the Telegram channel."""

from __future__ import annotations

STORY = "(a story, which bots cannot see)"


def forwarded_from(name: str) -> str:
    return f"(forwarded from {name})" if name else "(forwarded)"


def too_big(name: str) -> str:
    return f"(the file {name} is over 20 MB: Telegram does not let me download it)"

"""What people read from the Telegram channel."""

from __future__ import annotations

STORY = "(a story, which bots cannot see)"


def forwarded_from(name: str) -> str:
    return f"(forwarded from {name})" if name else "(forwarded)"


def too_big(name: str) -> str:
    return f"(the file {name} is over 20 MB: Telegram does not let me download it)"


CONFLICT = (
    "another program polls with the same telegram.token, so updates go to either; stop it, or make a second bot with "
    "@BotFather"
)
BAD_TOKEN = "Telegram does not accept `telegram.token`; copy it again from @BotFather and restart"
BLOCKED = "the person has blocked the bot, or it was removed from the chat"
PRESSED = "Got it."


def unreachable(reason: str) -> str:
    return f"Telegram cannot be reached: {reason}"


def refused(reason: str) -> str:
    return f"Telegram refused: {reason}"


def attached(name: str, size: int) -> str:
    return f"(attached: {name}, {size:,} bytes)" if size else f"(attached: {name})"

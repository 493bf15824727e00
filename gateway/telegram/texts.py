"""What people read from the Telegram channel."""

from __future__ import annotations

TOO_BIG = "it is larger than the 20 MB that Telegram lets a bot download; send it in another way, or in parts"
TOO_BIG_TO_SEND = "it is larger than the 50 MB that Telegram lets a bot send"
EMPTY_FILE = "it is empty, and Telegram takes no empty files"
STORY = "(a story, which bots cannot see)"
PAID = "(paid media, of which bots see nothing)"


def forwarded_from(name: str) -> str:
    return f"(forwarded from {name})" if name else "(forwarded)"


CONFLICT = (
    "another program polls with the same telegram.token, so updates go to either; stop it, or make a second bot with "
    "@BotFather"
)
WEBHOOK_ELSEWHERE = (
    "another program has set a webhook for the same telegram.token, so nothing can be polled for; stop it, make a "
    "second bot with @BotFather, or restart to take its webhook away"
)
BAD_TOKEN = "Telegram does not accept `telegram.token`; copy it again from @BotFather and restart"
BLOCKED = "the person has blocked the bot, or it was removed from the chat"
ALERT_CHARACTERS = 200
"""https://core.telegram.org/bots/api#answercallbackquery"""


def unreachable(reason: str) -> str:
    return f"Telegram cannot be reached: {reason}"


def webhook_fails(reason: str) -> str:
    return f"Telegram cannot deliver to `telegram.webhook_url` ({reason}); look at the server in front of it"


def refused(reason: str) -> str:
    return f"Telegram refused: {reason}"


def shortened(text: str) -> str:
    """A text as a callback's answer may have it: plain, and short."""
    plain = " ".join(text.replace("`", "").replace("**", "").split())
    return plain if len(plain) <= ALERT_CHARACTERS else f"{plain[: ALERT_CHARACTERS - 1]}…"

"""What the Telegram channel is set up with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class TelegramConfig:
    """``api_url``: the part before ``/bot<token>``. Polls unless ``webhook_url`` is set.

    ``business``: whether messages to business accounts that the bot serves are answered.
    """

    token: str
    api_url: str = "https://api.telegram.org"
    webhook_url: str = ""
    webhook_secret: str = ""
    business: bool = False

    @property
    def secret(self) -> str:
        """What Telegram proves itself with at the webhook; never empty."""
        return self.webhook_secret or hashlib.sha256(f"webhook:{self.token}".encode()).hexdigest()

"""Where the messages of a reply go."""

from __future__ import annotations

from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient


@dataclass(frozen=True)
class Target:
    """``client``: with the token of the workspace. ``bot``: the agent's user id there."""

    client: AsyncWebClient
    conversation: str
    thread: str
    bot: str = ""

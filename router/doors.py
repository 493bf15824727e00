"""How people reach the agent, as far as it knows itself: what a code can be carried to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Doors:
    """``telegram``: the bot's user name; ``email``: the agent's own address; empty where there is none (yet)."""

    telegram: str = ""
    email: str = ""

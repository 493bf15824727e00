"""What a Slack delivery says, once read: the values the rest of the channel works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal[
    "message", "ignore", "duplicate", "edit", "delete", "approve", "deny", "undo", "say", "submit", "command",
    "reaction", "welcome", "uninstall", "revoke", "challenge",
]  # fmt: skip

ACTS = frozenset({"message", "approve", "deny", "undo", "say", "submit", "command"})
"""What happens at most once for each dedupe key."""


@dataclass(frozen=True)
class Bot:
    """Who the agent is in a workspace: its user id and its bot id."""

    user: str
    bot_id: str = ""


@dataclass(frozen=True)
class File:
    """A file by reference. ``name`` is the sender's word, empty where Slack gave only an id; ``size`` in bytes."""

    id: str
    name: str
    content_type: str = ""
    size: int = 0
    url: str = ""
    voice: bool = False
    transcript: str = ""


@dataclass(frozen=True)
class Parsed:
    """``thread``: where the answer goes. ``needs_thread``: counts only if the agent takes part in that thread.

    ``details``: what only some actions have, in the words of ``channel parse``.
    """

    action: Action
    text: str | None = None
    user: str | None = None
    team: str | None = None
    channel: str | None = None
    thread: str | None = None
    dedupe_key: str | None = None
    files: tuple[File, ...] = ()
    context: str = ""
    ts: str = ""
    client_msg_id: str = ""
    needs_thread: bool = False
    joins_thread: str = ""
    """The thread that the agent takes part in because of this."""
    details: Mapping[str, Any] = field(default_factory=dict)

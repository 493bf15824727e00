"""What a Telegram update says, once read: the values the rest of the channel works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal[
    "message", "ignore", "duplicate", "edit", "approve", "deny", "undo", "say", "command", "reaction", "start",
    "blocked", "unblocked", "migrate",
]  # fmt: skip

ACTS = frozenset({"message", "command", "start", "approve", "deny", "undo", "say"})
"""What happens at most once for each dedupe key."""

MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024
"""https://core.telegram.org/bots/api#getfile: what a bot may download."""


@dataclass(frozen=True)
class Bot:
    """Who the agent is: its user name without ``@``, and its id."""

    username: str
    id: int


@dataclass(frozen=True)
class File:
    """A file by reference. ``name`` is the sender's word, or ``type:file_unique_id``; ``size`` in bytes."""

    id: str
    name: str
    content_type: str = ""
    size: int = 0
    named: bool = True

    @property
    def too_big(self) -> bool:
        return self.size > MAX_DOWNLOAD_BYTES


@dataclass(frozen=True)
class Parsed:
    """``thread``: the topic to answer in. ``context``: what the sender points at, or the words they forward.

    ``details``: what only some actions have, in the words of ``channel parse``.
    """

    action: Action
    text: str | None = None
    user: int | None = None
    channel: int | None = None
    thread: int | None = None
    dedupe_key: str | None = None
    files: tuple[File, ...] = ()
    context: str = ""
    message_id: int = 0
    sent_at: int = 0
    """Seconds since the epoch."""
    changed_at: int = 0
    """The same of an edit or a reaction."""
    display: str = ""
    direct: bool = False
    title: str = ""
    """What the group is called."""
    forwarded: bool = False
    """Its words are someone else's."""
    group: str = ""
    """The album it belongs to."""
    needs_group: bool = False
    """Counts only if another item of its album does."""
    details: Mapping[str, Any] = field(default_factory=dict)

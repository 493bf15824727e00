"""What happens to a message after it was said: an edit, a deletion, a reaction. None of these starts a turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from identity.users import Claim


@dataclass(frozen=True)
class Change:
    """``message``: the dedupe key of what was said, in the inbox's form (``channel:account:external id``).

    For a reaction, ``target`` is the platform's id of the message reacted to, often a reply of ours.
    """

    kind: Literal["edit", "delete", "reaction"]
    message: str
    sender: Claim
    conversation: str
    thread: str = ""
    text: str = ""
    emoji: str = ""
    target: str = ""
    removed: bool = False


Changed = Callable[[Change], Awaitable[None]]


async def drop(change: Change) -> None:
    """For a gateway that records no changes."""

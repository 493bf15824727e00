"""Where a channel brings what happens to messages after they were said; ``router.changes`` says what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from router.changes import Change

Changed = Callable[[Change], Awaitable[None]]


async def drop(change: Change) -> None:
    """For a gateway that records no changes."""

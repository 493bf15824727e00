"""Rooms that the platform moves: Telegram gives a group that becomes a supergroup a new id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from identity import rooms
from workspace_store.database import Database

log = structlog.get_logger()

Moved = Callable[[str, str, str], Awaitable[None]]
"""(account, old conversation, new conversation): told as often as the platform tells it."""


async def stay(account: str, old: str, new: str) -> None:
    """For a channel without a database."""


def mover(database: Database, channel: str) -> Moved:
    """Takes the room of a moved conversation along. Raises DatabaseUnavailable."""

    async def moved(account: str, old: str, new: str) -> None:
        move = partial(rooms.move, channel=channel, account=account, old=old, new=new)
        room = await database.write(move)
        if room is not None:
            log.info("a room has moved", room=str(room.id), channel=channel)

    return moved

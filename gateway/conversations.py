"""Conversations that the platform moves, closes to the agent and opens again: what waits there follows.

Telegram gives a group that becomes a supergroup a new id; a person may block the agent, and let it speak again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog
from sqlalchemy import Connection

from identity import rooms
from workspace_store import conversations, journal
from workspace_store.database import Database
from workspace_store.journal import Event

log = structlog.get_logger()


class Conversations(Protocol):
    """Each may be told as often as the platform tells it. Raises DatabaseUnavailable."""

    async def moved(self, account: str, old: str, new: str) -> None: ...

    async def closed(self, account: str, conversation: str, reason: str) -> None: ...

    async def opened(self, account: str, conversation: str, reason: str) -> None:
        """``reason``: how the reasons begin for which replies were given up there."""
        ...


class Unchanged:
    """For a channel without a database."""

    async def moved(self, account: str, old: str, new: str) -> None:
        pass

    async def closed(self, account: str, conversation: str, reason: str) -> None:
        pass

    async def opened(self, account: str, conversation: str, reason: str) -> None:
        pass


@dataclass(frozen=True)
class StoredConversations:
    """Those of one channel."""

    database: Database
    channel: str

    async def moved(self, account: str, old: str, new: str) -> None:
        def move(connection: Connection) -> bool:
            room = rooms.move(connection, self.channel, account, old, new) if old != new else None
            principal = room.id if room is not None else None
            conversations.move(connection, principal, self.channel, account, old, new)
            return room is not None

        if await self.database.write(move):
            log.info("a room has moved", channel=self.channel, conversation=new)

    async def closed(self, account: str, conversation: str, reason: str) -> None:
        def close(connection: Connection) -> None:
            for reply, principal in conversations.close(connection, self.channel, account, conversation, reason):
                body = {"reply": reply.hex, "channel": self.channel, "reason": reason}
                journal.append(connection, principal, [Event("reply.failed", body)], under=None)

        await self.database.write(close)

    async def opened(self, account: str, conversation: str, reason: str) -> None:
        reopen = partial(
            conversations.reopen, channel=self.channel, account=account, conversation=conversation, reason=reason
        )
        if count := await self.database.write(reopen):
            log.info("what was given up is sent again", channel=self.channel, replies=count)

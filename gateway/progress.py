"""How far a reply of several messages has gone, so that a crash in the middle repeats at most one of them.

The outbox row keeps the platform's id of each message that went out, in ``external_id``, as they go; the claim is
checked in the same statement, so that a gateway that lost it records nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection, select, update

from workspace_store.database import Database
from workspace_store.outbox import outbox

_BETWEEN = " "


class Progress(Protocol):
    """Ids of the messages of a reply that are known to have gone out, in order."""

    async def sent(self, reply: UUID) -> tuple[str, ...]: ...

    async def record(self, reply: UUID, sent: tuple[str, ...]) -> None:
        """Raises DatabaseUnavailable: the last of ``sent`` went out, but that is not recorded."""
        ...


class OutboxProgress:
    """Progress in the outbox. ``claimer``: the gateway's id."""

    def __init__(self, database: Database, claimer: str) -> None:
        self._database = database
        self._claimer = claimer

    async def sent(self, reply: UUID) -> tuple[str, ...]:
        found = await self._database.read(partial(_sent, reply=reply))
        return tuple((found or "").split(_BETWEEN)) if found else ()

    async def record(self, reply: UUID, sent: tuple[str, ...]) -> None:
        await self._database.write(partial(_record, reply=reply, claimer=self._claimer, sent=_BETWEEN.join(sent)))


def _sent(connection: Connection, reply: UUID) -> str | None:
    return connection.execute(select(outbox.c.external_id).where(outbox.c.id == reply)).scalar()


def _record(connection: Connection, reply: UUID, claimer: str, sent: str) -> None:
    connection.execute(
        update(outbox)
        .where(outbox.c.id == reply, outbox.c.status == "sending", outbox.c.claimed_by == claimer)
        .values(external_id=sent)
    )

"""Whether the agent takes part in a thread: it has answered there, or has heard what it is about to answer."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection, literal_column, select

from gateway.slack.intake import NAME, TakesPart
from workspace_store.database import Database
from workspace_store.inbox import inbox
from workspace_store.outbox import outbox


def answered_in(database: Database) -> TakesPart:
    """Asks the database: whichever gateway heard or answered, and however long ago."""

    async def takes_part(team: str, conversation: str, thread: str) -> bool:
        query = partial(_answered, account=team, conversation=conversation, thread=thread)
        return await database.read(query)

    return takes_part


def _answered(connection: Connection, account: str, conversation: str, thread: str) -> bool:
    return any(
        connection.execute(
            select(where.c.thread)
            .where(
                where.c.channel == literal_column(f"'{NAME}'"),
                where.c.account == account,
                where.c.conversation == conversation,
                where.c.thread == thread,
            )
            .limit(1)
        ).first()
        for where in (inbox, outbox)
    )

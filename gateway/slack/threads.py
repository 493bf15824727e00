"""Whether the agent takes part in a thread, from what it has answered there."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection, literal_column, select

from gateway.slack.intake import NAME, TakesPart
from workspace_store.database import Database
from workspace_store.outbox import outbox


def answered_in(database: Database) -> TakesPart:
    """Asks the outbox: a thread with a reply of the agent is one it takes part in, also after a restart."""

    async def takes_part(team: str, conversation: str, thread: str) -> bool:
        query = partial(_answered, account=team, conversation=conversation, thread=thread)
        return await database.read(query)

    return takes_part


def _answered(connection: Connection, account: str, conversation: str, thread: str) -> bool:
    query = select(outbox.c.number).where(
        outbox.c.channel == literal_column(f"'{NAME}'"),
        outbox.c.account == account,
        outbox.c.conversation == conversation,
        outbox.c.thread == thread,
    )
    return connection.execute(query.limit(1)).first() is not None

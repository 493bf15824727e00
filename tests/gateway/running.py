"""A turn that runs, by hand: what a runner would write and tell, for tests of what a gateway shows meanwhile."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from gateway.drafts import Drafts
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store import drafts, inbox, outbox
from workspace_store.database import Database
from workspace_store.outbox import Address


class RunningTurn:
    """The turn of an accepted message."""

    def __init__(self, database: Database, accepted: Accepted) -> None:
        self.id = uuid4()
        self.database = database
        self.message = accepted.message
        self.principal = accepted.principal

    async def begin(self) -> RunningTurn:
        await self.database.write(lambda connection: inbox.start(connection, self.message, self.id, alone=False))
        return self

    def tells(self, **what: str) -> dict[str, Any]:
        """News of it: ``doing``, ``text``."""
        return {"progress": {"turn": self.id.hex, "message": self.message.hex, **what}}

    def prints(self, output: str) -> dict[str, Any]:
        return {"turn": self.id.hex, "call": "call-1", "output": output}

    async def commit(self, text: str, *told: Drafts) -> None:
        """End it with a reply, and tell the gateways."""
        await self.database.write(partial(self._commit, text=text))
        for gateway in told:
            gateway.hear({"bell": "outbox", "turn": self.id.hex})

    def _commit(self, connection: Connection, text: str) -> None:
        row = inbox.get(connection, self.message)
        assert row is not None
        key, content = f"{self.id.hex}:0", {"text": text, "reply": dict(Envelope.from_json(row.envelope).reply)}
        inbox.finish(connection, [row.id], "done")
        if drafts.finish(connection, key=key, turn=self.id, message=row.id, content=content):
            return
        to = Address(row.channel, row.account, row.conversation, row.thread)
        outbox.queue(
            connection, key=key, principal=row.principal, turn=self.id, inbox=row.id, to=to, content=content
        )  # fmt: skip


def rows(connection: Connection) -> list[tuple[str, str | None]]:
    """(status, the platform's id) of everything in the outbox."""
    found = connection.execute(outbox.outbox.select().order_by(outbox.outbox.c.number))
    return [(row.status, row.external_id) for row in found]

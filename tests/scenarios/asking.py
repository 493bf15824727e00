"""Asking for approvals in a house's own database, as whatever needs one does."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, select

from nightporter.testing import House
from workspace_store import approvals, inbox
from workspace_store.approvals import Approval
from workspace_store.database import Database

REQUEST = {"host": "packages.example.org"}


class Asker:
    """``ask`` where a person at a channel was last heard."""

    def __init__(self, house: House) -> None:
        self.database = Database(f"sqlite:///{house.home}/nightporter.db")

    def ask(self, channel: str, **more: Any) -> Approval:
        def write(connection: Connection) -> Approval:
            owner = self._last_heard(connection, channel)
            place = approvals.place_of(connection, owner)
            assert place is not None
            given: dict[str, Any] = {
                "key": uuid4().hex, "kind": "story", "principal": owner, "at": place, "request": REQUEST,
                "text": "reach `packages.example.org` from the sandbox", **more,
            }  # fmt: skip
            return approvals.request(connection, **given)

        return self.database.write_now(write)

    @staticmethod
    def _last_heard(connection: Connection, channel: str) -> UUID:
        rows = inbox.inbox
        query = select(rows.c.principal).where(rows.c.channel == channel).order_by(rows.c.received_at.desc()).limit(1)
        return UUID(str(connection.execute(query).scalar_one()))

    def now_is(self, found: Approval) -> Approval:
        return self.database.read_now(lambda connection: approvals.get(connection, found.id))

    def consume(self, found: Approval) -> bool:
        return self.database.write_now(lambda connection: approvals.consume(connection, found.id, REQUEST))

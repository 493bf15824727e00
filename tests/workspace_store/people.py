"""People with mail, for the tests of the store."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import Connection

from workspace_store import inbox, inbox_counts, principal
from workspace_store.database import Database, now_us
from workspace_store.principal import Lease


def person(database: Database) -> UUID:
    """A new principal."""
    identifier = uuid4()
    database.write_now(lambda connection: principal.create(connection, identifier, "user"))
    return identifier


def lease(database: Database, owner: UUID, runner: str = "runner-a") -> Lease:
    """The lease of a principal, taken over from whoever holds it."""

    def transaction(connection: Connection) -> Lease | None:
        seen = principal.look(connection, owner)
        assert seen is not None
        return principal.take(connection, owner, runner, seen)

    taken = database.write_now(transaction)
    assert taken is not None
    return taken


def receive(
    connection: Connection, owner: UUID, text: str = "hello", *, thread: str = "", conversation: str = "c",
    actor: UUID | None = None,
) -> UUID:  # fmt: skip
    """One more message in a principal's inbox."""
    identifier = uuid4()
    seq, _ = inbox_counts.received(connection, owner)
    inbox.insert(
        connection, status="pending", id=identifier, dedupe_key=identifier.hex, principal=owner, seq=seq,
        kind="message", actor=actor or owner, channel="local", account="", conversation=conversation, thread=thread,
        envelope=text, received_at=now_us(),
    )  # fmt: skip
    return identifier

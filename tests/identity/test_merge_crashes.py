"""SIGKILL between any two steps of a merge or its undoing: afterwards it is the old or the new, and nothing between."""

from __future__ import annotations

import os
import signal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event, text

from identity import merging, users
from identity.users import Claim
from tests import processes
from workspace_store import approvals, inbox, inbox_counts, journal, memory
from workspace_store.database import Database, now_us
from workspace_store.outbox import Address

ANN = Claim("slack", "T1", "U1", "Ann", "platform")
BOB = Claim("telegram", "7", "5", "Bob", "platform")
STATEMENTS = 80
"""More than a merge takes: the last kills find nothing left to interrupt."""


def run(url: str, kept: UUID, absorbed: UUID, undo: bool, kill_at: int) -> None:
    """Merge or undo, and die before the statement of this number."""
    database = Database(url)
    count = 0

    def die(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def transaction(connection: Any) -> None:
        event.listen(connection, "before_cursor_execute", die)
        event.listen(connection.engine, "commit", die)
        if undo:
            merging.undo(connection, absorbed, None)
        else:
            asked = next(one for one in merging.of(connection, absorbed) if one.state == "waiting")
            merging.attempt(connection, asked)

    database.write_now(transaction)
    database.close()


def prepared(database: Database) -> tuple[UUID, UUID]:
    """Two users with notes, waiting mail and an open approval, who are to be merged."""

    def fill(connection: Any) -> tuple[UUID, UUID]:
        ann, bob = users.create(connection, ANN, "member").id, users.create(connection, BOB, "admin").id
        for one in (ann, bob):
            memory.write_note(connection, one, one.hex, f"note of {one}", None)
            seq, _ = inbox_counts.received(connection, one)
            inbox.insert(
                connection, status="pending", id=one, dedupe_key=one.hex, principal=one, seq=seq, kind="message",
                actor=one, channel="telegram", account="7", conversation="5", thread="",
                envelope='{"attachments":[]}', received_at=now_us(),
            )  # fmt: skip
        approvals.request(
            connection, key="k", kind="test", principal=bob, turn=None, request={}, text="do it",
            at=approvals.Place(Address("telegram", "7", "5", ""), {}),
        )  # fmt: skip
        merging.ask(connection, ann, bob, actor=None, by_link=False, seconds=0)
        return ann, bob

    return database.write_now(fill)


def state(database: Database, ann: UUID, bob: UUID) -> tuple[Any, ...]:
    """Everything a merge changes."""

    def look(connection: Any) -> tuple[Any, ...]:
        owners = [users.by_identity(connection, claim) for claim in (ANN, BOB)]
        counts = connection.execute(
            text("SELECT inbox_seq, drained_seq, owner, merged_into FROM principal ORDER BY created_at")
        ).all()
        return (
            [owner and (owner.id, owner.role) for owner in owners],
            [str(row) for row in counts],
            len(memory.notes(connection, ann)),
            [(row.id, row.principal) for row in (inbox.get(connection, ann), inbox.get(connection, bob)) if row],
            [one.principal for one in approvals.waiting(connection, None)],
            [(one.state, one.done_at is None) for one in merging.of(connection, bob)],
            [journal.verify(connection, owner) for owner in (ann, bob)],
        )

    return database.read_now(look)


@pytest.mark.slow
@pytest.mark.parametrize("undo", [False, True])
def test_a_kill_at_any_step_leaves_the_old_or_the_new(database: Database, undo: bool) -> None:
    ann, bob = prepared(database)
    if undo:
        run(database.url, ann, bob, False, 0)
    old = state(database, ann, bob)
    step = 20 if database.url.startswith("postgresql") else 5
    for kill_at in [*range(1, STATEMENTS, step), 0]:
        process = processes.start(run, database.url, ann, bob, undo, kill_at)
        (code,) = processes.codes(process)
        found = state(database, ann, bob)
        if code == 0:
            assert found != old
            break
        assert code == -signal.SIGKILL
        assert found == old, f"killed at {kill_at}"
    assert code == 0
    joined = len({owner and owner[0] for owner in found[0]}) == 1
    assert joined is not undo
    assert not any(faults for _, faults in found[-1])

"""Recording a turn as it goes: each step under the lease, before its result is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from sandbox_runner import assignments
from sandbox_runner.assignments import Arrivals, Assignment
from sandbox_runner.turn_in_hand import Ending, Turn, said_by
from workspace_store import inbox, inbox_counts, journal
from workspace_store.database import Database
from workspace_store.inbox import Row
from workspace_store.journal import Event


@dataclass
class Recorder:
    """``takes_messages``: the engine does, in the middle of a turn."""

    database: Database
    read_message: Callable[[Row], Assignment]
    arrivals: Arrivals
    takes_messages: bool

    async def append(
        self,
        turn: Turn,
        events: list[Event],
        writes: Sequence[Callable[[Connection], object]] = (),
        *,
        take: bool = False,
        followed: bool = False,
    ) -> None:
        """Journal what is pending and ``events``, with what ``writes`` do, in one fenced transaction.

        ``take``: what arrived meanwhile comes into the turn, where it takes it. ``followed``: as in Database.write.
        Raises StaleLease, DatabaseUnavailable.
        """
        given = [*turn.pending, *events]
        if not given:
            return

        def transaction(connection: Connection) -> tuple[list[Row], Ending]:
            journal.append(connection, turn.principal, given, under=turn.lease, turn=turn.id)
            turn.pay(connection)
            for write in writes:
                write(connection)
            ending = self.ending(connection, turn)
            if ending or not (take and self.steers):
                return [], ending
            return assignments.take_arrivals(connection, turn.lease, turn.assignments[0].row, turn.id), ending

        taken, ending = await self.database.write(transaction, followed=followed)
        turn.end(ending)
        turn.pending.clear()
        turn.unpaid.clear()
        for assignment in assignments.read(taken, self.read_message):
            turn.assignments.append(assignment)
            turn.said.append(said_by(assignment))

    @property
    def steers(self) -> bool:
        return self.arrivals == "steer" and self.takes_messages

    def ending(self, connection: Connection, turn: Turn) -> Ending:
        """Whether the turn is to end, and why."""
        if inbox_counts.is_stopped(connection, turn.principal, max(row.seq for row in turn.rows)):
            return "stop"
        interrupts = self.arrivals == "interrupt" and inbox.waiting_like(connection, turn.assignments[0].row)
        return "interrupt" if interrupts else ""

"""The commit of a turn: checkpoint, outbox, counts and inbox status in one fenced transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from agent import context, old_turns
from agent.trajectory import Said, shortened
from sandbox_runner import own_calls, questions, replying
from sandbox_runner.published import Snapshot, write_annexes, write_checkpoint
from sandbox_runner.turn_in_hand import Turn
from workspace_store import changes, checkpoints, inbox, inbox_counts, journal, memory_sessions, principal
from workspace_store.journal import Event
from workspace_store.statements import Together


@dataclass(frozen=True)
class Commit:
    """What a turn leaves behind. ``replies`` by the hex id of the message that each answers."""

    turn: Turn
    snapshot: Snapshot | None
    """Of its volume; None: nothing of that was touched."""
    replies: Mapping[str, str]
    sending: Sequence[Mapping[str, Any]]
    """Files that go with the last reply."""
    unsaid: Sequence[Event]
    """What its sandbox did and has not told yet."""

    def write(self, connection: Connection) -> tuple[bool, bool]:
        """Whether the lease went with it, and whether old turns are to be folded before it does. Raises StaleLease.

        What does not depend on each other is written together, with the principal's row last.
        """
        turn, owner = self.turn, self.turn.principal
        seq = journal.append(connection, owner, self._events(), under=turn.lease, turn=turn.id)
        turn.pay(connection)
        before = replying.look(connection, turn, old_turns.LIMIT)
        beside = Together(connection)
        if turn.asks is not None and turn.status == "waiting":
            questions.queue(connection, turn, turn.asks, self.replies, self.sending, before, beside)
        else:
            replying.queue_replies(connection, turn, self.replies, self.sending, before, beside)
        if self.snapshot is None:
            checkpoints.write_unchanged(connection, owner, seq, turn.id, beside)
        else:
            write_checkpoint(connection, owner, seq, turn.id, self.snapshot)
            write_annexes(connection, self.snapshot)
        if turn.calling or turn.recorded.uncertain:
            own_calls.give_up(connection, turn.id)
        leaves_nothing = not self.replies and turn.is_heartbeat
        if not leaves_nothing:
            self._record(connection, seq, None if turn.verified else beside)
        if turn.verified:
            memory_sessions.ended(connection, owner, memory_sessions.REST_SECONDS)
        rows = [row.id for row in turn.rows]
        inbox.finish(connection, rows, turn.status, beside)
        changes.told(connection, [change.key for change in turn.changed])
        if old_turns.due(connection, owner, before.unfolded + (not leaves_nothing)):
            inbox_counts.end_drained(beside, owner, len(rows))
            return False, True
        return principal.drain_and_release(beside, turn.lease, len(rows)), False

    def _events(self) -> list[Event]:
        changed = self.snapshot is not None and self.snapshot.changed > 0
        body = {"generation": self.snapshot.generation if self.snapshot and changed else None}
        return [
            *self.turn.pending,
            *self.unsaid,
            *(Event("reply.queued", {"message": message, "text": text}) for message, text in self.replies.items()),
            Event("checkpoint.committed", {**body, "status": self.turn.status}),
        ]

    def _record(self, connection: Connection, seq: int, beside: Together | None) -> None:
        """Keep what was said, as later turns and searches are to read it."""
        answers = (Said("assistant", text, message=message) for message, text in self.replies.items())
        kept = [shortened(item) for item in (*self.turn.said, *answers)]
        said = [item.to_json() for item in kept]
        tokens = context.tokens_of(kept)
        checkpoints.record_turn(connection, self.turn.principal, seq, self.turn.id, said, tokens, beside)

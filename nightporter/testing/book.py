"""A stand-in for inbox and outbox, in memory: for tests of a channel without a database."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from gateway.channel import Channel, Outcome, Retry, Sent, Uncertain
from router.changes import Change
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store.database import DatabaseUnavailable
from workspace_store.outbox import Reply


@dataclass
class Book:
    """``accept`` records envelopes once; ``deliver`` sends a reply until its fate is known, as delivery does.

    ``down``: how many of the next accepts find no database.
    """

    envelopes: dict[str, Envelope] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    down: int = 0
    accepted: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    progress: dict[UUID, tuple[str, ...]] = field(default_factory=dict)
    threads: set[tuple[str, str, str]] = field(default_factory=set)
    _number: int = 0

    async def accept(self, envelope: Envelope) -> Accepted | None:
        if self.down:
            self.down -= 1
            raise DatabaseUnavailable("down")
        duplicate = envelope.dedupe_key in self.envelopes
        self.envelopes.setdefault(envelope.dedupe_key, envelope)
        self.accepted += 1
        return Accepted(uuid4(), uuid4(), duplicate, False, None)

    async def changed(self, change: Change) -> None:
        self.changes.append(change)

    async def takes_part(self, team: str, conversation: str, thread: str) -> bool:
        return (team, conversation, thread) in self.threads

    async def sent(self, reply: UUID) -> tuple[str, ...]:
        return self.progress.get(reply, ())

    async def record(self, reply: UUID, sent: tuple[str, ...]) -> None:
        self.progress[reply] = sent

    @property
    def texts(self) -> list[str]:
        return [envelope.text for envelope in self.envelopes.values()]

    def reply(self, to: Envelope, text: str, *, edits: str | None = None, **content: Any) -> Reply:
        """A reply to an envelope, claimed; ``edits``: the platform's id of the message whose place it takes."""
        self._number += 1
        return Reply(
            uuid4(), f"turn:{self._number}", self._number, uuid4(), None, None, to.channel, to.account, to.conversation,
            to.thread, {"text": text, "reply": dict(to.reply), **content}, 0, 0, False, edits,
        )  # fmt: skip

    async def deliver(self, channel: Channel, reply: Reply, tries: int = 8) -> Outcome:
        """Send a reply as often as delivery would, without waiting; the last outcome."""
        for _ in range(tries):
            outcome = await channel.send(reply)
            self.outcomes.append(outcome)
            if isinstance(outcome, Uncertain):
                reply = replace(reply, was_sending=True, attempts=reply.attempts + 1)
            elif isinstance(outcome, Retry):
                reply = replace(reply, was_sending=False, attempts=reply.attempts + 1)
            else:
                break
        return self.outcomes[-1]

    def settled(self) -> Sent:
        """The last outcome, which must be ``Sent``."""
        last = self.outcomes[-1]
        assert isinstance(last, Sent), last
        return last

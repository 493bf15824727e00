"""A turn in hand: its lease, the messages it works on, what was said and done so far, and what is yet to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection

from agent import context, texts
from agent.briefing import Briefing
from agent.compaction import Compaction, ContextTooLarge
from agent.engine import Engine, EngineError, Step, ToolCall
from agent.preface import Preface
from agent.sandbox import SandboxError
from agent.tool import Here
from agent.toolbox import Offer
from agent.trajectory import Context, Said
from sandbox_runner import pictures, resume
from sandbox_runner import texts as runner_texts
from sandbox_runner.asking import Stopped
from sandbox_runner.assignments import HEARTBEAT, Assignment
from sandbox_runner.progress import TurnProgress
from sandbox_runner.receiving import Received
from sandbox_runner.restoring import Problem
from workspace_store import changes, inbox, journal, spending
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.principal import Lease

Ending = Literal["", "stop", "interrupt"]


@dataclass
class Turn:
    """A turn in hand."""

    id: UUID
    lease: Lease
    assignments: list[Assignment]
    recorded: resume.Recorded
    seen: context.Seen
    progress: TurnProgress
    briefing: Briefing | None = None
    """What there was to say when it began, for an engine that looks back."""
    said: list[Said] = field(default_factory=list)
    pending: list[Event] = field(default_factory=list)
    """Events that need no durability before the commit they go into."""
    received: dict[UUID, Received] = field(default_factory=dict)
    """What became of the files of messages."""
    touched: bool = False
    status: inbox.Status = "done"
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """/stop was said, or more while arrivals interrupt; looked at with every transaction and twice a second."""
    interrupted: bool = False
    """It was not /stop."""
    changed: list[changes.Untold] = field(default_factory=list)
    """What people changed of what they said before, which this turn is the first to know."""
    offer: Offer = field(default_factory=Offer)
    """The tools it has."""
    preface: Preface = field(default_factory=Preface)
    """What rides with its message, once that is put together."""
    asks: Mapping[str, Any] | None = None
    """The question to its person that it is to end with."""
    unpaid: list[Step] = field(default_factory=list)
    """Steps whose cost is written with the pending events."""
    claimed: list[UUID] = field(default_factory=list)
    """Tasks that were claimed and are yet to be checked."""
    calling: set[str] = field(default_factory=set)
    """Calls under way that are in the effect ledger."""
    pictures: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """(type, bytes) of those it has looked at, by blob."""
    verified: bool = False
    """A task was: the session ends with this turn."""
    compaction: Compaction | None = None
    """What has gone from its context so far."""
    resumed: bool = False
    """It was cut off before."""
    notes: list[str] = field(default_factory=list)
    """What the runtime itself has to say with the reply."""

    @property
    def principal(self) -> UUID:
        return self.lease.principal

    def end(self, reason: Ending) -> None:
        """Remember that the turn is to end, if it is."""
        if reason and not self.stopping.is_set():
            self.interrupted = reason == "interrupt"
            self.stopping.set()

    def found(self, problem: Problem) -> None:
        """Journal what a check of the restore has found, and tell it with the reply; each thing once."""
        if problem.text not in self.notes:
            self.pending.append(problem.event())
            self.notes.append(problem.text)

    def tell_beside(self, words: str) -> None:
        """Tell the engine something that is not the person's word, with the message in hand."""
        first = self.said[0]
        about = "\n\n".join(filter(None, (words, first.data.get("context"))))
        self.said[0] = replace(first, data={**first.data, "context": about})

    def tell_of_files(self, assignment: Assignment) -> None:
        """Tell the engine, with the message that brought them, where its files are and which it can look at."""
        received = [self.received[message] for message in assignment.with_files]
        told: dict[str, Any] = {"files": [file for each in received for file in each.described]}
        if looks := pictures.of_files(file for each in received for file in each.files):
            told["pictures"] = looks
        brought_by = ("user", assignment.row.id.hex)
        self.said = [
            replace(said, data={**said.data, **told}) if (said.role, said.message) == brought_by else said
            for said in self.said
        ]

    def fail(self, error: Exception) -> Mapping[str, str]:
        """It ends with an error; what is said of that."""
        self.status = "failed"
        self.pending.append(Event("turn.failed", {"reason": f"{type(error).__name__}: {error}"}))
        if isinstance(error, EngineError | SandboxError):
            return self.same_for_all(runner_texts.turn_ended(self.id.hex, str(error)))
        return self.same_for_all(runner_texts.turn_failed(self.id.hex, type(error).__name__))

    def end_if_stopped(self) -> None:
        """A safe point. Raises Stopped."""
        if self.stopping.is_set():
            raise Stopped

    @property
    def here(self) -> Here:
        """Where and by whom it was asked for."""
        first = self.assignments[0]
        return Here(*first.row.strand, first.row.actor, bool(first.speaker))

    @property
    def rows(self) -> list[Row]:
        """The inbox rows in hand."""
        return [row for assignment in self.assignments for row in assignment.rows]

    @property
    def note(self) -> str:
        """What a generation made by it is called."""
        files = [file["name"] for received in self.received.values() for file in received.files]
        return (self.assignments[0].text or ", ".join(files))[:80]

    def same_for_all(self, text: str) -> Mapping[str, str]:
        """One answer to every message in hand."""
        return {assignment.row.id.hex: text for assignment in self.assignments}

    def shortened_view(self, engine: Engine, role: str) -> Context:
        """The context of the next step, within the engine's window. Raises EngineError where that cannot be."""
        view = context.build(self.seen, self.said, self.offer.tools)
        view.policy = texts.with_role(view.policy, role)
        if not engine.looks_back:
            # It does what the words in hand say, to the letter: of those nothing may be left out.
            view.status = "\n".join(self.offer.notes)
            return view
        if self.compaction is None:
            self.compaction = Compaction(engine.context_window)
        try:
            return self.compaction.view(view, self.seen.standing)
        except ContextTooLarge as error:
            raise EngineError(str(error)) from error

    def take_claim(self, returned: Mapping[str, Any]) -> None:
        """Note what a tool's recorded result claims: it is checked when the engine has replied."""
        if (claimed := returned.get("claimed")) and UUID(claimed) not in self.claimed:
            self.claimed.append(UUID(claimed))

    @property
    def is_heartbeat(self) -> bool:
        """Nobody has written, also not meanwhile."""
        return all(row.kind == HEARTBEAT for row in self.rows)

    def aloud(self, replies: Mapping[str, str]) -> Mapping[str, str]:
        """What of the replies is told to anybody."""
        silent = {a.row.id.hex for a in self.assignments if a.is_silent(replies.get(a.row.id.hex, ""))}
        return {message: text for message, text in replies.items() if message not in silent}

    def with_notes(self, replies: Mapping[str, str]) -> Mapping[str, str]:
        """What the runtime has to say stands under the last reply."""
        if not (self.notes and replies):
            return replies
        last = list(replies)[-1]
        return {**replies, last: "\n\n".join([replies[last], *self.notes])}

    def with_file_problems(self, replies: Mapping[str, str]) -> Mapping[str, str]:
        """Whatever the engine makes of it, the person learns which of their files are not there."""
        problems = {
            assignment.row.id.hex: [
                problem
                for message in assignment.with_files
                if message in self.received
                for problem in self.received[message].problems
            ]
            for assignment in self.assignments
        }
        return {message: "\n\n".join([text, *problems.get(message, [])]) for message, text in replies.items()}

    def pay(self, connection: Connection) -> None:
        """Count what the pending steps cost, with the events that tell of them."""
        for step in self.unpaid:
            if step.usage is not None:
                spending.add(connection, self.principal, step.model, step.usage)


@dataclass(frozen=True)
class Begun:
    """What a turn begins with, as one transaction read it."""

    turn: UUID
    events: list[journal.Recorded]
    rows: list[Row]
    seen: context.Seen
    briefing: Briefing | None
    changed: list[changes.Untold]
    stopped: bool = False


def said_by(assignment: Assignment) -> Said:
    """A message as the trajectory has it."""
    data = {"context": assignment.context} if assignment.context else {}
    if assignment.row.kind != "message":
        # Told to the engine by the house, not said by a person.
        data["kind"] = assignment.row.kind
    return Said("user", assignment.text, message=assignment.row.id.hex, data=data, speaker=assignment.speaker)


def request_of(call: ToolCall, sandbox: str | None) -> Event:
    """The event that says that a tool is about to run, and in which sandbox."""
    body = {"call": call.id, "name": call.name, "arguments": dict(call.arguments), "sandbox": sandbox}
    return Event("tool.requested", body)

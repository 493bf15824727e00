"""The turn: from one accepted message to a committed checkpoint, as the hand-off contract of a disposable sandbox.

Each step is journaled under the lease before its result is used, so a turn that is cut off anywhere goes on from what
is recorded: nothing recorded is asked or run again, and what was under way is closed as uncertain or fetched from the
sandbox if that lived on. Never holds a transaction over a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection

from agent import briefing, context
from agent import texts as agent_texts
from agent.briefing import Briefing
from agent.engine import Engine, EngineError, EngineUnavailable, Step
from agent.preface import Preface
from agent.preface import given as given_preface
from agent.sandbox import SandboxError, SandboxLost
from agent.toolbox import Toolbox
from agent.trajectory import with_short_calls
from sandbox_runner import (
    assignments,
    budget,
    gating,
    long_replies,
    pictures,
    prefacing,
    questions,
    receiving,
    replying,
    restoring,
    resume,
    texts,
)
from sandbox_runner.asking import Stopped, ask
from sandbox_runner.assignments import Arrivals, Assignment
from sandbox_runner.budget import OverBudget
from sandbox_runner.calling import Caller
from sandbox_runner.committing import Commit
from sandbox_runner.folding import Folder
from sandbox_runner.host import TurnSandbox
from sandbox_runner.progress import TurnProgress
from sandbox_runner.published import Snapshot
from sandbox_runner.recording import Recorder
from sandbox_runner.sandboxes import ManagerAway, Sandboxes
from sandbox_runner.subtasks import Subtasks
from sandbox_runner.turn_in_hand import Begun, Turn, said_by
from sandbox_runner.verifying import Verifier, claimed_before
from workspace_store import changes, inbox, inbox_counts, journal, principal
from workspace_store.blobs import Blobs
from workspace_store.crash_points import Point, reached
from workspace_store.database import Database, DatabaseUnavailable, now_us
from workspace_store.file_limits import FileLimits
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.principal import Head, Lease, StaleLease

log = structlog.get_logger()

MAX_STEPS = 50
STOP_POLL_SECONDS = 0.3


@dataclass
class TurnRunner:
    """Runs turns. ``read_message`` makes an assignment of an inbox row; ``publish`` tells of progress, best effort."""

    database: Database
    engine: Engine
    sandboxes: Sandboxes
    blobs: Blobs
    read_message: Callable[[Row], Assignment]
    publish: Callable[[UUID, dict[str, Any]], None]
    limits: FileLimits = field(default_factory=FileLimits)
    fetch_seconds: float = 60.0
    patience_seconds: float = 3600.0
    """How long a message waits for an engine that cannot be reached."""
    arrivals: Arrivals = "steer"
    daily_budget_usd: float | None = None
    toolbox: Toolbox = field(default_factory=Toolbox)
    verifier: Verifier = field(default_factory=Verifier)
    role: str = ""
    """Who the agent is, where an operator says so."""
    folder: Folder = field(default_factory=Folder)
    message_allow: Sequence[str] = ()
    """Whom it may write to without asking."""

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.database, self.read_message, self.arrivals, self.engine.takes_messages)
        self.caller = Caller(self.recorder, self.blobs, self.publish)

    async def run(self, lease: Lease, row: Row, *, alone: bool = False, begun: Begun | None = None) -> bool:
        """Run one turn to its commit; whether the lease was given back with it (nothing else waits).

        ``begun``: what ``begin`` said, where that was called in the transaction that found the row.
        Raises StaleLease (another runs this principal now); DatabaseUnavailable, ManagerAway and StaleTenancy (nothing
        is lost, and none of it is the message's doing; try again).
        """
        if begun is None:
            begun = await self.database.write(partial(self.begin, lease=lease, row=row, alone=alone))
        if begun is None:
            return False
        reached(Point.TURN_BEGUN)
        turn = self._in_hand(lease, begun)
        async with self.sandboxes.lend(turn.principal) as lent:
            sandbox = TurnSandbox(
                turn.principal, turn.id, lent, self.database, self.publish, self.limits, turn.here, turn.stopping,
                self.message_allow,
            )  # fmt: skip
            stop = asyncio.create_task(self._watch_for_stop(turn, sandbox))
            try:
                replies = await self._act(turn, sandbox)
                reached(Point.TURN_ANSWERED)
            except (StaleLease, DatabaseUnavailable, ManagerAway, asyncio.CancelledError):
                raise
            except Stopped:
                turn.pending.append(Event("turn.stopped", {"interrupted": True} if turn.interrupted else {}))
                replies = turn.same_for_all(texts.INTERRUPTED if turn.interrupted else texts.STOPPED)
            except OverBudget as error:
                replies = turn.same_for_all(str(error))
            except Exception as error:
                log.exception("turn failed", turn=str(turn.id), principal=str(turn.principal))
                replies = turn.fail(error)
            finally:
                stop.cancel()
            try:
                snapshot = await self._save(turn, sandbox)
            except ManagerAway:
                raise
            except SandboxError as error:
                # The files are in the live directory; only this generation of them is missing.
                log.warning("no snapshot", turn=str(turn.id), reason=str(error))
                snapshot = None
                replies = {message: f"{text}\n\n{texts.not_saved(str(error))}" for message, text in replies.items()}
            reached(Point.TURN_SAVED)
            replies = turn.with_file_problems(replies)
            replies = await long_replies.fitted(replies, self.blobs, turn.principal, sandbox.sending)
            released, folds = await self._commit(turn, sandbox, snapshot, replies)
        if not released:
            if folds:
                # Once the reply has gone.
                released = await self.folder.run(self.database, self.engine, lease)
            reached(Point.TURN_FOLDED)
        return released

    # begin

    def begin(
        self, connection: Connection, lease: Lease, row: Row, alone: bool, locked: Head | None = None
    ) -> Begun | None:
        """Count the turn at ``turn.started``; a turn that was cut off comes with all it recorded.

        None, and nothing written: the message was withdrawn meanwhile. ``locked``: the journal's head, where this
        transaction has taken the lease. Raises StaleLease.
        """
        turn = row.turn or uuid4()
        # Whatever is said, or changed of what was said, comes before this lock or after it.
        locked = principal.fence(connection, lease) if locked is None else locked
        # The row as it is now: nothing changes it any more, until here its sender could.
        started = inbox.begin(connection, row.id, turn, alone=alone)
        if started is None:
            return None
        body = {"message": row.id.hex, "resumed": row.turn is not None}
        started_as = Event("turn.started", body)
        journal.append(connection, lease.principal, [started_as], under=lease, turn=turn, locked=locked)
        seen, brief = self._look_back(connection, lease.principal)
        changed = changes.untold(connection, lease.principal) if started.changed else []
        if row.turn is None:
            taken = assignments.take_at_start(connection, lease, started, turn, self.arrivals)
            rows = inbox.taken_by(connection, turn) if taken else [started.row]
            questions.answer_in_words(connection, seen.standing.approvals, started.row)
            return Begun(turn, [], rows, seen, brief, changed)
        rows = inbox.taken_by(connection, turn)
        stopped = inbox_counts.is_stopped(connection, lease.principal, rows[-1].seq)
        events = journal.read(connection, lease.principal, turn=turn)
        return Begun(turn, events, rows, seen, brief, changed, stopped)

    def _in_hand(self, lease: Lease, begun: Begun) -> Turn:
        progress = TurnProgress(lease.principal, begun.turn, begun.rows[0].id, self.publish)
        given = assignments.read(begun.rows, self.read_message)
        turn = Turn(begun.turn, lease, given, resume.read(begun.events), begun.seen, progress, begun.briefing)
        turn.end("stop" if begun.stopped else "")
        turn.claimed = claimed_before(begun.seen.standing.tasks)
        turn.changed = changed = begun.changed
        turn.said = [said_by(assignment) for assignment in turn.assignments]
        turn.resumed = bool(begun.events)
        if changed:
            turn.tell_beside(texts.changed(changed))
        return turn

    def _look_back(self, connection: Connection, owner: UUID) -> tuple[context.Seen, Briefing | None]:
        """What came before, for an engine that reads it."""
        if not self.engine.looks_back:
            return context.Seen(), None
        seen = context.load(connection, owner, self.engine.context_window)
        return seen, briefing.read(connection, owner, seen.standing)

    # act

    async def _act(self, turn: Turn, sandbox: TurnSandbox) -> Mapping[str, str]:
        """Ask the engine for steps and run their tools until it replies; recorded steps are replayed."""
        if turn.recorded.touched:
            turn.pending += await resume.check_state(turn.recorded, sandbox)
            if turn.recorded.without_files:
                turn.notes.append(texts.files_lost(turn.recorded.lost_commands))
        if turn.resumed:
            await restoring.check(turn, self.database, self.blobs)
        turn.offer = await self.toolbox.offer(sandbox)
        sandbox.subtasks = Subtasks(
            self.engine, turn, partial(self.caller.use, turn, sandbox), partial(self._within_budget, turn),
            partial(self._unreachable, turn),
        )  # fmt: skip
        if turn.briefing is not None:
            await self._preface(turn, turn.briefing, sandbox)
        for number in range(MAX_STEPS):
            turn.end_if_stopped()
            await self._receive_files(turn, sandbox)
            step = turn.recorded.step(number)
            if step is None and number == 0:
                step = await self._approved(turn)
            if step is None:
                view = turn.shortened_view(self.engine, self.role)
                await self._within_budget(turn)
                if self.engine.looks_back:
                    view.pictures = await pictures.shown(view, self.blobs, turn.principal, turn.pictures)
                thinking = partial(self.engine.step, view, turn.progress)
                step = await ask(thinking, turn.stopping, partial(self._unreachable, turn))
                reached(Point.MODEL_ANSWERED)
                await self._record_step(turn, number, step)
            if not step.calls:
                if await self.verifier.settle(turn, sandbox, number, step, self.recorder.append):
                    return turn.with_notes(step.replies)
                continue
            turn.said.append(with_short_calls(step.said()))
            for call in step.calls:
                turn.end_if_stopped()
                turn.said.append(await self.caller.use(turn, sandbox, call))
            if turn.asks is not None and turn.said[-1].role == "tool":
                turn.status = "waiting"
                return {turn.assignments[-1].row.id.hex: agent_texts.question(step.text, turn.asks)}
            # Whoever has said more meanwhile is heard first.
            turn.asks = None
        raise EngineError(f"it took {MAX_STEPS} steps without an answer")

    async def _approved(self, turn: Turn) -> Step | None:
        """What the answer that began this turn lets be done: no engine is asked whether to."""
        row = turn.assignments[0].row
        if row.kind != "approval":
            return None
        found = await self.database.read(lambda connection: gating.approved_by(connection, row))
        if found is None:
            return None
        step = gating.step(found, row, turn.offer.tools.get(str(found.request["tool"])))
        await self._record_step(turn, 0, step)
        return step

    async def _preface(self, turn: Turn, found: Briefing, sandbox: TurnSandbox) -> None:
        """Let how things stand ride with the newest message: as it was recorded, or as it is."""
        if turn.recorded.preface is not None:
            turn.preface = Preface.from_json(turn.recorded.preface)
        else:
            turn.preface = await prefacing.preface(turn, found, sandbox, self.daily_budget_usd)
        turn.said = given_preface(turn.said, turn.preface)

    async def _receive_files(self, turn: Turn, sandbox: TurnSandbox) -> None:
        """Put files that came with the messages in hand where the agent finds them, and describe them to it."""
        for assignment in turn.assignments:
            fresh = [message for message in assignment.with_files if message not in turn.received]
            for message in fresh:
                await self._receive(turn, sandbox, message)
            if fresh:
                turn.tell_of_files(assignment)

    async def _receive(self, turn: Turn, sandbox: TurnSandbox, message: UUID) -> None:
        """Place the files of one message, or find them where they were placed."""
        body = turn.recorded.received.get(message.hex)
        received = await receiving.recorded(body, sandbox) if body else None
        if received is None:
            files = await receiving.settled(self.database, turn.lease, message, self.fetch_seconds, turn.end_if_stopped)
            received = await receiving.place(files, sandbox)
            turn.touched = turn.touched or received.live_id is not None
            await self.recorder.append(turn, [Event("files.received", received.to_json(message))])
        turn.touched = turn.touched or received.live_id is not None
        turn.received[message] = received

    async def _within_budget(self, turn: Turn) -> None:
        """Raises OverBudget, with an approval asked for; what this turn has cost is written before it is summed."""
        if self.daily_budget_usd is None:
            return
        await self.recorder.append(turn, [])
        daily, message = self.daily_budget_usd, turn.assignments[-1].row.id
        over = await self.database.write(
            lambda connection: budget.check(connection, turn.lease, turn.id, message, daily)
        )
        if over is not None:
            self.publish(turn.principal, {"bell": "outbox"})
            raise OverBudget(over)

    async def _unreachable(self, turn: Turn, error: EngineUnavailable) -> int:
        """Until when the engine is asked again; recorded and told at the first time only, through any restart."""
        if turn.recorded.unreachable_until is None:
            until = now_us() + int(self.patience_seconds * 1e6)
            text = texts.waiting_for_model(str(error), until)
            body = {"reason": str(error), "until": until}
            last = turn.assignments[-1]
            await self.recorder.append(
                turn,
                [Event("model.unreachable", body), Event("reply.queued", {"message": last.row.id.hex, "text": text})],
                (lambda connection: replying.queue(connection, turn, last, "unreachable", text),),
            )
            turn.recorded.unreachable_until = until
            self.publish(turn.principal, {"bell": "outbox"})
        return turn.recorded.unreachable_until

    async def _record_step(self, turn: Turn, number: int, step: Step) -> None:
        """Journal the engine's step: with the tool request that follows, or with the commit that follows at once."""
        body = {"step": number, "engine": self.engine.name, **step.to_json()}
        if number == 0 and turn.preface:
            body["preface"] = turn.preface.to_json()
        turn.pending.append(Event("model.responded", body))
        turn.unpaid.append(step)
        if not step.calls and turn.touched:
            # A snapshot stands between this answer and the commit: it must not have to be asked for again.
            await self.recorder.append(turn, [], followed=True)

    # stop

    async def _watch_for_stop(self, turn: Turn, sandbox: TurnSandbox) -> None:
        """While a tool runs or the engine thinks, look whether to interrupt it."""
        while True:
            await asyncio.sleep(STOP_POLL_SECONDS)
            try:
                turn.end(await self.database.read(lambda connection: self.recorder.ending(connection, turn)))
                if turn.stopping.is_set():
                    await sandbox.interrupt()
            except (DatabaseUnavailable, SandboxError) as error:
                log.warning("could not look for /stop", turn=str(turn.id), reason=str(error))

    # save

    async def _save(self, turn: Turn, sandbox: TurnSandbox) -> Snapshot | None:
        """Serialize process state and snapshot the volume; None for a turn that touched neither."""
        if not turn.touched:
            return None
        note = turn.note
        try:
            return await sandbox.snapshot(turn.id, note)
        except SandboxLost:
            # What the sandbox published after the last command stands; its files are in the live directory.
            return await sandbox.snapshot(turn.id, note)

    async def _commit(
        self, turn: Turn, sandbox: TurnSandbox, snapshot: Snapshot | None, replies: Mapping[str, str]
    ) -> tuple[bool, bool]:
        """Whether the lease went with it, and whether old turns are to be folded before it does."""
        replies = replies if sandbox.sending or turn.asks else turn.aloud(replies)
        # Before the transaction, which may be run twice: what is told once must not be lost with the first.
        end = Commit(turn, snapshot, replies, sandbox.sending, sandbox.unsaid_events())

        # Whoever delivers a reply claims it durably first.
        ended = await self.database.write(end.write, followed=bool(replies))
        reached(Point.TURN_COMMITTED)
        self.publish(turn.principal, {"bell": "outbox", "turn": turn.id.hex})
        reached(Point.TURN_TOLD)
        return ended

"""``/undo``, ``/redo``, ``/restore``, ``/diff``: turns without an engine that move a volume along its history.

Under the lease the sandbox is put to rest, what it leaves is published, and a *new* generation equal to the old one
follows: nothing of the history is lost, and ``/redo`` finds it. What is about to be done is journaled before the volume
is touched, so that a crash at any step goes on with the same, and not with what the half-done step made of it. Memory,
journal, and approvals that were used stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection

from agent import context
from agent.sandbox import BackgroundTask, SandboxError
from agent.trajectory import Said
from identity import users
from identity.users import GUEST
from sandbox_runner import kept_state
from sandbox_runner import rewind_texts as texts
from sandbox_runner.assignments import Assignment
from sandbox_runner.published import Snapshot, write_annexes, write_checkpoint
from sandbox_runner.sandboxes import LentSandbox, ManagerAway, Sandboxes
from workspace_store import approvals, checkpoints, effects, inbox, inbox_counts, journal, outbox, principal, timeline
from workspace_store.approvals import Approval, Place
from workspace_store.database import Database
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.principal import Lease

log = structlog.get_logger()

INBOX_KIND = "workspace"
APPROVAL_KIND = "workspace.rewind"
WISH = re.compile(
    r"\s*[/!](?P<verb>undo|redo|restore|diff|import)(?:@\S+)?(?:\s+(?P<rest>.*?))?\s*", re.DOTALL | re.IGNORECASE
)
_AT = re.compile(r"(?P<path>.+)@(?P<number>\d{1,9})", re.DOTALL)
EFFECTS_LISTED = 20


class Misunderstood(Exception):
    """The words after the command mean nothing here; the text says what would."""


class NothingToDo(Exception):
    """The history has nothing to go to; the text says so."""


@dataclass(frozen=True)
class Wish:
    """``steps`` of undo or redo; ``number`` a generation that was named; ``path`` in the volume."""

    verb: str
    steps: int = 1
    number: int | None = None
    path: str | None = None
    root: str | None = None
    """The tree of an archive, taken in by the command line: no chat command leads here."""


@dataclass(frozen=True)
class Plan:
    """What is about to be done to the volume: journaled, then done, and done again the same after a crash."""

    verb: str
    to: int
    number: int
    path: str | None
    root: str | None = None


def understand(text: str) -> Wish:
    """Raises Misunderstood."""
    match = WISH.fullmatch(text)
    if match is None:
        raise Misunderstood(texts.HOW)
    verb, rest = match["verb"].lower(), match["rest"] or ""
    if verb == "restore":
        at = _AT.fullmatch(rest)
        if at is None:
            raise Misunderstood(texts.HOW_TO_RESTORE)
        return Wish(verb, number=int(at["number"]), path=in_volume(at["path"]))
    if verb == "import":
        return Wish(verb, root=bytes.fromhex(rest).hex())
    if not rest:
        return Wish(verb)
    named = rest.removeprefix("@")
    if not named.isdecimal() or len(named) > 9 or not (int(named) or rest.startswith("@")):
        raise Misunderstood(texts.HOW)
    if rest.startswith("@") or verb == "diff":
        return Wish(verb, number=int(named))
    return Wish(verb, steps=int(named))


def in_volume(path: str) -> str:
    """A path as it is said in the sandbox, as the volume names it; relative ones are below the workspace."""
    path = path.strip().strip("'\"")
    for said, named in (("~/", "home/"), ("/home/porter/", "home/"), ("/workspace/", "workspace/")):
        if path.startswith(said):
            return named + path.removeprefix(said).strip("/")
    if path.startswith("/"):
        raise Misunderstood(texts.not_in_volume(path))
    if path.startswith(("workspace/", "home/")):
        return path.strip("/")
    return "workspace/" + path.removeprefix("./").strip("/")


@dataclass
class _Turn:
    id: UUID
    lease: Lease
    asked: Assignment
    plan: Plan | None = None
    """What an earlier try of this turn has begun."""
    events: list[Event] = field(default_factory=list)
    status: inbox.Status = "done"

    @property
    def row(self) -> Row:
        return self.asked.row


def is_for(connection: Connection, row: Row) -> bool:
    """Whether a row is one of these turns: said as a command, or the answer to what such a turn asked."""
    asked = _approval_of(connection, row)
    return row.kind == INBOX_KIND or (asked is not None and asked.kind == APPROVAL_KIND)


@dataclass
class Rewinder:
    """Runs these turns. ``publish`` tells of progress, best effort."""

    database: Database
    sandboxes: Sandboxes
    publish: Callable[[UUID, dict[str, Any]], None]

    async def run(self, lease: Lease, asked: Assignment, *, alone: bool) -> bool:
        """One turn to its commit; whether the lease was given back with it. Raises as ``TurnRunner.run``."""
        turn = await self._begin(lease, asked, alone)
        async with self.sandboxes.lend(lease.principal) as lent:
            snapshot, question = None, None
            try:
                text, snapshot, question = await self._do(turn, lent)
            except ManagerAway:
                raise
            except (Misunderstood, NothingToDo) as refusal:
                text = str(refusal)
            except SandboxError as error:
                text, turn.status = texts.failed(str(error)), "failed"
            return await self._commit(turn, text, snapshot, question)

    async def _begin(self, lease: Lease, asked: Assignment, alone: bool) -> _Turn:
        row, turn_id = asked.row, asked.row.turn or uuid4()

        def transaction(connection: Connection) -> list[journal.Recorded]:
            body = {"message": row.id.hex, "resumed": row.turn is not None}
            journal.append(connection, lease.principal, [Event("turn.started", body)], under=lease, turn=turn_id)
            inbox.start(connection, row.id, turn_id, alone=alone)
            return journal.read(connection, lease.principal, turn=turn_id) if row.turn is not None else []

        begun = [event for event in await self.database.write(transaction) if event.kind == "workspace.restoring"]
        plan = Plan(**begun[-1].body) if begun and begun[-1].body else None
        return _Turn(turn_id, lease, asked, plan)

    # What is asked for

    async def _do(self, turn: _Turn, lent: LentSandbox) -> tuple[str, Snapshot | None, Question | None]:
        """What to say, what to commit, and what to ask instead."""
        plan = turn.plan
        if plan is None:
            if await self.database.read(lambda connection: _is_guest(connection, turn.row)):
                return texts.FOR_MEMBERS, None, None
            approval = await self.database.read(lambda connection: _approval_of(connection, turn.row))
            if approval is not None and approval.status == "denied":
                return texts.LEFT_AS_IT_IS, None, None
            wish = Wish(**approval.request["wish"]) if approval else understand(turn.asked.text)
            line = await self.database.read(lambda connection: timeline.read(connection, turn.lease.principal))
            if wish.verb == "diff":
                return await self._differences(wish, line, lent), None, None
            target = await self._target(turn, wish, line)
            running = [task for task in await lent.running_tasks() if _ends_with(wish, task)]
            numbers = sorted(task.task for task in running)
            request = {"wish": asdict(wish), "to": target, "tasks": numbers}
            if running and (approval is None or not set(numbers) <= set(approval.request["tasks"])):
                told = [texts.task(task.task, task.argv) for task in running]
                asleep = all(task.state != "running" for task in running)
                return "", None, Question(request, texts.may_i(wish.verb, target, wish.path, told, asleep=asleep))
            if approval is not None and approval.request["to"] != target:
                return texts.MOVED_ON, None, None
            plan = await self._prepare(turn, wish, target, lent, approval)
        note = texts.note(plan.verb, plan.to, plan.path)
        snapshot = await lent.rewind(turn.id, to=plan.to, number=plan.number, path=plan.path, root=plan.root, note=note)
        done = await self.database.read(lambda connection: _since(connection, turn.lease.principal, plan))
        turn.events.append(
            Event("workspace.restored", {**asdict(plan), "changed": snapshot.visible, "effects": len(done)})
        )
        return texts.restored(plan.verb, plan.to, plan.number, plan.path, snapshot.visible or 0, done), snapshot, None

    async def _target(self, turn: _Turn, wish: Wish, line: timeline.Timeline) -> int:
        if wish.root is not None:
            return 0
        if wish.number is not None:
            target: int | None = wish.number
        elif wish.verb == "undo":
            target = line.before(wish.steps)
        else:
            target = line.future[min(wish.steps, len(line.future)) - 1] if line.future else None
        if target is None:
            raise NothingToDo(texts.nothing_to(wish.verb, len(line.past) - 1))
        owner = turn.lease.principal
        if target:
            there = await self.database.read(lambda c: checkpoints.committed_generation(c, owner, target))
            if there is None:
                raise NothingToDo(texts.no_such_generation(target))
        elif wish.path is not None:
            raise NothingToDo(texts.no_such_generation(target))
        return target

    async def _differences(self, wish: Wish, line: timeline.Timeline, lent: LentSandbox) -> str:
        """Of one generation against the one before it on the line, or of the last step."""
        if wish.number is None:
            if len(line.past) < 2:
                return texts.NO_CHANGES
            before, after = line.past[-2:]
        else:
            after = wish.number
            before = max((number for number in line.past if number < after), default=0)
        return texts.differences(before, after, await lent.differences(before, after))

    async def _prepare(
        self, turn: _Turn, wish: Wish, target: int, lent: LentSandbox, approval: Approval | None
    ) -> Plan:
        """Put the sandbox to rest, commit what it leaves, and journal what comes next."""
        left = await lent.rest(turn.id, texts.BEFORE[wish.verb])
        owner = turn.lease.principal

        def transaction(connection: Connection) -> Plan:
            body: dict[str, Any] = {"state_digest": left.state_digest, "files_changed": left.changed, "notes": []}
            seq = journal.append(connection, owner, [Event("sandbox.slept", body)], under=turn.lease, turn=turn.id)
            number = write_checkpoint(connection, owner, seq, None, left) + 1
            write_annexes(connection, left)
            plan = Plan(wish.verb, target, number, wish.path, wish.root)
            if approval is not None and not approvals.consume(
                connection, approval.id, approval.request, under=turn.lease
            ):
                raise NothingToDo(texts.MOVED_ON)
            journal.append(
                connection, owner, [Event("workspace.restoring", asdict(plan))], under=turn.lease, turn=turn.id
            )
            return plan

        return await self.database.write(transaction)

    # commit

    async def _commit(self, turn: _Turn, text: str, snapshot: Snapshot | None, question: Question | None) -> bool:
        owner, row = turn.lease.principal, turn.row
        said = [Said("user", turn.asked.text, message=row.id.hex, speaker=turn.asked.speaker)]
        said += [Said("assistant", text, message=row.id.hex)] if text else []

        def transaction(connection: Connection) -> bool:
            generation = snapshot.generation if snapshot else None
            events = [*turn.events, Event("checkpoint.committed", {"generation": generation, "status": turn.status})]
            if text:
                events.insert(0, Event("reply.queued", {"message": row.id.hex, "text": text}))
            seq = journal.append(connection, owner, events, under=turn.lease, turn=turn.id)
            write_checkpoint(connection, owner, seq, turn.id, snapshot)
            tokens = context.tokens_of(said)
            checkpoints.record_turn(connection, owner, seq, turn.id, [each.to_json() for each in said], tokens)
            if question is not None:
                place = Place(turn.asked.address, turn.asked.reply, row.actor)
                approvals.request(
                    connection, key=f"rewind:{turn.id.hex}", kind=APPROVAL_KIND, principal=owner, at=place,
                    request=question.request, text=question.text, turn=turn.id, message=row.id, resumes=True,
                    under=turn.lease,
                )  # fmt: skip
            if text:
                outbox.queue(
                    connection, key=f"{turn.id.hex}:0", principal=owner, turn=turn.id, inbox=row.id,
                    to=turn.asked.address, content={"text": text, "reply": dict(turn.asked.reply)},
                )  # fmt: skip
            inbox.finish(connection, [row.id], turn.status)
            inbox_counts.drained(connection, owner)
            return principal.release(connection, turn.lease)

        released = await self.database.write(transaction)
        self.publish(owner, {"bell": "outbox", "turn": turn.id.hex})
        return released


@dataclass(frozen=True)
class Question:
    """What is asked before anything is stopped; it is a turn of its own that goes on with the answer."""

    request: dict[str, Any]
    text: str


def _ends_with(wish: Wish, task: BackgroundTask) -> bool:
    """Whether it would be ended: one that sleeps stays as it is, unless the state that has it goes back too."""
    if task.state == "running" or wish.path is None:
        return True
    return PurePosixPath(kept_state.STATE_FILE).is_relative_to(wish.path)


def _approval_of(connection: Connection, row: Row) -> Approval | None:
    if row.kind != "approval":
        return None
    return approvals.find(connection, UUID(row.dedupe_key.removeprefix("approval:")))


def _is_guest(connection: Connection, row: Row) -> bool:
    actor = users.get(connection, row.actor) if row.actor else None
    return actor is not None and actor.role == GUEST


def _since(connection: Connection, owner: UUID, plan: Plan) -> list[str]:
    """What went out into the world since the generation gone back to: it stays."""
    to = checkpoints.committed_generation(connection, owner, plan.to) if plan.to else None
    after = to.at if to else 0
    found = [each for each in effects.recent(connection, owner, 200) if each.at > after]
    told = [texts.effect(each.method, each.host, each.status, each.at) for each in found if each.status != "refused"]
    return told[:EFFECTS_LISTED]


__all__ = ["APPROVAL_KIND", "INBOX_KIND", "Rewinder", "Wish", "is_for", "understand"]

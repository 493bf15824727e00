"""Whether what was claimed is so: found out by the runtime at the end of a turn, never by who claimed it.

A task's check command runs in a fresh sandbox on a snapshot; without one, a second model is asked with only goal and
evidence. A failed check goes back to the agent with what it found, twice, then to the person. Each check is recorded
before it runs and its result once: a turn that is cut off meanwhile runs it again, for it leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent import procedures
from agent import task_texts as texts
from agent import texts as agent_texts
from agent.engine import Engine, Step, calls_from_json
from agent.judging import judge
from agent.sandbox import CommandResult, SandboxError
from agent.trajectory import Said, preview
from sandbox_runner.asking import unless_stopped
from sandbox_runner.host import TurnSandbox
from sandbox_runner.sandboxes import ManagerAway
from sandbox_runner.turn_in_hand import Turn
from workspace_store import tasks
from workspace_store.journal import Event
from workspace_store.tasks import Task

FAILURES = 3
"""The last of them goes to the person."""
FACTS = 10
FACT_CHARACTERS = 600

Append = Callable[[Turn, list[Event], Sequence[Callable[[Connection], object]]], Awaitable[None]]


@dataclass(frozen=True)
class Finding:
    """``passed`` None: it could not be found out."""

    passed: bool | None
    why: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Verifier:
    """``judge``: the engine that is asked about claims without a check command; None: there is none."""

    judge: Engine | None = None
    seconds: float = 600.0

    async def settle(self, turn: Turn, sandbox: TurnSandbox, number: int, step: Step, append: Append) -> bool:
        """Check what is claimed, now that step ``number`` has replied; False: something goes back to the agent."""
        recorded = turn.recorded.checked.get(number, ())
        back = [said for body in recorded for said in self._tell(turn, body)]
        known = {body["task"] for body in recorded}
        claimed, turn.claimed = turn.claimed, []
        for identifier in claimed:
            task = await sandbox.read(partial(tasks.get, identifier=identifier))
            # One that was checked here before the turn was cut off may have been claimed again in a later step.
            if task.state == "claimed" and task.number not in known:
                back += self._tell(turn, await self._check(turn, sandbox, number, task, append))
        if back:
            turn.said += [Said("assistant", text, message=message) for message, text in step.replies.items()]
            turn.said += back
        return not back

    def _tell(self, turn: Turn, body: Mapping[str, Any]) -> list[Said]:
        """What the agent hears of a recorded check; what the person hears is noted for the reply."""
        turn.verified = turn.verified or body["passed"] is True
        if body["to"] == "agent":
            last = turn.assignments[-1].row.id.hex
            return [Said("user", str(body["text"]), message=last, data={"kind": "check"})]
        turn.notes.append(str(body["text"]))
        return []

    async def _check(self, turn: Turn, sandbox: TurnSandbox, number: int, task: Task, append: Append) -> dict[str, Any]:
        """Run one check between its two events; the second, which settles the task."""
        begun = {"task": task.number, "claim": task.claims, "check": task.check, "step": number}
        await append(turn, [Event("task.checking", begun)], ())
        turn.progress.doing(f"checking task {task.number}")
        try:
            found = await unless_stopped(self._find_out(turn, sandbox, task), turn.stopping)
        finally:
            turn.progress.doing("")
        turn.unpaid += found.steps
        failures = task.failures + (found.passed is False)
        state, to, text = _outcome(task, found, failures)
        body = {**begun, "passed": found.passed, "to": to, "text": text, "failures": failures}
        events = [Event("task.checked", body)]
        writes: list[Callable[[Connection], object]] = [partial(_settle, task, state, found, failures)]
        if state in ("verified", "failed"):
            events.append(Event(f"task.{state}", {"task": task.number, "goal": task.goal, "failures": failures}))
        if state == "failed":
            writes.append(partial(_learn, turn=turn, task=task, reason=found.why))
        await append(turn, events, writes)
        return body

    async def _find_out(self, turn: Turn, sandbox: TurnSandbox, task: Task) -> Finding:
        if not task.check:
            if self.judge is None:
                return Finding(None, texts.NO_JUDGE.format(number=task.number))
            judged = await judge(self.judge, task, _facts(turn.said))
            return Finding(judged.met, judged.why, judged.steps)
        try:
            return _of_command(task.check, await sandbox.check(task.check, self.seconds), self.seconds)
        except ManagerAway:
            raise
        except SandboxError as error:
            return Finding(None, str(error))


def _of_command(command: str, result: CommandResult, seconds: float) -> Finding:
    output = agent_texts.fenced(preview(result.output, None, texts.OUTPUT_CHARACTERS)) if result.output.strip() else ""
    if result.status == "running":
        return Finding(False, texts.command_too_long(command, seconds, output))
    if result.status == "exited" and result.exit_code == 0:
        return Finding(True, "")
    return Finding(False, texts.command_failed(command, result.exit_code, output))


def _outcome(task: Task, found: Finding, failures: int) -> tuple[tasks.State, str, str]:
    """The task's state, who hears of it, and what."""
    if found.passed is None:
        return "claimed", "person", texts.not_checked(task, found.why)
    if found.passed:
        return "verified", "person", texts.verified(task, found.why)
    if failures < FAILURES:
        return "open", "agent", texts.check_failed(task, found.why, FAILURES - failures)
    return "failed", "person", texts.gave_up_checking(task, found.why, failures)


def _settle(task: Task, state: tasks.State, found: Finding, failures: int, connection: Connection) -> None:
    if state == "verified":
        tasks.close(connection, task.id, state, report=found.why)
    else:
        tasks.settle(connection, task.id, state, report=found.why, failures=failures)


def _learn(connection: Connection, turn: Turn, task: Task, reason: str) -> None:
    """What went wrong goes into the runbook that is recalled for a similar task."""
    key = f"postmortem:{task.id.hex}:{task.claims}"
    procedures.postmortem(connection, turn.principal, key=key, goal=task.goal, reason=reason, turn=turn.id)


def _facts(said: Sequence[Said]) -> list[str]:
    """The last tool results of a turn as they were recorded, each with the call it answers."""
    calls = {
        call.id: agent_texts.doing(call.name, call.arguments)
        for one in said
        for call in calls_from_json(one.data.get("calls", ()))
    }
    results = [one for one in said if one.role == "tool" and one.name != "task_claim"][-FACTS:]
    return [texts.recorded(calls.get(one.call, one.name), preview(one.text, None, FACT_CHARACTERS)) for one in results]


def claimed_before(standing: Sequence[Task]) -> list[UUID]:
    """Claims of earlier turns that were cut off before they could be checked."""
    return [task.id for task in standing if task.state == "claimed" and not task.report]

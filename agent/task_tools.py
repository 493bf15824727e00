"""Tools for tasks and promises: goals with a plan and a check, and what was said that it will be done.

No tool here can say ``verified``: that is for the runtime to find out, after a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field

from agent import procedures
from agent import task_texts as texts
from agent import texts as agent_texts
from agent.tool import Arguments, Tool, ToolHost, ToolResult, Write
from workspace_store import commitments, tasks
from workspace_store.journal import Event
from workspace_store.tasks import NoSuchTask, PlanStep, StepState, Task

TASK = Field(ge=1, description="The task's number.")
MOST_STEPS = 50


class StartArguments(Arguments):
    goal: str = Field(min_length=1, max_length=2000, description="What will be true when it is done, in full.")
    check: str = Field(
        "",
        max_length=4000,
        description="A shell command that exits 0 only if the goal is met. It runs in /workspace of a fresh sandbox, "
        "on a copy of the files, without network and without your shell's variables.",
    )
    plan: list[str] = Field(default_factory=list, max_length=MOST_STEPS, description="Steps, in order.")


class StepArguments(Arguments):
    text: str = Field(min_length=1, max_length=500)
    state: StepState = "todo"


class PlanArguments(Arguments):
    task: int = TASK
    steps: list[StepArguments] | None = Field(None, max_length=MOST_STEPS, description="The whole plan, replacing it.")
    step: int | None = Field(None, ge=1, description="Or one step by its number, with its new `state`.")
    state: StepState = "done"


class ClaimArguments(Arguments):
    task: int = TASK
    evidence: str = Field("", max_length=8000, description="What shows that the goal is met.")


class DropArguments(Arguments):
    task: int = TASK
    reason: str = Field("", max_length=1000)


class PromiseArguments(Arguments):
    text: str = Field(min_length=1, max_length=1000, description="What you will do or keep to, and when; complete.")
    task: int | None = Field(None, ge=1, description="The task it belongs to: it ends with that.")


class PromiseDoneArguments(Arguments):
    promise: int = Field(ge=1, description="The promise's number.")
    kept: bool = Field(True, description="False: it is no longer wanted.")


async def _start(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    key, goal, check = f"{host.turn.hex}:{call_id}", str(arguments["goal"]), str(arguments.get("check", ""))
    plan = [PlanStep(str(step)) for step in arguments.get("plan", ())]
    # Only turns open tasks, under the lease: the number is still free when it is written.
    number = await host.read(partial(tasks.number_for, owner=host.principal, key=key))
    write = Write(
        lambda connection: tasks.open_task(
            connection, host.principal, key, goal, plan=plan, check=check, turn=host.turn
        ),
        Event("task.opened", {"task": number, "goal": goal, "check": check, "plan": [step.text for step in plan]}),
    )
    said = texts.opened(number, goal, check)
    runbook = await host.read(lambda connection: procedures.runbook_for(connection, host.principal, goal))
    if runbook is not None:
        said += f"\n\n{agent_texts.learned_before(runbook.body)}"
    return ToolResult(said, writes=(write,))


async def _task(host: ToolHost, arguments: Mapping[str, Any]) -> Task | str:
    """The open task that is meant, or why there is none."""
    try:
        found: Task = await host.read(partial(tasks.numbered, owner=host.principal, number=int(arguments["task"])))
    except NoSuchTask as error:
        return str(error)
    return found


async def _plan(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    found = await _task(host, arguments)
    if isinstance(found, str):
        return ToolResult(agent_texts.refused(found))
    steps, number = list(found.plan), arguments.get("step")
    if (given := arguments.get("steps")) is not None:
        steps = [PlanStep(str(step["text"]), step.get("state", "todo")) for step in given]
    elif number is None:
        return ToolResult(agent_texts.refused(texts.PLAN_OF_WHAT))
    elif number > len(steps):
        return ToolResult(agent_texts.refused(texts.no_such_step(found, number)))
    else:
        steps[number - 1] = PlanStep(steps[number - 1].text, arguments.get("state", "done"))
    body = {"task": found.number, "plan": [[step.text, step.state] for step in steps]}
    write = Write(partial(tasks.plan, identifier=found.id, steps=steps), Event("task.planned", body))
    return ToolResult(texts.planned(found, steps), writes=(write,))


async def _claim(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    found = await _task(host, arguments)
    if isinstance(found, str):
        return ToolResult(agent_texts.refused(found))
    evidence = str(arguments.get("evidence", ""))
    body = {"task": found.number, "evidence": evidence}
    write = Write(partial(tasks.claim, identifier=found.id, evidence=evidence), Event("task.claimed", body))
    return ToolResult(texts.claimed(found), {"claimed": found.id.hex}, (write,))


async def _drop(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    found = await _task(host, arguments)
    if isinstance(found, str):
        return ToolResult(agent_texts.refused(found))
    reason = str(arguments.get("reason", ""))
    body = {"task": found.number, "state": "dropped", "reason": reason}
    write = Write(partial(tasks.close, identifier=found.id, state="dropped", report=reason), Event("task.closed", body))
    return ToolResult(texts.dropped(found), writes=(write,))


async def _promise(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    key, body = f"{host.turn.hex}:{call_id}", " ".join(str(arguments["text"]).split())
    task = None
    if arguments.get("task") is not None:
        found = await _task(host, arguments)
        if isinstance(found, str):
            return ToolResult(agent_texts.refused(found))
        task = found.id
    number = await host.read(partial(commitments.number_for, owner=host.principal, key=key, body=body))
    write = Write(
        lambda connection: commitments.make(connection, host.principal, key, body, task=task, turn=host.turn),
        Event("commitment.made", {"promise": number, "text": body}),
    )
    return ToolResult(texts.promised(number, body), writes=(write,))


async def _promise_done(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    number, kept = int(arguments["promise"]), bool(arguments.get("kept", True))
    standing = await host.read(partial(commitments.standing, owner=host.principal))
    found = next((one for one in standing if one.number == number), None)
    if found is None:
        return ToolResult(agent_texts.refused(texts.no_such_promise(number)))
    write = Write(
        partial(commitments.end, owner=host.principal, number=number, ending="kept" if kept else "dropped"),
        Event("commitment.ended", {"promise": number, "kept": kept}),
    )
    return ToolResult(texts.promise_ended(found, kept), writes=(write,))


TASK_TOOLS = (
    Tool(
        "task_start",
        "Open a task: a goal that lasts over turns, with a check that proves it. For anything that takes more than "
        "this turn, or that must be proven.",
        "idempotent",
        _start,
        arguments=StartArguments,
    ),
    Tool("plan", "Write the steps of a task's plan, or change the state of one.", "idempotent", _plan,
         arguments=PlanArguments),
    Tool(
        "task_claim",
        "Say that a task is done. You cannot verify it: its check is run by the house when this turn ends, and you get "
        "the output if it fails.",
        "idempotent",
        _claim,
        arguments=ClaimArguments,
    ),
    Tool("task_drop", "Give a task up.", "idempotent", _drop, arguments=DropArguments),
    Tool(
        "promise",
        "Keep what you promise (or are told to keep to) before you until it is done: it stands in every later context.",
        "idempotent",
        _promise,
        arguments=PromiseArguments,
    ),
    Tool("promise_done", "End a promise that is kept, or no longer wanted.", "idempotent", _promise_done,
         arguments=PromiseDoneArguments),
)  # fmt: skip

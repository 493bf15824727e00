"""Going on with a turn that was cut off: what it recorded, and what of that still holds.

A recorded result is reused as long as the state it describes is still there. A tool that was requested and never
returned is uncertain: its result is fetched from the sandbox if that lived on, else it is closed with what is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent import texts as agent_texts
from agent.engine import Step, ToolCall
from agent.sandbox import SandboxError
from agent.subtask_tool import SUBTASK
from agent.tool import Tool, ToolResult
from agent.trajectory import Said
from sandbox_runner import texts
from sandbox_runner.host import TurnSandbox
from workspace_store import journal
from workspace_store.journal import Event


@dataclass
class Recorded:
    """What a turn's events say. Empty for a turn that begins."""

    steps: dict[int, Step] = field(default_factory=dict)
    subtasks: dict[tuple[str, int], Step] = field(default_factory=dict)
    """Steps of subtasks, by the call that began one and their number."""
    requested: dict[str, dict[str, Any]] = field(default_factory=dict)
    returned: dict[str, dict[str, Any]] = field(default_factory=dict)
    rolled_back: set[str] = field(default_factory=set)
    received: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What became of the files of messages, by the message's hex UUID."""
    preface: dict[str, Any] | None = None
    """What rode with the turn's message when the engine was first asked."""
    checked: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """What checks of claimed tasks found, by the step whose reply they followed."""
    unreachable_until: int | None = None
    """Until when to ask an engine that could not be reached, microseconds since the epoch."""
    last_returned_at: int = 0
    """When the newest result was recorded, microseconds since the epoch."""
    intended: set[str] = field(default_factory=set)
    """Effects outside that are in the journal, by their hex UUID."""
    without_files: set[str] = field(default_factory=set)
    """Results that describe files of a live directory which is gone."""
    remarks: dict[str, str] = field(default_factory=dict)
    """What the engine is told before a call's result: what checks of the restore have found."""

    def step(self, number: int) -> Step | None:
        return self.steps.get(number)

    @property
    def touched(self) -> list[tuple[str, dict[str, Any]]]:
        """Recorded results that describe files or terminals, in order."""
        return [(call, body) for call, body in self.returned.items() if body.get("touched")]

    @property
    def lost_commands(self) -> list[str]:
        """What was done to files that are gone, in words."""
        lost = [self.requested.get(call, {}) for call in self.returned if call in self.without_files]
        return [str(body.get("arguments", {}).get("command") or body.get("name", "?")) for body in lost]

    @property
    def orphans(self) -> dict[str, dict[str, Any]]:
        """Requests that belong to no recorded answer: what it was is lost, and the engine is asked again."""
        known = {call.id for step in self.steps.values() for call in step.calls}

        def is_known(call: str) -> bool:
            return call in known or any(call.startswith(f"{one}.") for one in known)

        return {call: body for call, body in self.requested.items() if not is_known(call)}

    @property
    def uncertain(self) -> set[str]:
        under_way = self.requested.keys() - self.returned.keys()
        # A subtask does nothing by itself: its own tools are uncertain or not.
        return {call for call in under_way if self.requested[call]["name"] != SUBTASK}


def read(events: Sequence[journal.Recorded]) -> Recorded:
    """Read a turn's events; what was forgotten of them counts as not recorded."""
    found = Recorded()
    for event in events:
        body = event.body
        if body is None:
            continue
        if event.kind == "model.responded":
            found.steps[int(body["step"])] = Step.from_json(body)
            found.preface = body.get("preface") or found.preface
        elif event.kind == "subtask.responded":
            found.subtasks[str(body["of"]), int(body["step"])] = Step.from_json(body)
        elif event.kind == "tool.requested":
            found.requested[str(body["call"])] = body
        elif event.kind == "tool.returned":
            found.returned[str(body["call"])] = body
            found.last_returned_at = event.at
        elif event.kind == "effect.intended":
            found.intended.add(str(body["effect"]))
        elif event.kind == "files.received":
            found.received[str(body["message"])] = body
        elif event.kind == "task.checked":
            found.checked.setdefault(int(body["step"]), []).append(body)
        elif event.kind == "model.unreachable":
            found.unreachable_until = int(body["until"])
        elif event.kind == "turn.rolled_back":
            found.rolled_back.update(str(call) for call in body["calls"])
    return found


async def check_state(recorded: Recorded, sandbox: TurnSandbox) -> list[Event]:
    """Compare the newest recorded state with what is there; a ``turn.rolled_back`` event where it is gone.

    An uncertain command after it may have published a later state, which is no loss: that command is closed as
    uncertain by itself.
    """
    there = await sandbox.look()
    call, body = recorded.touched[-1]
    expected, found = [body.get("live"), body.get("state_digest")], [there.live_id, there.state_digest]
    # Of another live directory: the host is lost, and the storage has what was committed before.
    lost = [one for one, said in recorded.touched if said.get("live") not in (None, there.live_id)]
    recorded.without_files.update(lost)
    if not lost and expected[1] is not None and expected != found and not recorded.uncertain:
        lost = [call]
    lost = [one for one in lost if one not in recorded.rolled_back]
    if not lost:
        return []
    recorded.rolled_back.update(lost)
    return [Event("turn.rolled_back", {"calls": lost, "expected": expected, "found": found})]


def said(recorded: Recorded, call: ToolCall, body: dict[str, Any]) -> Said:
    """A recorded result as the engine sees it again."""
    text = str(body["text"])
    if call.id in recorded.remarks:
        text = f"{recorded.remarks[call.id]}\n\n{text}"
    if call.id in recorded.rolled_back:
        of_what = texts.files_rolled_back if call.id in recorded.without_files else texts.rolled_back
        text = f"{of_what(str(call.arguments.get('command', call.name)))}\n\n{text}"
    return Said("tool", text, call=call.id, name=call.name, data=origin_of(body))


def origin_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the trajectory keeps of where a result's words come from."""
    return {"origin": body["origin"]} if body.get("origin") else {}


async def close_uncertain(
    turn: UUID, sandbox: TurnSandbox, tool: Tool, call: ToolCall, requested: dict[str, Any]
) -> ToolResult | None:
    """The result of a tool that was under way: from the sandbox that lived on, else what is known. Never run again.

    None: the very sandbox it was requested for lives and has never heard of it, so it has not begun.
    """
    if tool.kept is not None:
        try:
            result = await sandbox.result(f"{turn.hex}:{call.id}")
            if result is None and sandbox.id == requested.get("sandbox"):
                return None
        except SandboxError:
            result = None
        if result is not None:
            return tool.kept(result, call.arguments)
    if not tool.needs_sandbox:
        return ToolResult(agent_texts.interrupted(texts.outside_the_sandbox(tool.name)), {"status": "interrupted"})
    return ToolResult(agent_texts.interrupted(await sandbox.what_changed()), {"status": "interrupted"}, touched=True)


async def close_lost(sandbox: TurnSandbox) -> ToolResult:
    """The result of a command whose sandbox ended while it ran."""
    known = f"{texts.sandbox_lost()} {await sandbox.what_changed()}"
    return ToolResult(agent_texts.interrupted(known), {"status": "interrupted"}, touched=True)

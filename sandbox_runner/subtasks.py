"""Running a subtask within a turn: its steps and tools are recorded in the turn's journal under the call's id, so that
one that was cut off goes on where it was, and nothing of it is asked or run twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent import subtask_tool as tool
from agent import texts as agent_texts
from agent.compaction import Compaction, ContextTooLarge
from agent.engine import Engine, EngineError, EngineUnavailable, Step, ToolCall
from agent.progress import SILENT
from agent.standing import NOTHING
from agent.tool import ToolResult, Tools, Write
from agent.tools import SHELL, TOOLS
from agent.trajectory import Context, Said, with_short_calls
from sandbox_runner.asking import ask
from sandbox_runner.turn_in_hand import Turn
from workspace_store.database import now_us
from workspace_store.journal import Event


@dataclass(frozen=True)
class Subtasks:
    """What the turn lends: its engine, one tool's use, its budget, its patience, its journal."""

    engine: Engine
    turn: Turn
    use: Callable[[ToolCall], Awaitable[Said]]
    within_budget: Callable[[], Awaitable[None]]
    unreachable: Callable[[EngineUnavailable], Awaitable[int]]

    async def run(self, call_id: str, goal: str, steps: int) -> ToolResult:
        """The findings of a subtask. Raises Stopped, OverBudget, and what tools of the turn raise."""
        said = [Said("user", agent_texts.subtask_goal(goal, steps), message=tool.SUBTASK)]
        tools = tool.tools_for(self.turn.offer.tools, TOOLS)
        compaction = Compaction(self.engine.context_window)
        findings: Sequence[Mapping[str, Any]] = ()
        why, number = agent_texts.SUBTASK_STEPS, 0
        for number in range(steps):
            self.turn.end_if_stopped()
            step = self.turn.recorded.subtasks.get((call_id, number))
            if step is None:
                view = Context(agent_texts.SUBTASK_POLICY, [], [], [], list(said), tools=tools)
                try:
                    step = await self._think(call_id, number, compaction.view(view, NOTHING))
                except (ContextTooLarge, EngineError) as error:
                    if isinstance(error, EngineUnavailable):
                        raise
                    why = str(error)
                    break
            if not step.calls:
                findings, why = tool.in_words("\n".join(step.replies.values())), ""
                break
            said.append(with_short_calls(step.said()))
            for call in step.calls:
                self.turn.end_if_stopped()
                result, found = await self._use(call_id, call, tools)
                said.append(result)
                findings = found or findings
            if findings:
                why = ""
                break
        return _reported(call_id, goal, findings, number + 1, why)

    async def _think(self, call_id: str, number: int, view: Context) -> Step:
        await self.within_budget()
        step = await ask(partial(self.engine.step, view, SILENT), self.turn.stopping, self.unreachable)
        body = {"of": call_id, "step": number, "engine": self.engine.name, **step.to_json()}
        self.turn.pending.append(Event("subtask.responded", body))
        self.turn.unpaid.append(step)
        return step

    async def _use(self, call_id: str, call: ToolCall, tools: Tools) -> tuple[Said, Sequence[Mapping[str, Any]]]:
        """One tool's result as the subtask sees it, and what it reports with it."""
        if call.problem:
            return Said("tool", agent_texts.refused(call.problem), call=call.id, name=call.name), ()
        if call.name == tool.REPORT:
            return Said("tool", agent_texts.REPORTED, call=call.id, name=call.name), call.arguments["findings"]
        if call.name not in tools:
            refused = agent_texts.refused(agent_texts.not_in_subtask(call.name))
            return Said("tool", refused, call=call.id, name=call.name), ()
        arguments = dict(call.arguments)
        if call.name == SHELL:
            arguments["terminal"] = tool.TERMINAL
        inside = await self.use(ToolCall(f"{call_id}.{call.id}", call.name, arguments))
        return Said("tool", inside.text, call=call.id, name=call.name, data=inside.data), ()


def _reported(call_id: str, goal: str, findings: Sequence[Mapping[str, Any]], steps: int, why: str) -> ToolResult:
    at = now_us()
    timed = [{**finding, "at": at} for finding in findings]
    body = {"call": call_id, "goal": goal, "findings": timed, "steps": steps, "ended": why or "reported"}
    entry = Write(lambda connection: None, Event("subtask.reported", body))
    return ToolResult(agent_texts.findings(timed, why), writes=(entry,), origin=agent_texts.SUBTASK_ORIGIN)

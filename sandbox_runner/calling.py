"""The calls of a turn: a tool is requested in the journal, run, and its result recorded before anybody relies on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from agent import texts as agent_texts
from agent.engine import ToolCall
from agent.sandbox import SandboxError, SandboxLost
from agent.tool import Gate, Refuse, Tool, ToolResult
from agent.trajectory import Said, preview
from sandbox_runner import gating, own_calls, questions, restoring, resume, texts
from sandbox_runner.egress import texts as egress_texts
from sandbox_runner.host import TurnSandbox
from sandbox_runner.recording import Recorder
from sandbox_runner.restoring import Check, Problem
from sandbox_runner.sandboxes import VolumeRefused
from sandbox_runner.turn_in_hand import Turn, request_of
from workspace_store import effects, principal
from workspace_store.blobs import Blobs
from workspace_store.crash_points import Point, reached
from workspace_store.journal import Event

WARM_SECONDS = 0.01
"""Within which a sandbox that is warm has said so."""


@dataclass
class Caller:
    """Runs the calls of turns."""

    recorder: Recorder
    blobs: Blobs
    publish: Callable[[UUID, dict[str, Any]], None]

    async def use(self, turn: Turn, sandbox: TurnSandbox, call: ToolCall) -> Said:
        """Run one tool, or reuse its recorded result, or close it as uncertain."""
        if turn.resumed:
            restoring.adopt(turn, call)
        returned = turn.recorded.returned.get(call.id)
        if returned is not None:
            turn.touched = turn.touched or bool(returned.get("touched"))
            _take_in(turn, sandbox, returned)
            return resume.said(turn.recorded, call, returned)
        tool = turn.offer.tools.get(call.name)
        try:
            if call.problem:
                result = ToolResult(agent_texts.refused(call.problem))
            elif tool is None:
                result = ToolResult(agent_texts.refused(f"there is no tool called {call.name}"))
            else:
                result = await self._run(turn, sandbox, tool, call)
        except gating.NotApproved as error:
            turn.found(Problem(Check.STALE, str(error), repaired=False))
            result = ToolResult(agent_texts.refused(str(error)), {"status": "refused"})
        except SandboxLost:
            result = await resume.close_lost(sandbox)
        except VolumeRefused as error:
            turn.found(Problem(Check.INCONSISTENT, str(error), repaired=False))
            result = ToolResult(agent_texts.refused(str(error)), {"status": "refused"})
        except SandboxError as error:
            result = ToolResult(agent_texts.refused(str(error)))
        return await self.record_result(turn, sandbox, call, result)

    async def _run(self, turn: Turn, sandbox: TurnSandbox, tool: Tool, call: ToolCall) -> ToolResult:
        """Request a tool in the journal and run it; one that was requested before is closed, or proven not begun."""
        requested = turn.recorded.requested.get(call.id)
        approved = call.id == gating.call_id(turn.assignments[0].row)
        if tool.gate is not None and requested is None:
            gate = await self._once_more(turn, tool.gate) if approved else tool.gate
            kept_back = await self._keep_back(turn, sandbox, gate, call)
            if kept_back is not None:
                return kept_back
        if tool.needs_sandbox:
            await self._wake(turn, sandbox)
        if requested is None:
            writes = [partial(gating.use, row=turn.assignments[0].row, lease=turn.lease)] if approved else []
            writes += [partial(own_calls.intend, lease=turn.lease, turn=turn.id, call=call)] if tool.outside else []
            await self.recorder.append(turn, [*sandbox.unsaid_events(), request_of(call, sandbox.id)], writes)
        elif tool.repetition == "once":
            asked_as = replace(call, id=str(requested["call"]))
            closed = await resume.close_uncertain(turn.id, sandbox, tool, asked_as, requested)
            if closed is not None:
                return closed
        if tool.outside:
            turn.calling.add(call.id)
        reached(Point.TOOL_REQUESTED)
        turn.progress.doing(agent_texts.doing(call.name, call.arguments))
        try:
            result = await tool.run(sandbox, call.id, call.arguments)
        finally:
            turn.progress.doing("")
        reached(Point.TOOL_RAN)
        return result

    async def _wake(self, turn: Turn, sandbox: TurnSandbox) -> None:
        """Before the request: so a request names the sandbox it goes to, and a wake cut off is no uncertainty.

        What the engine said must not have to be asked for again while a sandbox starts; one that is warm answers at
        once, and both are recorded together.
        """
        waking = asyncio.ensure_future(sandbox.wake())
        try:
            await asyncio.wait({waking}, timeout=WARM_SECONDS)
        except asyncio.CancelledError:
            waking.cancel()
            raise
        unsaid = [] if waking.done() else [self.recorder.append(turn, [])]
        for outcome in await asyncio.gather(*unsaid, waking, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _once_more(self, turn: Turn, gate: Gate) -> Gate:
        row = turn.assignments[0].row
        return gating.once_more(
            gate, await self.recorder.database.read(lambda connection: gating.approved_by(connection, row))
        )

    async def _keep_back(self, turn: Turn, sandbox: TurnSandbox, gate: Gate, call: ToolCall) -> ToolResult | None:
        """What is said instead of running a tool that is refused or has to be approved first; None: it may run."""
        # What the engine said first: asked again, it might say something else under the same call.
        await self.recorder.append(turn, [])
        verdict = await gate(sandbox, call.arguments)
        if verdict is None:
            return None
        if isinstance(verdict, Refuse):
            return ToolResult(agent_texts.refused(verdict.reason), {"status": "refused"})
        made = await self.recorder.database.write(lambda connection: gating.request(connection, turn, call, verdict))
        self.publish(turn.principal, {"bell": "outbox"})
        if made is None:
            return ToolResult(agent_texts.refused(texts.TOO_MANY_QUESTIONS), {"status": "refused"})
        return ToolResult(texts.waits_for_approval(made.code), {"status": "waiting", "approval": made.id.hex})

    async def record_result(self, turn: Turn, sandbox: TurnSandbox, call: ToolCall, result: ToolResult) -> Said:
        """Record ``tool.returned`` with the tool's own writes, and take in what arrived meanwhile."""
        turn.touched = turn.touched or result.touched
        blob = await self._keep_whole(turn, result)
        notes = sandbox.unsaid_notes()
        outside = await sandbox.untold_effects() if result.touched else []
        told = egress_texts.notes(outside)
        remark = turn.recorded.remarks.get(call.id)
        text = "\n\n".join(filter(None, [remark, preview(result.text, blob), texts.woken(notes), told]))
        body = {
            "call": call.id, "name": call.name, "text": text, "blob": blob, "touched": result.touched,
            "live": sandbox.live_id if result.touched else None, **result.data,
            **({"origin": result.origin} if result.origin else {}),
        }  # fmt: skip
        events = [*sandbox.unsaid_events(), Event("tool.returned", body), *(write.event for write in result.writes)]
        writes = [write.apply for write in result.writes]
        if outside:
            writes.append(partial(effects.tell, identifiers=[effect.id for effect in outside]))
        if call.id in turn.calling or call.id in turn.recorded.uncertain:
            writes.append(partial(own_calls.settle, turn=turn.id, call=call, result=result))
        await self.recorder.append(turn, events, writes, take=True)
        reached(Point.TOOL_RECORDED)
        turn.calling.discard(call.id)
        _take_in(turn, sandbox, body)
        return Said("tool", text, call=call.id, name=call.name, data=resume.origin_of(body))

    async def _keep_whole(self, turn: Turn, result: ToolResult) -> str | None:
        if len(result.output) <= 8192:
            return None
        data = result.output.encode("utf-8", "replace")
        # A runner whose lease has gone leaves nothing behind, not even what no row would name.
        await self.recorder.database.read(partial(principal.check, lease=turn.lease))
        return await asyncio.to_thread(self.blobs.put, turn.principal, data)


def _take_in(turn: Turn, sandbox: TurnSandbox, returned: Mapping[str, Any]) -> None:
    """What a recorded result asks of its turn: files to send, a task to check, a question to end with."""
    sandbox.take_to_send(returned)
    turn.take_claim(returned)
    turn.asks = questions.asked_in(returned) or turn.asks

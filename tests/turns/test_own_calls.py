"""Tools that act outside by themselves: each call is in the effect ledger before it runs, and says how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.engine import Step, ToolCall
from agent.tool import Repetition, Tool, ToolHost, ToolResult
from agent.toolbox import Toolbox
from agent.trajectory import Context
from tests.turns.stage import Crash, Scripted, Stage, answer
from workspace_store import effects


class Till:
    """A tool that takes money; it can be cut off, or break, in the middle."""

    def __init__(self, stage: Stage, repetition: Repetition = "once", status: str = "") -> None:
        self.keys: list[str] = []
        self.crash: BaseException | None = None
        self.status = status
        self.stage = stage
        self.seen: list[str] = []
        tool = Tool("charge", "Take money.", repetition, self.run, arguments={"type": "object"}, outside=True)
        stage.toolbox = Toolbox({"charge": tool})

    async def run(self, host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.keys.append(f"{host.turn.hex}:{call_id}")
        self.seen += [effect.status for effect in await ledger(self.stage)]
        if self.crash is not None:
            raise self.crash
        return ToolResult("Paid.", {"status": self.status} if self.status else {})


async def ledger(stage: Stage) -> list[effects.Effect]:
    return await stage.database.read(lambda connection: effects.recent(connection, stage.owner, 10))


async def charging(context: Context) -> Step:
    if any(said.role == "tool" for said in context.turn):
        return answer(context)
    return Step(calls=(ToolCall("call-1", "charge", {"amount": 80, "card": "4111"}),))


async def test_a_call_is_written_down_before_it_runs_and_settled_with_its_result(stage: Stage) -> None:
    till = Till(stage)
    await stage.hear("charge me")
    await stage.serve(Scripted(charging))
    assert till.seen == ["intended"]
    (effect,) = await ledger(stage)
    assert (effect.host, effect.status, effect.reason) == ("charge", "settled", "")
    assert "4111" not in str(effect), "arguments are known by their digest only"
    assert len(effect.request_digest) == 64


@pytest.mark.parametrize(
    ("status", "ended"), [("interrupted", ("uncertain", "it was cut off")), ("failed", ("settled", "it failed"))]
)
async def test_a_call_that_says_itself_how_it_ended(stage: Stage, status: str, ended: tuple[str, str]) -> None:
    Till(stage, status=status)
    await stage.hear("charge me")
    await stage.serve(Scripted(charging))
    (effect,) = await ledger(stage)
    assert (effect.status, effect.reason) == ended


@pytest.mark.parametrize(
    ("repetition", "times", "status"), [("once", 1, "uncertain"), ("idempotent", 2, "settled"), ("pure", 2, "settled")]
)
async def test_after_a_crash_in_its_middle(stage: Stage, repetition: Repetition, times: int, status: str) -> None:
    till = Till(stage, repetition)
    till.crash = Crash()
    message = await stage.hear("charge me")
    await stage.crash(Scripted(charging))
    assert [effect.status for effect in await ledger(stage)] == ["intended"]
    till.crash = None
    await stage.serve(Scripted(charging))
    assert len(till.keys) == times
    assert len(set(till.keys)) == 1, "always with the same key"
    (effect,) = await ledger(stage)
    assert effect.status == status
    (reply,) = await stage.replies(message)
    assert ("may have been done" in reply) == (status == "uncertain")
    assert "uncertain" in reply or "Paid." in reply or "interrupted" in reply
    # It is said once.
    assert await stage.database.read(lambda c: effects.untold(c, stage.owner)) == []


async def test_a_call_that_its_turn_never_came_back_to_is_uncertain_and_the_next_turn_is_told(stage: Stage) -> None:
    till = Till(stage)
    till.crash = RuntimeError("the tool itself is broken")
    await stage.hear("charge me")
    await stage.serve(Scripted(charging))
    (effect,) = await ledger(stage)
    assert (effect.status, effect.reason) == ("uncertain", "it was cut off")
    prefaces: list[str] = []

    async def look(context: Context) -> Step:
        prefaces.append(str(context.turn[-1].data.get("preface")))
        return answer(context, "Well.")

    await stage.hear("and?")
    await stage.serve(Scripted(look))
    assert "nobody saw how a call of charge ended" in prefaces[0]
    assert till.keys == till.keys[:1]


async def test_stopped_before_it_comes_back_to_a_call_that_was_cut_off(stage: Stage) -> None:
    till = Till(stage)
    till.crash = Crash()
    await stage.hear("charge me")
    await stage.crash(Scripted(charging))
    await stage.hear("/stop")
    await stage.serve(Scripted(charging))
    assert len(till.keys) == 1
    assert [effect.status for effect in await ledger(stage)] == ["uncertain"]


async def test_a_message_that_is_set_aside_leaves_no_call_open(stage: Stage) -> None:
    till = Till(stage, "idempotent")
    till.crash = Crash()
    message = await stage.hear("charge me")
    for _ in range(6):
        await stage.crash(Scripted(charging))
    assert await stage.status(message) == "set_aside"
    assert [effect.status for effect in await ledger(stage)] == ["uncertain"]

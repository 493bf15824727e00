"""``/stop`` ends a turn at a safe point soon, whatever runs and wherever, and leaves a journal that verifies."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent.engine import Step, ToolCall
from agent.trajectory import Context
from tests.turns.stage import Scripted, Stage, answer
from workspace_store import inbox_counts

SOON_SECONDS = 2.0
NOISE_SECONDS = 1.0
"""Of a machine that runs other tests beside this one."""
LONG = {
    "a command in a terminal of its own": ("shell", {"command": "touch begun; sleep 60", "terminal": "build"}),
    "a command that does not listen": ("shell", {"command": "trap '' INT TERM; touch begun; sleep 60; sleep 60"}),
    "a search that takes its time": ("search_files", {"pattern": "(a|aa)+$", "path": "evil"}),
}


@pytest.mark.parametrize("what", LONG)
async def test_stop_ends_it_within_two_seconds(stage: Stage, what: str) -> None:
    name, arguments = LONG[what]

    async def script(context: Context) -> Step:
        done = [said for said in context.turn if said.role == "tool"]
        if not done:
            made = "python3 -c \"print('a' * 60 + 'b')\" > evil"
            return Step(calls=(ToolCall("first", "shell", {"command": made}),))
        if len(done) == 1:
            return Step(calls=(ToolCall("long", name, arguments),))
        return answer(context, "It went on.")

    message = await stage.hear("work")
    async with stage.running(Scripted(script)) as runner:
        serving = asyncio.create_task(runner.serve(stage.owner))
        while len(await stage.events("tool.requested")) < 2:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await stage.database.write(lambda connection: inbox_counts.stop(connection, stage.owner))
        await asyncio.wait_for(serving, 30)
        took = time.monotonic() - began
    assert await stage.replies(message) == ["Stopped."]
    assert took < SOON_SECONDS + NOISE_SECONDS
    assert await stage.verified()
    # The terminal serves the next turn.
    other = await stage.hear("again")

    async def again(context: Context) -> Step:
        if context.turn[-1].role == "user":
            arguments = {"command": "echo well", "terminal": "build"}
            return Step(calls=(ToolCall("a", "shell", arguments),))
        return answer(context)

    await stage.serve(Scripted(again))
    assert "well" in (await stage.replies(other))[0]


@pytest.mark.slow
async def test_a_turn_of_ever_new_steps_is_ended_and_says_why(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        number = len([said for said in context.turn if said.role == "tool"])
        return Step(calls=(ToolCall(f"c{number}", "shell", {"command": f"echo {number}"}),))

    message = await stage.hear("never end")
    engine = Scripted(script, context_window=200_000)
    await stage.serve(engine)
    (reply,) = await stage.replies(message)
    assert "50 steps" in reply
    assert engine.asked == 50
    assert await stage.status(message) == "failed"
    assert await stage.verified()

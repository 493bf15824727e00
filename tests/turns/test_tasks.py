"""Tasks and promises over turns, on real parts: what stands is in every context, and goes when it is ended."""

from __future__ import annotations

import pytest

from agent.engine import Step, ToolCall
from agent.operator import Operator
from agent.trajectory import Context
from tests.turns.stage import Crash, Scripted, Stage, answer
from workspace_store import commitments, tasks


async def say(stage: Stage, text: str) -> str:
    message = await stage.hear(text)
    await stage.serve(Operator())
    return "\n".join(await stage.replies(message))


async def context_of(stage: Stage) -> Context:
    seen = []

    async def script(context: Context) -> Step:
        seen.append(context)
        return answer(context, "seen")

    await stage.hear("what stands?")
    await stage.serve(Scripted(script))
    return seen[0]


async def test_an_open_task_and_a_promise_stand_in_every_context_until_they_are_ended(stage: Stage) -> None:
    assert (await context_of(stage)).standing == []
    said = await say(stage, "task start the page is translated\ncheck: test -f page.de.md\nplan: read it; write it")
    assert "Task 1 is open: the page is translated" in said
    assert "Promise 1: send it to Ann" in await say(stage, "promise send it to Ann")
    assert "1. [x] read it" in await say(stage, "task 1 step 1 done")
    for number in range(30):
        await say(stage, f"remember fact {number}")
    standing = (await context_of(stage)).standing
    assert standing == [
        "Task 1 (open): the page is translated | check `test -f page.de.md` | plan: [x] read it; [ ] write it",
        "Promise 1: send it to Ann",
    ]
    await say(stage, "promise 1 kept")
    assert "given up" in await say(stage, "task 1 drop: no longer wanted")
    assert (await context_of(stage)).standing == []
    assert await stage.verified()


async def test_slash_tasks_lists_goals_and_ends_them_without_a_turn(stage: Stage) -> None:
    await say(stage, "task start first")
    await say(stage, "task start second")
    await say(stage, "promise third")
    listed = await stage.hear("/tasks")
    (text,) = await stage.replies(listed)
    assert text == "- task 1: first (open)\n- task 2: second (open)\n- promise 1: third"
    assert "not verified" in (await stage.replies(await stage.hear("/tasks accept 1")))[0]
    assert "given up" in (await stage.replies(await stage.hear("/tasks drop 2")))[0]
    assert "kept" in (await stage.replies(await stage.hear("/tasks kept 1")))[0]
    assert "no open task" in (await stage.replies(await stage.hear("/tasks drop 2")))[0].lower()
    assert "background tasks" in (await stage.replies(await stage.hear("/tasks")))[0]
    assert "taken as done by a person" in (await stage.replies(await stage.hear("/tasks 1")))[0]
    assert await stage.verified()


@pytest.mark.parametrize("text", ["task 7 done it works", "task 7 drop", "task 7 step 1 done", "promise 7 kept"])
async def test_what_is_not_there_is_refused_with_the_reason(stage: Stage, text: str) -> None:
    said = await say(stage, text)
    assert "I could not run this" in said
    assert "7" in said


async def test_a_turn_that_is_killed_and_resumed_opens_its_task_once(stage: Stage) -> None:
    async def dies(context: Context) -> Step:
        if any(said.role == "tool" for said in context.turn):
            raise Crash
        return Step(
            calls=(
                ToolCall("call-1", "task_start", {"goal": "once"}),
                ToolCall("call-2", "promise", {"text": "only once", "task": 1}),
            )
        )

    async def goes_on(context: Context) -> Step:
        return answer(context)

    message = await stage.hear("do it")
    await stage.crash(Scripted(dies))
    engine = Scripted(goes_on)
    await stage.serve(engine)
    assert "Task 1 is open" in (await stage.replies(message))[0]
    assert len(await stage.database.read(lambda c: tasks.open_tasks(c, stage.owner))) == 1
    (promise,) = await stage.database.read(lambda c: commitments.standing(c, stage.owner))
    assert promise.task is not None


async def test_what_was_promised_for_a_task_ends_with_it(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if not any(said.role == "tool" for said in context.turn):
            return Step(
                calls=(
                    ToolCall("call-1", "task_start", {"goal": "the report"}),
                    ToolCall("call-2", "promise", {"text": "send it on Friday", "task": 1}),
                )
            )
        return answer(context)

    await stage.hear("please")
    await stage.serve(Scripted(script))
    await say(stage, "task 1 drop")
    assert await stage.database.read(lambda c: commitments.standing(c, stage.owner)) == []

"""A subtask works in a context of its own and comes back with findings; cut off anywhere, nothing is done twice."""

from __future__ import annotations

import pytest

from agent.engine import Step, ToolCall
from agent.trajectory import Context
from tests.turns.stage import Crash, Scripted, Stage, answer
from workspace_store import inbox_counts

FINDING = {"text": "The port is 4711.", "source": "conf:1", "confidence": "high"}


def inside(context: Context) -> bool:
    return "report" in context.tools


def scripted(seen: list[Context], *, crash_at: str = "") -> Scripted:
    """Gives a subtask to itself, which looks by two commands and reports."""

    async def script(context: Context) -> Step:
        done = [said.name for said in context.turn if said.role == "tool"]
        if not inside(context):
            if not done:
                return Step(calls=(ToolCall("sub", "subtask", {"goal": "Which port?"}),))
            return answer(context)
        seen.append(context)
        steps = [
            ToolCall("a", "shell", {"command": "echo x >> /workspace/trace; cd /tmp; echo 4711"}),
            ToolCall("b", "shell", {"command": "echo y >> /workspace/trace; pwd; cat /workspace/trace"}),
            ToolCall("c", "report", {"findings": [FINDING]}),
        ]
        if crash_at == steps[len(done)].id:
            raise Crash
        return Step(calls=(steps[len(done)],))

    return Scripted(script)


async def test_it_reports_what_it_found_from_a_context_of_its_own(stage: Stage) -> None:
    seen: list[Context] = []
    message = await stage.hear("My secret plan: find the port")
    engine = scripted(seen)
    await stage.serve(engine)
    (reply,) = await stage.replies(message)
    assert "The port is 4711. (source: conf:1; confidence: high; " in reply
    assert engine.asked == 5
    # It sees its goal and its own work, nothing of the talk; it can ask and tell nobody.
    words = [said.text for context in seen for said in context.turn]
    assert not any("secret plan" in text for text in words)
    assert not {"subtask", "ask_user", "send_message", "remember"} & set(seen[0].tools)
    # A terminal of its own: the person's is where it was.
    assert any("/tmp" in text for text in words)
    other = await stage.hear("where am I?")

    async def where(context: Context) -> Step:
        if context.turn[-1].role == "user":
            return Step(calls=(ToolCall("w", "shell", {"command": "pwd"}),))
        return answer(context)

    await stage.serve(Scripted(where))
    assert "/workspace" in (await stage.replies(other))[0]
    (entry,) = await stage.events("subtask.reported")
    assert entry.body is not None
    assert entry.body["goal"] == "Which port?"
    (finding,) = entry.body["findings"]
    assert finding | {"at": 0} == FINDING | {"at": 0}
    assert finding["at"] > 1e15


@pytest.mark.parametrize("at", ["a", "b", "c"])
async def test_cut_off_it_goes_on_and_does_nothing_twice(stage: Stage, at: str) -> None:
    message = await stage.hear("find the port")
    await stage.crash(scripted([], crash_at=at))
    engine = scripted([])
    await stage.serve(engine)
    (reply,) = await stage.replies(message)
    assert "4711" in reply
    trace = next(stage.folder.glob("volumes/*/live/workspace/trace"))
    assert trace.read_text() == "x\ny\n"
    # What was answered before is not asked again.
    assert engine.asked == {"a": 4, "b": 3, "c": 2}[at]
    assert len(await stage.events("subtask.reported")) == 1
    assert await stage.verified()


async def test_one_that_never_reports_is_ended(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if inside(context):
            number = len([said for said in context.turn if said.role == "tool"])
            return Step(calls=(ToolCall(f"s{number}", "shell", {"command": f"echo {number}"}),))
        if context.turn[-1].role == "user":
            return Step(calls=(ToolCall("sub", "subtask", {"goal": "Wander.", "steps": 3}),))
        return answer(context)

    message = await stage.hear("wander")
    await stage.serve(Scripted(script))
    (reply,) = await stage.replies(message)
    assert "No findings." in reply
    assert "its steps were used up" in reply


async def test_stop_ends_it_with_its_turn(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if inside(context):
            await stage.database.write(lambda connection: inbox_counts.stop(connection, stage.owner))
            return Step(calls=(ToolCall("s", "shell", {"command": "sleep 60"}),))
        return Step(calls=(ToolCall("sub", "subtask", {"goal": "Sleep."}),))

    message = await stage.hear("sleep")
    await stage.serve(Scripted(script))
    assert await stage.replies(message) == ["Stopped."]
    assert await stage.verified()

"""A tool that a person has to approve runs once, as it was approved, and not before; what is refused never runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.engine import Step, ToolCall
from agent.operator import Operator
from agent.tool import Arguments, Ask, Gate, Refuse, Tool, ToolHost, ToolResult
from agent.toolbox import Toolbox
from agent.tools import TOOLS
from agent.trajectory import Context
from nightporter.approval_hooks import HOOKS
from router import actions
from tests.turns.stage import Crash, Scripted, Stage, answer
from workspace_store import approvals
from workspace_store.approvals import Approval


class Room(Arguments):
    room: str


def booking(stage: Stage, gate: Gate) -> list[str]:
    """Give the stage a tool that books; what was booked so far."""
    booked: list[str] = []

    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        booked.append(str(arguments["room"]))
        return ToolResult(f"Booked {arguments['room']}.")

    tool = Tool("book", "Book a room.", "once", run, arguments=Room, gate=gate)
    stage.toolbox = Toolbox({**TOOLS, "book": tool})
    return booked


async def ask_first(host: ToolHost, arguments: Mapping[str, Any]) -> Ask:
    return Ask(f"book room {arguments['room']}")


async def refuse(host: ToolHost, arguments: Mapping[str, Any]) -> Refuse:
    return Refuse("no rooms on Sundays")


async def book(context: Context) -> Step:
    """Books room 7 when a person asks, and says what came of it."""
    if any(said.role == "tool" for said in context.turn) or context.turn[0].data.get("kind") == "approval":
        return answer(context)
    return Step(calls=(ToolCall("call-1", "book", {"room": "7"}),))


async def asked(stage: Stage) -> list[Approval]:
    return await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner))


async def decide(stage: Stage, verdict: approvals.Verdict, instead: str = "") -> None:
    (found,) = await asked(stage)
    await stage.database.write(
        lambda connection: actions.answer(connection, found.id, None, verdict, via="test", hooks=HOOKS, instead=instead)
    )


async def last_reply(stage: Stage) -> str:
    return [str(event.body["text"]) for event in await stage.events("reply.queued") if event.body][-1]


async def test_it_runs_once_when_it_was_approved_and_not_before(stage: Stage) -> None:
    booked = booking(stage, ask_first)
    message = await stage.hear("book room 7")
    engine = Scripted(book)
    await stage.serve(engine)
    assert booked == []
    question, said = await stage.replies(message)
    assert "book room 7" in question
    assert "has to be approved first" in said
    assert await stage.status(message) == "done"
    await decide(stage, "approve")
    await stage.serve(engine)
    await stage.serve(engine)
    assert booked == ["7"]
    assert [event.body["text"] for event in await stage.events("reply.queued") if event.body][-1] == "Booked 7."
    assert len(await stage.events("approval.consumed")) == 1
    assert await stage.verified()


async def test_denied_it_never_runs(stage: Stage) -> None:
    booked = booking(stage, ask_first)
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    await decide(stage, "deny")
    await stage.serve(Scripted(book))
    assert booked == []
    assert len(await stage.events("tool.requested")) == 0


async def test_what_is_refused_is_not_even_asked(stage: Stage) -> None:
    booked = booking(stage, refuse)
    message = await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    assert booked == []
    assert await asked(stage) == []
    assert "no rooms on Sundays" in (await stage.replies(message))[0]


async def test_asked_for_again_it_is_one_question(stage: Stage) -> None:
    booking(stage, ask_first)
    for _ in range(2):
        await stage.hear("book room 7")
        await stage.serve(Scripted(book))
    assert len(await asked(stage)) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_beside_an_approved_run_it_does_not_run_twice(stage: Stage, when: str) -> None:
    booked = booking(stage, ask_first)
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    await decide(stage, "approve")
    tool = stage.toolbox.standing["book"]

    async def crashing(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        if when == "after":
            await tool.run(host, call_id, arguments)
        raise Crash

    stage.toolbox = Toolbox({"book": Tool("book", "", "once", crashing, arguments=Room, gate=ask_first)})
    await stage.crash(Scripted(book))
    stage.toolbox = Toolbox({"book": tool})
    await stage.serve(Scripted(book))
    assert booked == (["7"] if when == "after" else [])
    last = [event.body["text"] for event in await stage.events("reply.queued") if event.body][-1]
    assert "may have been done in part, in full or not at all" in last
    assert "outside the sandbox" in last


async def test_the_operator_tells_what_came_of_it(stage: Stage) -> None:
    booked = booking(stage, ask_first)
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    await decide(stage, "approve")
    await stage.serve(Operator())
    assert booked == ["7"]
    assert [event.body["text"] for event in await stage.events("reply.queued") if event.body][-1] == "Booked 7."


async def judge(host: ToolHost, arguments: Mapping[str, Any]) -> Ask | Refuse:
    """Room 13 is nobody's; the suite takes an admin."""
    if arguments["room"] == "13":
        return Refuse("there is no room 13")
    return Ask(f"book room {arguments['room']}", "admin" if arguments["room"] == "suite" else "asked")


@pytest.mark.parametrize(
    ("instead", "becomes", "said"),
    [
        ("8", ["8"], "Booked 8."),
        ('{"room": "8"}', ["8"], "Booked 8."),
        ('{"room": {"number": 8}}', [], "valid string"),
        ("13", [], "there is no room 13"),
    ],
)
async def test_what_was_approved_instead_is_what_the_tool_takes_and_stands_before_its_gate(
    stage: Stage, instead: str, becomes: list[str], said: str
) -> None:
    booked = booking(stage, judge)
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    await decide(stage, "approve", instead)
    await stage.serve(Scripted(book))
    await stage.serve(Scripted(book))
    assert booked == becomes
    assert said in await last_reply(stage)
    assert len(await stage.events("approval.consumed")) == len(becomes)
    assert await stage.verified()


async def test_an_edit_gets_nobody_past_the_admin(stage: Stage) -> None:
    booked = booking(stage, judge)
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    await decide(stage, "approve", "suite")
    await stage.serve(Scripted(book))
    assert booked == []
    (found,) = await asked(stage)
    assert (found.role, found.request["arguments"]) == ("admin", {"room": "suite"})
    await decide(stage, "approve")
    await stage.serve(Scripted(book))
    assert booked == ["suite"]

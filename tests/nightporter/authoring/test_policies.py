"""Rules that are kept: they see every call of every tool, the first refusal counts, and one that fails refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.tool import Ask, Refuse, Tool, ToolHost, ToolResult
from nightporter.authoring.agents import employ
from tests.nightporter.authoring.test_functions import Host, read_blob

AGENT = '''
from nightporter import Agent, Ask, Call, Refuse, tool

@tool(approval="ask")
def book(room: int) -> str:
    """Book a room."""
    return "Booked."

def no_deletions(call: Call):
    if call.tool == "shell" and "rm " in call.arguments["command"]:
        return Refuse("nothing is deleted here")

def long_stays(call: Call):
    if call.arguments.get("room") == 7:
        return Ask("give away the best room", "admin")
    if call.arguments.get("room") == 8:
        return Refuse("room 8 is closed")
    if call.arguments.get("room") == 9:
        return "no"
    if call.arguments.get("room") == 10:
        raise KeyError("ten")

agent = Agent("Ada", [book], [no_deletions, long_stays])
'''


@pytest.fixture
def standing(tmp_path: Path) -> Any:
    (tmp_path / "agent.py").write_text(AGENT)
    return employ(tmp_path / "agent.py", read_blob).toolbox


async def said(tool: Tool, **arguments: Any) -> Ask | Refuse | None:
    assert tool.gate is not None
    return await tool.gate(Host(), arguments)


async def test_built_in_tools_are_under_the_rules_too(standing: Any) -> None:
    shell = standing.standing["shell"]
    assert await said(shell, command="ls") is None
    assert await said(shell, command="rm -r /") == Refuse("nothing is deleted here")


@pytest.mark.parametrize(
    ("room", "verdict"),
    [
        (1, Ask("use `book` with room 1")),
        (7, Ask("give away the best room", "admin")),
        (8, Refuse("room 8 is closed")),
        (9, Refuse("the policy `long_stays` answered 'no', which is neither Ask, Refuse nor None")),
        (10, Refuse("the policy `long_stays` could not decide (KeyError: 'ten')")),
    ],
)
async def test_what_refuses_goes_before_what_asks(standing: Any, room: int, verdict: Ask | Refuse) -> None:
    assert await said(standing.standing["book"], room=room) == verdict


async def test_tools_that_come_with_the_turn_are_under_the_rules_too(standing: Any) -> None:
    async def run(host: ToolHost, call_id: str, arguments: Any) -> ToolResult:
        return ToolResult("")

    assert await said(standing.guard(Tool("a__b", "", "once", run)), room=8) == Refuse("room 8 is closed")

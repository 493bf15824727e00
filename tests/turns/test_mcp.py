"""Tools of MCP servers in a real sandbox: listed once, run inside, their words data; a broken server stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.engine import Step, ToolCall
from agent.mcp_tools import McpSource, offer_of
from agent.models import texts as model_texts
from agent.settings import McpServer
from agent.tool import Ask
from agent.toolbox import Toolbox
from agent.trajectory import Context, Said
from nightporter.testing import wait_until
from tests.turns.stage import Scripted, Stage, answer
from tests.turns.test_resume import cut_off
from workspace_store import inbox_counts

SERVER = (Path(__file__).parents[1] / "mcp_server.py").read_text()
COMMAND = ("python3", "/workspace/server.py")
Call = tuple[str, Mapping[str, Any]]


async def prepared(stage: Stage, **servers: McpServer) -> None:
    """Put the server's program into the workspace, and give turns the tools of ``servers``."""
    await use(stage, ("write_file", {"path": "server.py", "content": SERVER}))
    stage.toolbox = Toolbox(sources=(McpSource(servers),))


async def use(stage: Stage, *calls: Call, seen: list[Context] | None = None) -> list[Said]:
    """The results of calls, one after the other, in one turn."""
    found: list[Said] = []

    async def script(context: Context) -> Step:
        if seen is not None:
            seen.append(context)
        found[:] = [said for said in context.turn if said.role == "tool"]
        if len(found) < len(calls):
            name, arguments = calls[len(found)]
            return Step(calls=(ToolCall(f"call-{len(found)}", name, arguments),))
        return answer(context, "done")

    await stage.hear("work")
    await stage.serve(Scripted(script))
    assert len(found) == len(calls)
    return found


async def test_its_tools_are_there_and_one_process_serves_all_calls(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND))
    seen: list[Context] = []
    said = await use(
        stage,
        ("weather__forecast", {"town": "Ulm"}),
        ("weather__forecast", {"town": "Bonn"}),
        ("tasks", {}),
        ("shell", {"command": "cat calls"}),
        seen=seen,
    )
    tools = {name: tool for name, tool in seen[0].tools.items() if name.startswith("weather__")}
    assert list(tools) == ["weather__forecast", "weather__order", "weather__odd_name_"]
    assert tools["weather__forecast"].schema["required"] == ["town"]
    assert tools["weather__odd_name_"].schema == {"type": "object", "properties": {}}
    assert tools["weather__forecast"].description.startswith("A tool of the MCP server weather, which says of it: ")
    assert [one.text for one in said[:2]] == ["Rain in Ulm, call 1.", "Rain in Bonn, call 2."]
    assert said[2].text == "No background tasks.", "the server is none of the person's own"
    assert "forecast\nforecast" in said[3].text
    again = await use(stage, ("weather__forecast", {"town": "Köln"}))
    assert again[0].text == "Rain in Köln, call 3.", "it goes on as long as the sandbox is awake"


async def test_what_it_says_is_data_of_it(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND))
    (said,) = await use(stage, ("weather__forecast", {"town": "Hostile"}))
    assert said.data["origin"] == "mcp:weather"
    shown = model_texts.tool_said(said)
    assert shown.startswith("<quoted>\nFrom mcp:weather:\n")
    assert shown.count("</quoted>") == 1
    assert shown.endswith("</quoted>")


@pytest.mark.slow
async def test_failures_are_told_and_the_next_call_works(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND, timeout_seconds=0.7))
    said = await use(
        stage,
        ("weather__forecast", {"town": "Nowhere"}),
        ("weather__forecast", {"town": "Slow"}),
        ("weather__forecast", {"town": "Crash"}),
        ("weather__forecast", {"town": "Long"}),
    )
    texts = [one.text for one in said]
    assert texts[0] == "It failed: there is no Nowhere"
    assert "gave no answer within 0.7 s" in texts[1]
    assert "may have been done" in texts[1]
    assert "it ended" in texts[3]
    (said_after,) = await use(stage, ("weather__forecast", {"town": "Ulm"}))
    assert said_after.text == "Rain in Ulm, call 1.", "a new process"


async def test_why_a_server_ended_is_told_with_its_last_words(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND))
    (said,) = await use(stage, ("weather__forecast", {"town": "Crash"}))
    assert said.text == "It failed: it ended (7): the roof fell in"


async def test_a_server_that_does_not_start_is_told_and_the_others_are_there(stage: Stage) -> None:
    await prepared(
        stage,
        gone=McpServer(command=("no-such-program",)),
        mute=McpServer(command=("python3", "-c", "import sys; sys.exit('no key')")),
        weather=McpServer(command=COMMAND, tools=("forecast", "snow")),
    )
    seen: list[Context] = []
    (said,) = await use(stage, ("weather__forecast", {"town": "Ulm"}), seen=seen)
    assert said.text == "Rain in Ulm, call 1."
    assert [name for name in seen[0].tools if "__" in name] == ["weather__forecast"]
    notes = "\n".join(str(line) for said in seen[0].turn for line in said.data.get("preface", {}).get("status", ()))
    assert "`gone` is not there: it ended (127): no-such-program: No such file or directory" in notes
    assert "`mute` is not there: it ended (1): no key" in notes
    assert "`weather` has no tool called snow" in notes


def test_hints_count_only_where_they_are_trusted() -> None:
    listed: list[Mapping[str, Any]] = [
        {"name": "a", "annotations": {"readOnlyHint": True}},
        {"name": "b", "annotations": {"idempotentHint": True}},
        {"name": "c"},
    ]

    def kinds(server: McpServer) -> list[str]:
        return [tool.repetition for tool in offer_of("s", server, listed).tools.values()]

    assert kinds(McpServer(command=COMMAND)) == ["once", "once", "once"]
    assert kinds(McpServer(command=COMMAND, trust_hints=True)) == ["pure", "idempotent", "once"]


async def test_a_call_under_way_when_the_runner_dies_is_fetched_and_not_made_again(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND))

    async def one_call(context: Context) -> Step:
        done = any(said.role == "tool" for said in context.turn)
        return answer(context) if done else Step(calls=(ToolCall("c", "weather__forecast", {"town": "Slow"}),))

    async def begun() -> bool:
        return bool(list((stage.folder / "volumes").glob("*/live/workspace/calls")))

    message = await stage.hear("go")
    async with cut_off(stage, Scripted(one_call), begun):
        await stage.serve(Scripted(one_call))
    assert await stage.replies(message) == ["Rain in Slow, call 1."]
    (calls,) = (stage.folder / "volumes").glob("*/live/workspace/calls")
    assert calls.read_text() == "forecast\n"


async def test_a_call_can_be_made_to_wait_for_a_person(stage: Stage) -> None:
    tools = offer_of("s", McpServer(command=COMMAND, approval=True), [{"name": "order"}]).tools
    gate = tools["s__order"].gate
    assert gate is not None
    asked = await gate(None, {"what": "an umbrella"})  # type: ignore[arg-type]
    assert asked == Ask('use `order` of the MCP server s with {"what": "an umbrella"}')


@pytest.mark.parametrize("given", [{}, {"command": ["a"], "url": "http://b"}])
def test_a_server_has_either_a_command_or_an_address(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either a command or a url"):
        McpServer(**given)


async def test_stop_ends_the_wait_for_a_server(stage: Stage) -> None:
    await prepared(stage, weather=McpServer(command=COMMAND))
    await use(stage, ("weather__forecast", {"town": "Ulm"}))

    async def slow(context: Context) -> Step:
        assert not any(said.role == "tool" for said in context.turn)
        return Step(calls=(ToolCall("c", "weather__forecast", {"town": "Slow"}),))

    message = await stage.hear("go")
    (calls,) = (stage.folder / "volumes").glob("*/live/workspace/calls")
    before = calls.read_text()
    serving = asyncio.create_task(stage.serve(Scripted(slow)))
    await asyncio.to_thread(wait_until, lambda: calls.read_text() != before, "the server works")
    await stage.database.write(lambda connection: inbox_counts.stop(connection, stage.owner))
    await asyncio.wait_for(serving, 10)
    assert await stage.replies(message) == ["Stopped."]

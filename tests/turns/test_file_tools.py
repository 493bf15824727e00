"""The tools for files, in a real sandbox: exact edits, bounded answers, nothing followed or waited for on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from agent.engine import Step, ToolCall
from agent.trajectory import Context
from tests.turns.stage import Crash, Scripted, Stage, answer

Call = tuple[str, Mapping[str, Any]]


async def use(stage: Stage, *calls: Call) -> list[str]:
    """The results of calls, one after the other, in one turn."""
    found: list[str] = []

    async def script(context: Context) -> Step:
        results = [said for said in context.turn if said.role == "tool"]
        found[:] = [said.text for said in results]
        if len(results) < len(calls):
            name, arguments = calls[len(results)]
            return Step(calls=(ToolCall(f"call-{len(results)}", name, arguments),))
        return answer(context, "done")

    await stage.hear("work")
    await stage.serve(Scripted(script))
    assert len(found) == len(calls)
    return found


async def test_a_file_is_written_read_edited_listed_and_found(stage: Stage) -> None:
    said = await use(
        stage,
        ("write_file", {"path": "src/app.py", "content": "def one():\n    return 1\n\n\ndef two():\n    return 2\n"}),
        ("read_file", {"path": "/workspace/src/app.py", "first": 5, "last": 6}),
        ("edit_file", {"path": "src/app.py", "old": "    return 2\n", "new": "    return 22\n"}),
        ("shell", {"command": "cat src/app.py; stat -c %a src/app.py"}),
        ("list_files", {"depth": 2}),
        ("search_files", {"pattern": r"return \d\d", "glob": "*.py"}),
        ("search_files", {"glob": "*.py"}),
    )
    assert said[0] == "/workspace/src/app.py was made: 50 bytes."
    assert "lines 5 to 6 of 6" in said[1]
    assert "def two():\n    return 2" in said[1]
    assert "def one" not in said[1]
    assert said[2] == "/workspace/src/app.py was edited at line 6."
    assert "return 22" in said[3]
    assert "644" in said[3]
    assert "src/app.py  51 bytes" in said[4]
    assert said[5] == "src/app.py:6:     return 22"
    assert said[6] == "src/app.py"


async def test_an_edit_that_does_not_match_exactly_once_changes_nothing_and_says_what_is_near(stage: Stage) -> None:
    text = "alpha = 1\nbeta = 2\nalpha = 1\n"
    said = await use(
        stage,
        ("write_file", {"path": "a.txt", "content": text}),
        ("edit_file", {"path": "a.txt", "old": "alpha = 1", "new": "x"}),
        ("edit_file", {"path": "a.txt", "old": "beta  = 2", "new": "x"}),
        ("edit_file", {"path": "a.txt", "old": "betta = 2", "new": "x"}),
        ("edit_file", {"path": "b.txt", "old": "x", "new": "y"}),
        ("shell", {"command": "cat a.txt"}),
        ("edit_file", {"path": "a.txt", "old": "alpha = 1", "new": "gamma = 3", "everywhere": True}),
    )
    assert "2 times (lines 1, 3)" in said[1]
    assert "but for spaces" in said[2]
    assert "2: beta = 2" in said[3]
    assert "there is no file /workspace/b.txt; there is a.txt" in said[4]
    assert text in said[5]
    assert "in 2 places" in said[6]


async def test_what_is_no_text_is_told_and_not_shown(stage: Stage) -> None:
    said = await use(
        stage,
        ("shell", {"command": "head -c 5000 /dev/urandom > noise; mkfifo pipe; ln -s /etc l"}),
        ("shell", {"command": "printf '\\xff\\xfe' > latin"}),
        ("read_file", {"path": "noise"}),
        ("read_file", {"path": "latin"}),
        ("read_file", {"path": "pipe"}),
        ("write_file", {"path": "pipe", "content": "x"}),
        ("read_file", {"path": "l"}),
        ("search_files", {"pattern": "(a+)+$", "path": "."}),
        ("search_files", {"pattern": "("}),
    )
    assert "a binary file of 5,000 bytes" in said[2]
    assert "is not UTF-8" in said[3]
    assert "no regular file" in said[4]
    assert "no regular file" in said[5]
    assert "is a folder" in said[6]
    assert "no regular expression" in said[8]


async def test_a_search_that_would_never_end_is_cut_off(stage: Stage) -> None:
    said = await use(
        stage,
        ("shell", {"command": "python3 -c \"print('a' * 40 + 'b')\" > evil; yes line | head -100000 > long"}),
        ("search_files", {"pattern": "line", "path": "long"}),
        ("read_file", {"path": "long"}),
    )
    assert "only the first 200 are shown" in said[1]
    # Shown by head and tail, as every long output is.
    assert len(said[2]) < 10_000
    assert "left out" in said[2]


async def test_an_edit_that_a_crash_cut_off_is_neither_lost_nor_done_twice(stage: Stage) -> None:
    """The sandbox lived on: it knows what became of the edit."""
    steps = [
        ToolCall("one", "write_file", {"path": "n", "content": "1"}),
        ToolCall("two", "edit_file", {"path": "n", "old": "1", "new": "11"}),
        ToolCall("three", "shell", {"command": "cat n"}),
    ]
    heard: list[str] = []

    async def script(context: Context) -> Step:
        results = [said for said in context.turn if said.role == "tool"]
        heard[:] = [said.text for said in results]
        if len(results) < len(steps):
            return Step(calls=(steps[len(results)],))
        return answer(context, "done")

    message = await stage.hear("count")
    engine = Scripted(script)
    async with stage.running(engine) as runner:
        turns = runner.turns
        record = turns.caller.record_result

        async def crash(turn: Any, sandbox: Any, call: ToolCall, result: Any) -> Any:
            if call.id == "two":
                raise Crash
            return await record(turn, sandbox, call, result)

        turns.caller.record_result = crash  # type: ignore[method-assign]
        with contextlib.suppress(Crash):
            await runner.serve(stage.owner)
    await stage.serve(engine)
    assert await stage.replies(message) == ["done"]
    assert "was edited at line 1" in heard[1]
    assert "11" in heard[2]
    assert "111" not in heard[2]

"""Tools for files: read, write, edit, list, search; done inside the sandbox, where a path means what the shell means.

What they show of a file is data of that file, whoever wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from agent import file_texts as texts
from agent import texts as agent_texts
from agent.sandbox import CommandResult
from agent.tool import Arguments, Repetition, Tool, ToolHost, ToolResult

MOST_CHARACTERS = 1_000_000
"""Of what is written at once."""
PATH = "Absolute, below ~, or relative to /workspace."


class ReadArguments(Arguments):
    path: str = Field(min_length=1, description=PATH)
    first: int = Field(1, ge=1, description="The first line to show.")
    last: int | None = Field(None, ge=1, description="The last one; the end of the file where it is left out.")


class WriteArguments(Arguments):
    path: str = Field(min_length=1, description=PATH)
    content: str = Field(max_length=MOST_CHARACTERS, description="All of the file; folders are made as needed.")


class EditArguments(Arguments):
    path: str = Field(min_length=1, description=PATH)
    old: str = Field(min_length=1, max_length=MOST_CHARACTERS, description="Text that is in the file exactly once.")
    new: str = Field(max_length=MOST_CHARACTERS, description="What stands there instead.")
    everywhere: bool = Field(False, description="Replace it wherever it stands.")


class ListArguments(Arguments):
    path: str = Field(".", min_length=1, description=PATH)
    depth: int = Field(1, ge=1, le=8, description="How many levels of folders.")


class SearchArguments(Arguments):
    pattern: str = Field("", max_length=1000, description="A regular expression; empty: names of files alone.")
    path: str = Field(".", min_length=1, description=PATH)
    glob: str = Field("", max_length=200, description="Only files whose name or path fits, such as *.py.")
    ignore_case: bool = False
    regex: bool = Field(True, description="False: the pattern is plain text.")


Show = Callable[[Mapping[str, Any]], str]


def _tool(
    name: str, op: str, says: str, repetition: Repetition, arguments: type[Arguments], show: Show, *, writes: bool
) -> Tool:
    async def run(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
        result = await host.sandbox.assist(f"{host.turn.hex}:{call_id}", "files", {"op": op, **given})
        return read_answer(result, show, str(given.get("path") or "."), writes=writes)

    def kept(result: CommandResult, given: Mapping[str, Any]) -> ToolResult:
        return read_answer(result, show, str(given.get("path") or "."), writes=writes)

    return Tool(name, says, repetition, run, True, arguments, kept=kept)


def read_answer(result: CommandResult, show: Show, path: str, *, writes: bool) -> ToolResult:
    """What a helper answered, as a result; what came of it is of no use where it was cut off."""
    data = {"state_digest": result.state_digest} if writes else {}
    answer = answer_of(result)
    if answer is None:
        return ToolResult(agent_texts.refused(texts.no_answer(result.status)), data, touched=writes)
    if "refused" in answer:
        return ToolResult(texts.refused(str(answer["refused"])), data, touched=writes)
    text = show(answer)
    return ToolResult(text, data, touched=writes, output=text, origin="" if writes else texts.file_origin(path))


def answer_of(result: CommandResult) -> dict[str, Any] | None:
    """A helper's answer; None for none. It comes from inside the sandbox: anything may stand there."""
    if result.status != "exited" or result.exit_code != 0:
        return None
    try:
        answer = json.loads(result.output)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


FILE_TOOLS = (
    _tool("read_file", "read", "Show a text file, or some lines of it.", "pure", ReadArguments, texts.read,
          writes=False),
    _tool("write_file", "write", "Write a whole file.", "idempotent", WriteArguments, texts.written, writes=True),
    _tool("edit_file", "edit", "Replace text that stands in a file exactly once.", "once", EditArguments, texts.edited,
          writes=True),
    _tool("list_files", "list", "List a folder.", "pure", ListArguments, texts.listed, writes=False),
    _tool("search_files", "search", "Find lines in files, or files by name.", "pure", SearchArguments, texts.found,
          writes=False),
)  # fmt: skip

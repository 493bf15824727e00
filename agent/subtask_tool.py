"""A subtask: a piece of work in a context of its own, with a terminal of its own, that comes back with findings.

What it reads and tries does not fill the context of whoever gave it; only what it found does, each with its source and
how sure it is. The findings are an entry of the journal: the timeline of what was looked into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from agent import texts
from agent.tool import Arguments, Tool, ToolHost, ToolResult, Tools

SUBTASK, REPORT = "subtask", "report"
MOST_STEPS = 20
TERMINAL = "subtask"
LENT = frozenset(
    {"shell", "read_file", "write_file", "edit_file", "list_files", "search_files", "fetch", "recall", "tasks",
     "task_output"}
)  # fmt: skip
"""Of the built-in tools: a subtask speaks, remembers, promises and decides for nobody."""


class SubtaskArguments(Arguments):
    goal: str = Field(min_length=1, max_length=8000, description="All it has to know: it sees nothing of this talk.")
    steps: int = Field(10, ge=1, le=MOST_STEPS, description="After so many it is ended.")


class Finding(Arguments):
    text: str = Field(min_length=1, max_length=2000, description="What was found, complete by itself.")
    source: str = Field(min_length=1, max_length=500, description="Where: a file and line, an address, a command.")
    confidence: Literal["low", "medium", "high"]


class ReportArguments(Arguments):
    findings: list[Finding] = Field(min_length=1, max_length=20)


async def _subtask(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    return await host.delegate(call_id, str(given["goal"]), int(given.get("steps", 10)))


async def _report(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    return ToolResult(texts.REPORTED, {"findings": [dict(finding) for finding in given["findings"]]})


SUBTASK_TOOL = Tool(
    SUBTASK,
    "Have something looked into apart from this talk, and get findings back.",
    "idempotent",
    _subtask,
    arguments=SubtaskArguments,
)
REPORT_TOOL = Tool(REPORT, "Report what was found, and end.", "pure", _report, arguments=ReportArguments)


def tools_for(tools: Tools, built_in: Tools) -> Tools:
    """What a subtask may use: nothing that a person would have to be asked about."""
    lent = {name: tool for name, tool in tools.items() if name in LENT or name not in built_in}
    inside = {name: tool for name, tool in lent.items() if tool.gate is None}
    return {**inside, REPORT: REPORT_TOOL}


def in_words(text: str) -> Sequence[Mapping[str, Any]]:
    """The findings of one that answered in words alone: nobody says how sure they are."""
    return [{"text": text, "source": texts.SUBTASK_WORDS, "confidence": "low"}] if text.strip() else []

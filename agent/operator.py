"""The built-in engine: no model, deterministic. It understands exact forms and says honestly what it cannot do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agent import operator_tasks, texts
from agent.engine import Step, ToolCall
from agent.progress import SILENT, Progress
from agent.tool import Tool, Tools
from agent.trajectory import Context, Said

FORMS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"\$&(?P<policy>restart|ask|never)\s+(?P<command>.+)", re.DOTALL), "shell", "background"),
    (re.compile(r"\$&\s*(?P<command>.+)", re.DOTALL), "shell", "background"),
    (re.compile(r"\$\s*(?P<command>.+)", re.DOTALL), "shell", ""),
    (re.compile(r"remember\b[:,]?\s*(?:that\s+)?(?P<text>.+)", re.DOTALL | re.IGNORECASE), "remember", ""),
    (re.compile(r"recall\s+`?(?P<id>[0-9a-f]{8}|[0-9a-f]{32})`?\s*", re.IGNORECASE), "recall", ""),
    (re.compile(r"recall\b[:,]?\s*(?P<query>.+)", re.DOTALL | re.IGNORECASE), "recall", ""),
    (re.compile(r"[!/]send\s+(?P<path>.+)", re.IGNORECASE), "send_file", ""),
    (re.compile(r"[!/]show\s+(?P<path>.+)", re.IGNORECASE), "send_file", "show"),
    (re.compile(r"tasks\s*", re.IGNORECASE), "tasks", ""),
    (re.compile(r"output\s+(?P<task>\d{1,9})\s*", re.IGNORECASE), "task_output", ""),
    (re.compile(r"stop\s+(?P<task>\d{1,9})\s*", re.IGNORECASE), "stop_task", ""),
    (re.compile(r"start\s+(?P<task>\d{1,9})\s*", re.IGNORECASE), "start_task", ""),
    (re.compile(r"start\s+(?P<task>\d{1,9})\s+(?P<policy>restart|ask|never)\s*"), "start_task", ""),
)

TOOL = re.compile(r"[!/]tool(?:\s+(?P<name>[\w-]+)\s*(?P<arguments>.*))?", re.DOTALL | re.IGNORECASE)

# What is written as a command and is none: those that exist were answered when they arrived.
NO_COMMAND = re.compile(r"[/!](?P<name>[A-Za-z]{2,20})(?:[ \t][^\n]*)?")

INCOMPLETE = {
    "$": texts.EMPTY_COMMAND,
    "$&": texts.EMPTY_COMMAND,
    "remember": texts.NOTHING_TO_REMEMBER,
    "recall": texts.NOTHING_TO_RECALL,
    **dict.fromkeys(("!send", "/send", "!show", "/show"), texts.NOTHING_TO_SEND),
}

TOLD = ("task", "check")
"""What the house says and nobody asked: passed on as it is."""


class Operator:
    """Answers each message in order: the first one without a result is next."""

    name = "operator"
    context_window = 16_384
    takes_messages = False
    looks_back = False
    # Each command is a thing of its own: its answer should not wait for the next one's.

    async def prepare(self) -> None:
        """There is nothing to load."""

    async def step(self, context: Context, progress: Progress = SILENT) -> Step:
        """One tool call for the first message that needs one, else the replies to all of them."""
        results = {said.call: said.text for said in context.turn if said.role == "tool"}
        replies: dict[str, str] = {}
        for number, said in enumerate(_asked(context)):
            call_id = f"call-{number + 1}"
            if call_id in results:
                replies[said.message] = results[call_id]
                continue
            if f"approved-{said.message}" in results:
                replies[said.message] = results[f"approved-{said.message}"]
                continue
            if said.data.get("kind") == "approval":
                replies[said.message] = texts.decided(said.text)
                continue
            if said.data.get("kind") in TOLD:
                replies[said.message] = "\n\n".join(filter(None, (replies.get(said.message), said.text)))
                continue
            found = use(said.text, context.tools, context.status) or understand(said.text)
            if isinstance(found, str):
                replies[said.message] = _about_files(said, found)
                continue
            name, arguments = found
            return Step(calls=(ToolCall(call_id, name, arguments),))
        return Step(replies=replies)


def use(text: str, tools: Tools, missing: str = "") -> tuple[str, dict[str, Any]] | str | None:
    """What ``!tool NAME {…}`` asks for, or the answer that needs no tool; None: it is no such words.

    ``missing``: which tools are not there, and why.
    """
    found = TOOL.fullmatch(text.strip())
    if found is None:
        return None
    name = found["name"]
    if name is None:
        return texts.tool_list([_line(tool) for tool in tools.values()], missing)
    if name not in tools:
        return "\n\n".join(filter(None, (texts.no_such_tool(name), missing)))
    try:
        given = json.loads(found["arguments"] or "{}")
        if not isinstance(given, dict):
            raise ValueError("it takes an object")
        return name, tools[name].read(given)
    except (ValueError, RecursionError) as error:
        return texts.bad_tool_arguments(name, str(error))


def _line(tool: Tool) -> str:
    required = tool.schema.get("required", ())
    asks = [name if name in required else f"{name}?" for name in tool.schema.get("properties", {})]
    return texts.tool_line(tool.name, asks, tool.repetition, tool.description)


def _asked(context: Context) -> Iterator[Said]:
    return (said for said in context.turn if said.role == "user")


def _about_files(said: Said, answer: str) -> str:
    """An answer to a message that no tool is for; where files came with it, they are what it was about."""
    files = said.data.get("files")
    if not files:
        return answer
    return "\n\n".join([texts.files_placed(files), *([answer] if said.text.strip() else [])])


def understand(text: str) -> tuple[str, dict[str, Any]] | str:
    """The tool and arguments a message asks for, or the answer that needs none."""
    text = text.strip()
    incomplete = INCOMPLETE.get(text.lower())
    if incomplete:
        return incomplete
    for form, name, mode in FORMS:
        match = form.fullmatch(text)
        if match:
            arguments: dict[str, Any] = dict(match.groupdict())
            return name, arguments | ({mode: True} if mode else {})
    about_tasks = operator_tasks.understand(text)
    if about_tasks is not None:
        return about_tasks
    command = NO_COMMAND.fullmatch(text)
    return texts.no_such_command(command["name"]) if command else texts.CAPABILITIES

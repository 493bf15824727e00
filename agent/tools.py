"""Tools: what an engine may ask the turn to do, each with its declared kind of repetition.

A tool returns text, data for the journal and, where it writes to the database, the writes themselves: the turn runs
them in the transaction that records ``tool.returned``, so a tool that writes is done exactly once.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from agent import texts
from agent.sandbox import CommandResult, OutputListener, Sandbox, SandboxError
from workspace_store import memory
from workspace_store.journal import Event

Repetition = Literal["pure", "idempotent", "once"]

SHELL = "shell"


@dataclass(frozen=True)
class Write:
    """A write to be made with the tool's result, and the event that tells of it."""

    apply: Callable[[Connection], object]
    event: Event


@dataclass(frozen=True)
class ToolResult:
    """``text`` for the engine and the reader; ``data`` for the journal; ``touched``: it may have changed the volume.

    ``data["file"]`` (``name``, ``content_type``, ``size``, ``blob``) goes out with the turn's reply.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    touched: bool = False
    output: str = ""
    """A large output, to be kept whole as a blob."""


class ToolHost(Protocol):
    """What the turn lends to its tools."""

    principal: UUID
    turn: UUID

    @property
    def sandbox(self) -> Sandbox: ...

    async def read(self, query: Callable[[Connection], Any]) -> Any: ...

    def listener(self, call_id: str) -> OutputListener: ...


class Arguments(BaseModel):
    """What a tool is asked with. A name nobody knows is a mistake to be told, not to be dropped."""

    model_config = ConfigDict(extra="forbid")


class NoArguments(Arguments):
    pass


class ShellArguments(Arguments):
    command: str = Field(min_length=1, description="What bash runs. State stays for the next command.")
    terminal: str = Field("main", description="A named terminal; each has a directory and variables of its own.")
    background: bool = Field(False, description="Run it as a background task and do not wait.")


class RememberArguments(Arguments):
    text: str = Field(min_length=1, description="One fact, decision or preference, complete by itself.")


class RecallArguments(Arguments):
    query: str = Field(min_length=1, description="Words to look for in notes and earlier turns.")


class SendFileArguments(Arguments):
    path: str = Field(min_length=1, description="Within /workspace or the home, absolute or relative to /workspace.")
    show: bool = Field(False, description="A picture to be looked at in the conversation.")


class TaskArguments(Arguments):
    task: int = Field(ge=1, description="The task's number.")


Run = Callable[[ToolHost, str, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Tool:
    """``repetition``: ``pure`` may run again after a crash; ``idempotent`` may with the same key; ``once`` may not."""

    name: str
    description: str
    repetition: Repetition
    run: Run
    needs_sandbox: bool = False
    arguments: type[BaseModel] = NoArguments
    """What it is asked with; its JSON schema is what a model sees."""


async def _shell(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    result = await host.sandbox.run(
        f"{host.turn.hex}:{call_id}",
        str(arguments["command"]),
        terminal=str(arguments.get("terminal", "main")),
        background=bool(arguments.get("background", False)),
        on_output=host.listener(call_id),
    )
    return shell_result(result, background=bool(arguments.get("background", False)))


def shell_result(result: CommandResult, *, background: bool = False) -> ToolResult:
    """A command's result as a tool result."""
    data = {
        "status": result.status,
        "exit_code": result.exit_code,
        "omitted_bytes": result.omitted_bytes,
        "duration_ms": result.duration_ms,
        "terminal": result.terminal,
        "cwd": result.cwd,
        "task": result.task,
        "state_digest": result.state_digest,
        "notes": list(result.notes),
    }
    text = (
        texts.started(result)
        if background and result.status == "running"
        else texts.command_result(result, result.output)
    )
    return ToolResult(text, data, touched=True, output=result.output)


async def _remember(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    body, key = str(arguments["text"]), f"{host.turn.hex}:{call_id}"
    write = Write(
        lambda connection: memory.write_note(connection, host.principal, key, body, host.turn),
        Event("memory.written", {"text": body}),
    )
    return ToolResult(texts.remembered(body), writes=(write,))


async def _recall(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    query = str(arguments["query"])
    hits = await host.read(lambda connection: memory.search(connection, host.principal, query))
    if not hits:
        return ToolResult(texts.NOTHING_FOUND)
    return ToolResult("\n".join(f"- {hit.body}" for hit in hits))


async def _tasks(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    found = await host.sandbox.tasks()
    return ToolResult("\n".join(map(texts.task_line, found)) or texts.NO_TASKS)


async def _task_output(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    output = await host.sandbox.task_output(int(arguments["task"]))
    return ToolResult(texts.fenced(output) if output.strip() else "No output yet.", output=output)


async def _stop_task(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    stopped = await host.sandbox.stop_task(int(arguments["task"]))
    return ToolResult(texts.task_line(stopped), touched=True)


async def _send_file(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    path = str(arguments["path"]).strip()
    try:
        frozen = await host.sandbox.freeze_file(path)
    except SandboxError as error:
        return ToolResult(texts.not_sent(path, str(error)))
    content_type = mimetypes.guess_type(frozen.name)[0] or "application/octet-stream"
    file = {"name": frozen.name, "content_type": content_type, "size": frozen.size, "blob": frozen.blob}
    if arguments.get("show"):
        file["show"] = True
    return ToolResult(texts.sending(frozen.name, frozen.size), {"file": file})


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(SHELL, "Run a command in a named terminal, or in the background.", "once", _shell, True, ShellArguments),
        Tool("remember", "Keep a note in memory.", "idempotent", _remember, arguments=RememberArguments),
        Tool("recall", "Find notes and earlier turns.", "pure", _recall, arguments=RecallArguments),
        Tool("tasks", "List background tasks.", "pure", _tasks, True),
        Tool("task_output", "Show the end of a background task's output.", "pure", _task_output, True, TaskArguments),
        Tool(
            "send_file",
            "Send a file of the workspace with the reply, as it is now; `show` for a picture to be looked at.",
            "idempotent",
            _send_file,
            arguments=SendFileArguments,
        ),
        Tool("stop_task", "Stop a background task.", "idempotent", _stop_task, True, TaskArguments),
    )
}

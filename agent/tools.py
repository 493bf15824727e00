"""The built-in tools. What a tool is, is in ``agent.tool``; which of them a turn has, in ``agent.toolbox``."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agent import noise, texts
from agent.ask_tool import ASK_USER
from agent.fetch_tool import FETCH
from agent.file_tools import FILE_TOOLS
from agent.memory_tools import MEMORY_TOOLS
from agent.message_tool import SEND_MESSAGE
from agent.sandbox import CommandResult, Policy, SandboxError
from agent.schedule_tool import SCHEDULE
from agent.skill_tool import SKILL_TOOL
from agent.subtask_tool import SUBTASK_TOOL
from agent.task_tools import TASK_TOOLS
from agent.tool import Arguments, Tool, ToolHost, ToolResult

SHELL = "shell"


LONGEST_SECONDS = 3600


class ShellArguments(Arguments):
    command: str = Field(min_length=1, description="What bash runs. State stays for the next command.")
    terminal: str = Field("main", description="A named terminal; each has a directory and variables of its own.")
    background: bool = Field(False, description="Run it as a background task and do not wait.")
    policy: Policy = Field("restart", description="At the next wake, a background task: restart, ask first, or never.")
    timeout: int | None = Field(
        None, ge=1, le=LONGEST_SECONDS, description="Seconds to wait for its end; then it goes on as a background task."
    )


class SendFileArguments(Arguments):
    path: str = Field(min_length=1, description="Within /workspace or the home, absolute or relative to /workspace.")
    show: bool = Field(False, description="A picture to be looked at in the conversation.")


class TaskArguments(Arguments):
    task: int = Field(ge=1, description="The background task's number.")


class StartArguments(TaskArguments):
    policy: Policy | None = Field(None, description="What becomes of it at the next wake: restart, ask or never.")


async def _shell(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    result = await host.sandbox.run(
        f"{host.turn.hex}:{call_id}",
        str(arguments["command"]),
        terminal=str(arguments.get("terminal", "main")),
        background=bool(arguments.get("background", False)),
        policy=arguments.get("policy", "restart"),
        timeout=arguments.get("timeout"),
        on_output=host.listener(call_id),
    )
    return _shell_kept(result, arguments)


def _shell_kept(result: CommandResult, arguments: Mapping[str, Any]) -> ToolResult:
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
        else texts.command_result(result, noise.without(result.output))
    )
    return ToolResult(text, data, touched=True, output=result.output, origin=texts.SHELL_ORIGIN)


async def _tasks(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    found = await host.sandbox.tasks()
    return ToolResult("\n".join(map(texts.task_line, found)) or texts.NO_TASKS)


async def _task_output(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    output = await host.sandbox.task_output(int(arguments["task"]))
    shown = noise.without(output)
    return ToolResult(texts.fenced(shown) if shown.strip() else "No output yet.", output=output)


async def _stop_task(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    stopped = await host.sandbox.stop_task(int(arguments["task"]))
    return ToolResult(texts.task_line(stopped), touched=True)


async def _start_task(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    started = await host.sandbox.start_task(int(arguments["task"]), arguments.get("policy"))
    return ToolResult(texts.task_line(started), touched=True)


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
        Tool(
            SHELL,
            "Run a command in a named terminal, or in the background. The sandbox sleeps when idle, and restarts"
            " background tasks when it wakes; `porter-awake 2h` keeps it awake for them.",
            "once",
            _shell,
            True,
            ShellArguments,
            kept=_shell_kept,
        ),
        *FILE_TOOLS,
        FETCH,
        ASK_USER,
        *MEMORY_TOOLS,
        SEND_MESSAGE,
        SCHEDULE,
        SUBTASK_TOOL,
        SKILL_TOOL,
        Tool("tasks", "List background tasks: processes of the sandbox, not goals.", "pure", _tasks, True),
        Tool("task_output", "Show the end of a background task's output.", "pure", _task_output, True, TaskArguments),
        Tool(
            "send_file",
            "Send a file of the workspace with the reply, as it is now; `show` for a picture to be looked at.",
            "idempotent",
            _send_file,
            arguments=SendFileArguments,
        ),
        Tool("stop_task", "Stop a background task.", "idempotent", _stop_task, True, TaskArguments),
        Tool(
            "start_task",
            "Start a background task again that sleep ended, or set what becomes of one at the next wake.",
            "once",
            _start_task,
            True,
            StartArguments,
        ),
        *TASK_TOOLS,
    )
}

"""What is read of MCP servers: their answers in our words, and what became of those that gave none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DESCRIPTION_CHARACTERS = 1000
REASON_CHARACTERS = 500
NOTHING = "(nothing)"


def origin(server: str) -> str:
    return f"mcp:{server}"


def described(server: str, description: str) -> str:
    """A tool's own description, as what it is: the server's words."""
    cut = description.strip()[:DESCRIPTION_CHARACTERS]
    return (
        f"A tool of the MCP server {server}, which says of it: {cut}" if cut else f"A tool of the MCP server {server}."
    )


def not_there(server: str, reason: str) -> str:
    return f"The MCP server `{server}` is not there: {reason[:REASON_CHARACTERS]}"


def no_sandbox(reason: str) -> str:
    return f"The MCP servers are not there: {reason}"


def too_many(server: str, most: int, left_out: int) -> str:
    return f"The MCP server `{server}` has {left_out} tools more than the {most} that are used."


def none_of_its_tools(server: str, names: str) -> str:
    return f"The MCP server `{server}` has no tool called {names}; correct mcp.servers.{server}.tools."


def no_answer(server: str, seconds: float) -> str:
    return (
        f"The MCP server `{server}` gave no answer within {seconds:g} s, or was stopped. What was asked of it may have "
        "been done: check before you repeat it."
    )


def refused(answer: Mapping[str, Any]) -> str:
    """Why there is no result, in the words of whoever refused it."""
    if "ended" in answer:
        said = str(answer.get("said") or "").strip()
        return f"it ended ({answer['ended']}){f': {said}' if said else ''}"
    if "refused" in answer:
        return " ".join(str(answer[key]) for key in ("refused", "how") if answer.get(key))
    error = answer.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or json.dumps(dict(error)))
    return "its answer is not of MCP"


def failed(text: str) -> str:
    return f"It failed: {text}"


def part(content: Mapping[str, Any]) -> str:
    """One part of a result as text."""
    kind = content.get("type")
    if kind == "text":
        return str(content.get("text", ""))
    if kind == "resource":
        resource = content.get("resource")
        if isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
            return str(resource["text"])
        return f"[a resource: {resource.get('uri', '') if isinstance(resource, Mapping) else ''}]"
    if kind == "resource_link":
        return f"[{content.get('name', 'a resource')}: {content.get('uri', '')}]"
    return f"[{kind or 'something'}, {content.get('mimeType', 'of no known type')}, not shown]"


def wants_to(server: str, tool: str, arguments: str) -> str:
    """Completes "May I …?"."""
    return f"use `{tool}` of the MCP server {server} with {arguments or 'nothing'}"

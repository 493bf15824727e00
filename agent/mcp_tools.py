"""Tools of MCP servers: ``server__tool``, each run inside the person's sandbox, whatever it says being data of it.

A server with a command is a process of the sandbox, spoken to by the guest; one with an address is asked from inside
through the egress proxy. Which tools there are is asked once for a principal and kept for an hour, since a sandbox of
theirs has to be awake for it. A server that cannot be asked is told of and keeps nothing from going on.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from agent import mcp_texts as texts
from agent.file_tools import answer_of
from agent.sandbox import CommandResult, SandboxError
from agent.settings import McpServer
from agent.tool import Ask, Gate, Repetition, Tool, ToolHost, ToolResult
from agent.toolbox import Offer
from workspace_store import egress_grants
from workspace_store.egress_grants import Grant

KNOWN_SECONDS = 3600.0
AGAIN_SECONDS = 60.0
"""When a server that was not there is asked again."""
START_SECONDS = 30.0
MOST_TOOLS = 64
MOST_PAGES = 10
MOST_KNOWN = 1000
SCHEMA_CHARACTERS = 20_000
SHOWN_CHARACTERS = 300
NAME_CHARACTERS = 64
ODD = re.compile(r"[^A-Za-z0-9_-]")


class NotThere(Exception):
    """A server did not say which tools it has; the text says why."""


@dataclass(frozen=True)
class _Known:
    """``leave``: what people had said of hosts, where a server was not there; else None."""

    offer: Offer
    until: float
    leave: Sequence[Grant] | None = None


@dataclass
class McpSource:
    """``servers`` by name. ``clock``: monotonic seconds."""

    servers: Mapping[str, McpServer]
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[UUID, _Known] = field(default_factory=OrderedDict)

    async def offer(self, host: ToolHost) -> Offer:
        """The tools of all servers that answer."""
        known = self._known.get(host.principal)
        if known is None or known.until <= self.clock() or await self._is_let(host, known):
            known = await self._ask_all(host)
            self._known[host.principal] = known
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return known.offer

    async def _is_let(self, host: ToolHost, known: _Known) -> bool:
        """Whether a person has said something of a host since a server was not there."""
        return known.leave is not None and known.leave != await self._leave(host)

    async def _leave(self, host: ToolHost) -> Sequence[Grant]:
        if not any(server.url for server in self.servers.values()):
            return ()
        found: Sequence[Grant] = await host.read(partial(egress_grants.standing, owner=host.principal))
        return found

    async def _ask_all(self, host: ToolHost) -> _Known:
        leave = await self._leave(host)
        try:
            await host.sandbox.wake()
        except SandboxError as error:
            return _Known(Offer(notes=(texts.no_sandbox(str(error)),)), self.clock() + AGAIN_SECONDS)
        asked = [self._ask(host, name, server) for name, server in self.servers.items()]
        found = await asyncio.gather(*asked)
        tools = {name: tool for offer, _ in found for name, tool in offer.tools.items()}
        notes = tuple(note for offer, _ in found for note in offer.notes)
        there = all(there for _, there in found)
        offer, now = Offer(tools, notes), self.clock()
        return _Known(offer, now + KNOWN_SECONDS) if there else _Known(offer, now + AGAIN_SECONDS, leave)

    async def _ask(self, host: ToolHost, name: str, server: McpServer) -> tuple[Offer, bool]:
        """What one server offers, and whether it was there."""
        try:
            listed = await _list(host, name, server)
        except (NotThere, SandboxError) as error:
            return Offer(notes=(texts.not_there(name, str(error)),)), False
        return offer_of(name, server, listed), True


def offer_of(name: str, server: McpServer, listed: list[Mapping[str, Any]]) -> Offer:
    """The tools of a server's list; what is odd in it is left out or made harmless."""
    wanted = [entry for entry in listed if not server.tools or entry["name"] in server.tools]
    notes = []
    missing = set(server.tools) - {entry["name"] for entry in wanted}
    if missing:
        notes.append(texts.none_of_its_tools(name, ", ".join(sorted(missing))))
    if len(wanted) > MOST_TOOLS:
        notes.append(texts.too_many(name, MOST_TOOLS, len(wanted) - MOST_TOOLS))
    tools: dict[str, Tool] = {}
    for entry in wanted[:MOST_TOOLS]:
        tool = tool_of(name, server, entry)
        tools.setdefault(tool.name, tool)
    return Offer(tools, tuple(notes))


def tool_of(name: str, server: McpServer, entry: Mapping[str, Any]) -> Tool:
    """A tool of a server's list, which nobody vouches for."""
    its_name = str(entry["name"])

    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        params = {"name": its_name, "arguments": dict(arguments)}
        result = await _say(host, f"{host.turn.hex}:{call_id}", name, server, "tools/call", params)
        return read_result(name, server, result)

    return Tool(
        f"{name}__{ODD.sub('_', its_name)}"[:NAME_CHARACTERS],
        texts.described(name, str(entry.get("description") or "")),
        _repetition(server, entry.get("annotations")),
        run,
        True,
        _schema(entry.get("inputSchema")),
        gate=_gate(name, its_name) if server.approval else None,
        kept=lambda result, _: read_result(name, server, result),
    )


def read_result(name: str, server: McpServer, result: CommandResult) -> ToolResult:
    """What a call came to; the server may have changed files, and its requests outside are told with it."""
    data = {"state_digest": result.state_digest}
    answer = answer_of(result)
    if answer is None:
        return ToolResult(
            texts.no_answer(name, server.timeout_seconds), {**data, "status": "interrupted"}, touched=True
        )
    origin, found = texts.origin(name), answer.get("result")
    if not isinstance(found, Mapping):
        text = texts.failed(texts.refused(answer))
        return ToolResult(text, {**data, "status": "failed"}, touched=True, origin=origin)
    text = _words(found)
    if found.get("isError"):
        text, data["status"] = texts.failed(text), "failed"
    return ToolResult(text, data, touched=True, output=text, origin=origin)


async def _list(host: ToolHost, name: str, server: McpServer) -> list[Mapping[str, Any]]:
    """Every page of a server's list of tools. Raises NotThere, SandboxError."""
    found: list[Mapping[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        result = await _say(host, f"mcp:{uuid4().hex}", name, server, "tools/list", params, START_SECONDS)
        answer = answer_of(result)
        if answer is None:
            raise NotThere(texts.no_answer(name, START_SECONDS))
        page = answer.get("result")
        if not isinstance(page, Mapping) or not isinstance(page.get("tools"), list):
            raise NotThere(texts.refused(answer))
        found += [each for each in page["tools"] if isinstance(each, Mapping) and isinstance(each.get("name"), str)]
        if not isinstance(page.get("nextCursor"), str):
            break
        params = {"cursor": page["nextCursor"]}
    return found


async def _say(
    host: ToolHost,
    call_id: str,
    name: str,
    server: McpServer,
    method: str,
    params: Mapping[str, Any],
    seconds: float | None = None,
) -> CommandResult:
    """Ask a server one thing, at most once for each call id and sandbox."""
    seconds = seconds or server.timeout_seconds
    asked: dict[str, Any] = {"method": method, "params": params}
    if server.command:
        asked |= {"server": name, "command": list(server.command), "environment": dict(server.environment)}
        return await host.sandbox.assist(call_id, "mcp", asked, timeout=seconds)
    asked |= {"url": server.url, "headers": dict(server.headers), "seconds": seconds}
    return await host.sandbox.assist(call_id, "mcp_http", asked, timeout=seconds + 1)


def _repetition(server: McpServer, hints: object) -> Repetition:
    """``once`` for all that an operator does not trust to know better."""
    if not server.trust_hints or not isinstance(hints, Mapping):
        return "once"
    if hints.get("readOnlyHint") is True:
        return "pure"
    return "idempotent" if hints.get("idempotentHint") is True else "once"


def _schema(given: object) -> Mapping[str, Any]:
    """The server's schema of arguments where a provider would take it."""
    if isinstance(given, Mapping) and given.get("type") == "object" and len(json.dumps(given)) <= SCHEMA_CHARACTERS:
        return {"properties": {}, **given}
    return {"type": "object", "properties": {}}


def _gate(name: str, tool: str) -> Gate:
    async def gate(host: ToolHost, arguments: Mapping[str, Any]) -> Ask:
        shown = json.dumps(dict(arguments), ensure_ascii=False) if arguments else ""
        return Ask(texts.wants_to(name, tool, shown[:SHOWN_CHARACTERS]))

    return gate


def _words(found: Mapping[str, Any]) -> str:
    content = found.get("content")
    parts = [texts.part(each) for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    if not any(parts) and "structuredContent" in found:
        return json.dumps(found["structuredContent"], ensure_ascii=False)
    return "\n\n".join(filter(None, parts)) or texts.NOTHING

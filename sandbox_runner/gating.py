"""Asking a person before a tool runs, and running exactly what was approved, once, in the turn that the answer starts.

The approval holds the whole request, bound by its hash: what runs is what is written there, whatever an engine would
ask for by then. It is consumed in the transaction that records ``tool.requested``, so no crash makes it run twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent.engine import Step, ToolCall
from agent.tool import Ask, Gate, Refuse, Tool, ToolHost
from sandbox_runner import texts
from sandbox_runner.turn_in_hand import Turn
from workspace_store import approvals
from workspace_store.approvals import Approval, BadEdit, Revised
from workspace_store.inbox import Row
from workspace_store.principal import Lease

KIND = "tool"
MOST_OPEN = 5


class NotApproved(Exception):
    """What was approved was used already, or has expired; the text says so."""


def request(connection: Connection, turn: Turn, call: ToolCall, ask: Ask) -> Approval | None:
    """The open question about exactly this call, asked once; None: nobody can be asked, or too many are open."""
    wanted = {"tool": call.name, "arguments": dict(call.arguments)}
    waiting = [one for one in approvals.waiting(connection, turn.principal) if one.kind == KIND]
    open_now = [one for one in waiting if one.principal == turn.principal]
    for one in open_now:
        if one.request_hash == approvals.hash_request(wanted):
            return one
    place = approvals.place_of(connection, turn.principal)
    if len(open_now) >= MOST_OPEN or place is None:
        return None
    return approvals.request(
        connection,
        key=f"tool:{turn.id.hex}:{call.id}",
        kind=KIND,
        principal=turn.principal,
        at=place,
        request=wanted,
        text=ask.text,
        role=ask.role,
        turn=turn.id,
        message=turn.assignments[-1].row.id,
        resumes=True,
        under=turn.lease,
    )


def edited(found: Approval, words: str) -> Revised:
    """Other arguments: a JSON object of those that differ, or the text of the only one that is text. Raises BadEdit."""
    # Only here: whoever takes in messages has no other use for tools.
    from agent.tools import TOOLS

    name = str(found.request["tool"])
    tool = TOOLS.get(name)
    arguments: dict[str, Any] = dict(found.request["arguments"])
    known = set(arguments) | set(tool.schema.get("properties", ()) if tool else ())
    texts_of_it = [name for name, value in arguments.items() if isinstance(value, str)]
    try:
        given = json.loads(words) if words.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        unknown = set(given) - known
        if unknown:
            raise BadEdit(texts.no_such_argument(sorted(unknown)[0], sorted(known)))
        arguments |= given
    elif len(texts_of_it) == 1:
        arguments[texts_of_it[0]] = words
    else:
        raise BadEdit(texts.which_argument(sorted(arguments)))
    if tool is not None:
        try:
            arguments = tool.read(arguments)
        except ValueError as error:
            raise BadEdit(texts.not_its_arguments(name, str(error))) from error
    return Revised({"tool": name, "arguments": arguments}, texts.use_with(name, arguments))


def approved_by(connection: Connection, row: Row) -> Approval | None:
    """The tool's approval whose answer this inbox row is."""
    found = approvals.find(connection, UUID(row.dedupe_key.removeprefix("approval:")))
    return found if found is not None and found.kind == KIND and found.status in ("approved", "consumed") else None


def call_id(row: Row) -> str:
    """The call that an approval's answer starts."""
    return f"approved-{row.id.hex}"


def step(found: Approval, row: Row, tool: Tool | None) -> Step:
    """The first step of the turn that an approval's answer starts: what was approved, if the tool takes it so."""
    arguments, problem = dict(found.request["arguments"]), ""
    if tool is not None:
        try:
            arguments = tool.read(arguments)
        except ValueError as error:
            problem = str(error)
    return Step(calls=(ToolCall(call_id(row), str(found.request["tool"]), arguments, problem),))


def once_more(gate: Gate, found: Approval | None) -> Gate:
    """The gate before what was approved, which may have been edited since it stood before it first.

    Nobody is asked twice for the same; but what is refused to everybody stays so, and what takes an admin's word is not
    let through by somebody else's.
    """

    async def again(host: ToolHost, arguments: Mapping[str, Any]) -> Ask | Refuse | None:
        verdict = await gate(host, arguments)
        if isinstance(verdict, Ask) and (verdict.role == "asked" or found is None or found.role == "admin"):
            return None
        return verdict

    return again


def use(connection: Connection, row: Row, lease: Lease) -> None:
    """Consume the approval whose answer this row is. Raises NotApproved."""
    found = approved_by(connection, row)
    if found is None or not approvals.consume(connection, found.id, found.request, under=lease):
        raise NotApproved(texts.APPROVAL_GONE)

"""From a team's ``Agent`` to what a runner needs: its toolbox, with its policies before every call, and its role."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from agent.tool import Ask, Refuse, Tool, ToolHost, Tools
from agent.toolbox import Toolbox
from agent.tools import TOOLS
from nightporter.authoring import functions, texts, words
from nightporter.authoring.calling import CutOff, Workshop
from nightporter.authoring.lent import ReadBlob
from nightporter.authoring.loading import AgentFileError, load
from nightporter.authoring.words import Agent, Call, Policy, ToolFunction

log = structlog.get_logger()

POLICY_SECONDS = 10.0


@dataclass(frozen=True)
class Employed:
    """``role``: what its engine is told of who it is, with the rules that are told."""

    toolbox: Toolbox
    role: str


def employ(path: Path, read_blob: ReadBlob) -> Employed:
    """The agent of a file, ready to work. Raises AgentFileError."""
    agent = load(path)
    workshop = Workshop()
    told, kept = _policies(path, agent)
    if not isinstance(agent.role, str) or not agent.role.strip():
        raise AgentFileError(texts.bad_agent(path, texts.NO_ROLE))
    builtin = _builtin(path, agent.builtin_tools)
    own = _own(path, agent, builtin, workshop, read_blob)
    guard = _guard(kept, workshop) if kept else _as_it_is
    standing = {name: guard(tool) for name, tool in {**builtin, **own}.items()}
    return Employed(Toolbox(standing, guard=guard), "\n".join([agent.role.strip(), *(f"- {rule}" for rule in told)]))


def _policies(path: Path, agent: Agent) -> tuple[list[str], list[Policy]]:
    told: list[str] = []
    kept: list[Policy] = []
    for policy in agent.policies:
        if isinstance(policy, str):
            told.append(policy.strip())
        elif not callable(policy):
            raise AgentFileError(texts.bad_agent(path, texts.not_a_policy(policy)))
        elif inspect.iscoroutinefunction(policy):
            raise AgentFileError(texts.bad_agent(path, texts.async_policy(_name(policy))))
        else:
            kept.append(policy)
    return told, kept


def _builtin(path: Path, names: Sequence[str] | None) -> Tools:
    if names is None:
        return TOOLS
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        raise AgentFileError(texts.bad_agent(path, texts.unknown_builtin(unknown, list(TOOLS))))
    return {name: TOOLS[name] for name in names}


def _own(path: Path, agent: Agent, builtin: Tools, workshop: Workshop, read_blob: ReadBlob) -> Tools:
    found: dict[str, Tool] = {}
    for given in agent.tools:
        if not callable(given):
            raise AgentFileError(texts.bad_agent(path, texts.not_callable(given)))
        function = given if isinstance(given, ToolFunction) else words.tool(given)
        tool = functions.make(function, workshop, read_blob)
        if tool.name in found:
            raise AgentFileError(texts.bad_agent(path, texts.twice(tool.name)))
        if tool.name in builtin:
            raise AgentFileError(texts.bad_agent(path, texts.name_taken(tool.name)))
        found[tool.name] = tool
    return found


def _as_it_is(tool: Tool) -> Tool:
    return tool


def _guard(policies: Sequence[Policy], workshop: Workshop) -> Callable[[Tool], Tool]:
    """Put policies before a tool's own gate: the first that refuses counts, then the first that asks."""

    def guard(tool: Tool) -> Tool:
        async def gate(host: ToolHost, arguments: Mapping[str, Any]) -> Ask | Refuse | None:
            call = Call(tool.name, arguments, host.here.user, host.principal, host.here.channel, host.here.in_room)
            said = [await _decide(policy, call, host, workshop) for policy in policies]
            own = [await tool.gate(host, arguments)] if tool.gate else []
            verdicts = [*said, *own]
            refused = next((one for one in verdicts if isinstance(one, Refuse)), None)
            return refused or next((one for one in verdicts if one is not None), None)

        return replace(tool, gate=gate)

    return guard


async def _decide(policy: Policy, call: Call, host: ToolHost, workshop: Workshop) -> Ask | Refuse | None:
    """What a policy says; one that cannot say anything refuses."""
    try:
        outcome = await workshop.call(partial(policy, call), {}, host.stopping, POLICY_SECONDS)
    except CutOff as error:
        return Refuse(texts.policy_failed(_name(policy), error))
    if outcome.error is not None:
        log.error("a policy raised", policy=_name(policy), exc_info=outcome.error)
        return Refuse(texts.policy_failed(_name(policy), outcome.error))
    match outcome.value:
        case None:
            return None
        case words.Ask(text, role):
            return Ask(text, role)
        case words.Refuse(reason):
            return Refuse(reason)
    return Refuse(texts.policy_said(_name(policy), outcome.value))


def _name(policy: Callable[..., Any]) -> str:
    return str(getattr(policy, "__name__", policy))

"""From a provider's answer to a step: ids made usable, arguments checked against the tool, what it cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from agent.engine import EngineError, Step, Thought, ToolCall, Usage
from agent.models import texts
from agent.models.messages import CALL_ID
from agent.tool import Tool
from workspace_store.database import storable

MOST_DEEP = 64


class UnusableAnswer(EngineError):
    """The model said nothing that could be used; another might."""


def to_step(response: ModelResponse, tools: Mapping[str, Tool], taken: Iterable[str], answers: str) -> Step:
    """The step of a response. ``taken``: call ids of this turn so far; ``answers``: the inbox message a reply is for.

    Raises UnusableAnswer where it has neither words nor calls, or was refused or cut off by the provider.
    """
    text = storable("".join(part.content or "" for part in response.parts if isinstance(part, TextPart)).strip())
    used = set(taken)
    calls = tuple(_call(part, tools, used) for part in response.parts if isinstance(part, ToolCallPart))
    thoughts = tuple(
        Thought(storable(part.content), part.signature or "", part.id or "")
        for part in response.parts
        if isinstance(part, ThinkingPart)
    )
    if response.finish_reason == "content_filter" and not (text or calls):
        raise UnusableAnswer(texts.FILTERED)
    if response.finish_reason == "length" and not calls:
        text = f"{text}\n\n{texts.CUT_OFF}" if text else ""
    if not (text or calls):
        raise UnusableAnswer(texts.EMPTY_ANSWER)
    spoken = Step(provider=response.provider_name or "", model=response.model_name or "", usage=_usage(response))
    if calls:
        return replace(spoken, calls=calls, text=text, thoughts=thoughts)
    return replace(spoken, replies={answers: text})


def _call(part: ToolCallPart, tools: Mapping[str, Tool], used: set[str]) -> ToolCall:
    identifier, name = part.tool_call_id or "", storable(part.tool_name)
    if not CALL_ID.fullmatch(identifier) or identifier in used:
        identifier = f"call_{len(used)}"
        while identifier in used:
            identifier += "_"
    used.add(identifier)
    arguments, problem = _arguments(part, tools.get(name))
    return ToolCall(identifier, name, clean(arguments), storable(problem))


def clean(value: Any) -> Any:
    """JSON with every word of it fit for any database and any provider: no NUL, no lone surrogate."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value


def _arguments(part: ToolCallPart, tool: Tool | None) -> tuple[dict[str, Any], str]:
    """The arguments as the tool takes them, and what is wrong with them, if anything."""
    given: Any = part.args
    try:
        if isinstance(given, str) or given is None:
            given = json.loads(given or "{}")
        if isinstance(given, str):
            # Some models write their JSON twice.
            given = json.loads(given)
        # What no provider and no database would take: numbers that are none, or of thousands of digits.
        json.dumps(given, allow_nan=False)
    except (ValueError, RecursionError) as error:
        return {}, texts.bad_arguments(f"not JSON: {error}")
    if not isinstance(given, dict):
        return {}, texts.bad_arguments("not an object")
    if _is_deep(given):
        return {}, texts.bad_arguments(f"nested more than {MOST_DEEP} deep")
    if tool is None:
        return given, ""
    try:
        return tool.read(given), ""
    except ValueError as error:
        return given, texts.bad_arguments(str(error))


def _is_deep(value: Any) -> bool:
    """Whether it is nested deeper than whoever reads it goes; level by level."""
    level = [value]
    for _ in range(MOST_DEEP):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _usage(response: ModelResponse) -> Usage:
    usage = response.usage
    try:
        price = int(response.cost().total_price * 1_000_000)
    except (LookupError, ValueError, AssertionError):
        price = None
    return Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, price)

"""From a team's function to a tool: its parameters become a JSON schema, its docstring the description, its kind what
happens to a call that was cut off."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import structlog
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from agent.tool import Ask, Tool, ToolHost, ToolResult
from nightporter.authoring import texts
from nightporter.authoring.calling import CutOff, Workshop
from nightporter.authoring.lent import LentContext, ReadBlob
from nightporter.authoring.loading import AgentFileError
from nightporter.authoring.words import Context, ToolFunction

log = structlog.get_logger()

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY = "key"
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
ARGUMENTS_SHOWN = 300


@dataclass(frozen=True)
class Signature:
    """``arguments``: the model of what is asked for; ``names``: its fields as the function calls them."""

    arguments: type[BaseModel]
    names: Mapping[str, str]
    context: str | None
    takes_key: bool


def make(given: ToolFunction[..., Any], workshop: Workshop, read_blob: ReadBlob) -> Tool:
    """The tool of a function. Raises AgentFileError."""
    try:
        signature = _signature(given)
    except ValueError as error:
        code = inspect.unwrap(given.function).__code__
        raise AgentFileError(texts.bad_tool(code.co_filename, code.co_firstlineno, given.name, str(error))) from error

    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        lent = LentContext(host, call_id, key_of(host, call_id), read_blob)
        return await _run(given, signature, workshop, lent, host, arguments)

    async def approved(host: ToolHost, arguments: Mapping[str, Any]) -> Ask:
        shown = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
        if len(shown) > ARGUMENTS_SHOWN:
            shown = f"{shown[:ARGUMENTS_SHOWN]}…"
        return Ask(texts.wants_to(given.name, shown), "admin" if given.approval == "admin" else "asked")

    return Tool(
        given.name,
        given.description,
        given.kind,
        run,
        arguments=signature.arguments,
        gate=approved if given.approval else None,
        outside=given.kind != "pure",
    )


def key_of(host: ToolHost, call_id: str) -> str:
    """The same whenever the same call is run again."""
    return f"{host.turn.hex}:{call_id}"


async def _run(
    given: ToolFunction[..., Any],
    signature: Signature,
    workshop: Workshop,
    lent: LentContext,
    host: ToolHost,
    arguments: Mapping[str, Any],
) -> ToolResult:
    asked = signature.arguments.model_validate(arguments)
    named: dict[str, Any] = {name: getattr(asked, field) for field, name in signature.names.items()}
    if signature.context:
        named[signature.context] = lent
    if signature.takes_key:
        named[KEY] = lent.key
    try:
        outcome = await workshop.call(given.function, named, host.stopping, given.timeout)
    except CutOff as error:
        text = texts.cut_off(given.name, error.seconds, harmless=given.kind == "pure")
        return _result(lent, text, {"status": "interrupted"})
    finally:
        await lent.end()
    if outcome.error is not None:
        log.warning("a tool raised", tool=given.name, exc_info=outcome.error)
        return _result(lent, texts.raised(given.name, outcome.error), {"status": "failed"})
    try:
        return _result(lent, _told(outcome.value), {})
    except PydanticSerializationError:
        return _result(lent, texts.untellable(given.name, type(outcome.value).__name__), {"status": "failed"})


def _result(lent: LentContext, text: str, data: dict[str, Any]) -> ToolResult:
    """What ran in the sandbox for it may have changed the volume."""
    if lent.ran:
        data |= {"state_digest": lent.ran[-1].state_digest}
    return ToolResult(text, data, touched=bool(lent.ran), output=text)


def _told(value: Any) -> str:
    if value is None:
        return texts.DONE
    return value if isinstance(value, str) else to_json(value).decode()


def _signature(given: ToolFunction[..., Any]) -> Signature:
    """Raises ValueError with what is wrong and what to write."""
    function = given.function
    if not NAME.fullmatch(given.name):
        raise ValueError(texts.bad_name(given.name))
    if not given.description.strip():
        raise ValueError(texts.NO_DESCRIPTION)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(texts.GENERATOR)
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ValueError(texts.unknown_type(str(error))) from error
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind not in NAMED for parameter in parameters):
        raise ValueError(texts.LISTS_NOT_ALLOWED)
    contexts = [parameter.name for parameter in parameters if _is_context(hints.get(parameter.name))]
    if len(contexts) > 1:
        raise ValueError(texts.MANY_CONTEXTS)
    takes_key = given.kind == "idempotent" and any(parameter.name == KEY for parameter in parameters)
    if takes_key and hints.get(KEY) is not str:
        raise ValueError(texts.KEY_IS_TEXT)
    own = {*contexts, *((KEY,) if takes_key else ())}
    asked = [parameter for parameter in parameters if parameter.name not in own]
    return Signature(
        _model(given.name, asked, hints),
        {f"asked_{number}": parameter.name for number, parameter in enumerate(asked)},
        contexts[0] if contexts else None,
        takes_key,
    )


def _is_context(hint: Any) -> bool:
    return hint is Context or Context in get_args(hint)


def _model(name: str, asked: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[BaseModel]:
    """Its fields have names of ours: a parameter may be called as a model's own attributes are."""
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(asked):
        if parameter.name not in hints:
            raise ValueError(texts.untyped(parameter.name))
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[f"asked_{number}"] = (hints[parameter.name], Field(default, alias=parameter.name))
    config = ConfigDict(extra="forbid", serialize_by_alias=True)
    try:
        model: type[BaseModel] = create_model(name, __config__=config, **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ValueError(texts.no_schema(str(error).partition("\n")[0].rstrip("."))) from error
    return model

"""Answers of OpenAI-compatible servers that are nearly what OpenAI's are: mended where it is plain what was meant.

Servers leave out ids and names, give arguments as objects, count tokens oddly. What cannot be mended is refused by the
library as before.
"""

from __future__ import annotations

import json
from typing import Any

from openai.types import chat
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models.openai import OpenAIChatModel

LAST_SECOND = 253_402_300_799
"""Of the year 9999, which is as far as a date goes."""


class LenientChatModel(OpenAIChatModel):
    """Overrides the hook that the library has for this."""

    def _validate_completion(self, response: chat.ChatCompletion) -> Any:
        data = response.model_dump(warnings=False)
        if not data.get("choices"):
            raise UnexpectedModelBehavior("its answer has no words and no calls")
        return super()._validate_completion(chat.ChatCompletion.model_construct(**mended(data, self.model_name)))


def mended(data: dict[str, Any], model: str) -> dict[str, Any]:
    """The body of an answer, with what is missing in it filled in."""
    created, usage = data.get("created"), data.get("usage")
    data["id"] = _text(data.get("id"))
    data["model"] = _text(data.get("model")) or model
    data["created"] = created if isinstance(created, int) and 0 <= created <= LAST_SECOND else 0
    data["usage"] = usage if _counts(usage) else None
    for choice in data["choices"]:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        if isinstance(message.get("function_call"), dict) and not message.get("tool_calls"):
            message["tool_calls"] = [{"function": message.pop("function_call")}]
        if isinstance(message.get("tool_calls"), list):
            message["tool_calls"] = [_call(call) for call in message["tool_calls"] if isinstance(call, dict)]
    return data


def _call(given: dict[str, Any]) -> dict[str, Any]:
    """One call; an id that is none is made up later."""
    asked = given.get("function") or given.get("custom") or {}
    arguments = asked.get("arguments", asked.get("input"))
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments)
    function = {"name": _text(asked.get("name")), "arguments": arguments}
    return {"id": _text(given.get("id")), "type": "function", "function": function}


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _counts(usage: object) -> bool:
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    return isinstance(usage, dict) and all(isinstance(usage.get(one), int) and usage[one] >= 0 for one in counts)

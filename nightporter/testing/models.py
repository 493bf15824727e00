"""A local model provider: OpenAI's chat completions and Anthropic's messages, answering as its script says.

https://platform.openai.com/docs/api-reference/chat and https://docs.anthropic.com/en/api/messages. Requests are checked
as the providers do: roles, pairs of call and result, unique ids; what they would refuse is refused with 400 here.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from nightporter.testing.web import PlatformServer, hang_up

OPENAI = "openai"
ANTHROPIC = "anthropic"


@dataclass(frozen=True)
class Asked:
    """One request: which protocol, the model, and what is in it, in words of neither provider."""

    protocol: str
    model: str
    system: str
    said: Sequence[tuple[str, str]]
    """(role, text): ``user``, ``assistant``, ``call`` (JSON), ``result``."""
    tools: Sequence[str]
    key: str
    body: Mapping[str, Any]

    @property
    def words(self) -> str:
        return "\n".join([self.system, *(text for _, text in self.said)])

    def results(self) -> list[str]:
        return [text for role, text in self.said if role == "result"]


@dataclass(frozen=True)
class Say:
    """An answer: words, calls as (name, arguments; a string is sent as it is), or a failure with this HTTP status."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    status: int = 200
    retry_after: float | None = None
    hang: bool = False
    drop: bool = False
    ids: Sequence[str] = ()
    thinking: str = ""
    finish: str = ""
    """In OpenAI's words: ``length`` is an answer that was cut off."""
    usage: tuple[int, int] = (100, 20)
    stops_after: int | None = None
    """Streamed: the connection ends after so many events."""


Script = Callable[[Asked], Say]


class ModelServer(PlatformServer):
    """``asked``: all requests. ``say`` queues answers; when none is left, ``script`` is asked for one."""

    def __init__(self, script: Script | None = None) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self.refused: list[str] = []
        self.script = script or (lambda asked: Say("All done."))
        self._answers: deque[Say] = deque()
        self._numbers = itertools.count(1)
        self._released = asyncio.Event()

    @property
    def base_url(self) -> str:
        """For OpenAI's protocol; Anthropic's clients add ``/v1`` themselves."""
        return f"{self.origin}/v1"

    def say(self, *answers: Say) -> None:
        self._answers.extend(answers)

    def release(self) -> None:
        """Let what hangs go."""
        self._released.set()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._openai),
            web.post("/v1/messages", self._anthropic),
        ]

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        try:
            asked = _read_openai(body, _key(request))
        except ValueError as error:
            return self._refuse(str(error))
        return await self._answer(request, asked, self._openai_body)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        try:
            asked = _read_anthropic(body, _key(request))
        except ValueError as error:
            return self._refuse(str(error))
        return await self._answer(request, asked, self._anthropic_body)

    def _refuse(self, reason: str) -> web.Response:
        self.refused.append(reason)
        return web.json_response({"error": {"message": reason, "type": "invalid_request_error"}}, status=400)

    async def _answer(
        self, request: web.Request, asked: Asked, shape: Callable[[Asked, Say], dict[str, Any]]
    ) -> web.StreamResponse:
        self.record(asked.protocol, dict(asked.body))
        self.asked.append(asked)
        answer = self._answers.popleft() if self._answers else self.script(asked)
        if answer.hang:
            await self._released.wait()
        if answer.drop:
            hang_up(request)
        if answer.status != 200:
            headers = {} if answer.retry_after is None else {"retry-after": f"{answer.retry_after:g}"}
            error = {"type": "error", "error": {"type": "api_error", "message": answer.text or "it failed"}}
            return web.json_response(error, status=answer.status, headers=headers)
        whole = shape(asked, answer)
        if not asked.body.get("stream"):
            return web.json_response(whole)
        events = _openai_events(whole) if asked.protocol == OPENAI else _anthropic_events(whole)
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        for number, event in enumerate(events):
            if answer.stops_after == number:
                hang_up(request)
            await stream.write(event.encode())
        return stream

    def _ids(self, answer: Say) -> list[str]:
        given = list(answer.ids)
        return given + [f"call_{next(self._numbers)}" for _ in answer.calls[len(given) :]]

    def _openai_body(self, asked: Asked, answer: Say) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {"id": identifier, "type": "function", "function": {"name": name, "arguments": _as_text(arguments)}}
                for identifier, (name, arguments) in zip(self._ids(answer), answer.calls, strict=True)
            ]
        finish = answer.finish or ("tool_calls" if answer.calls else "stop")
        put_in, put_out = answer.usage
        return {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": asked.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": put_in, "completion_tokens": put_out, "total_tokens": put_in + put_out},
        }

    def _anthropic_body(self, asked: Asked, answer: Say) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.thinking:
            content.append({"type": "thinking", "thinking": answer.thinking, "signature": "sealed"})
        if answer.text:
            content.append({"type": "text", "text": answer.text})
        for identifier, (name, arguments) in zip(self._ids(answer), answer.calls, strict=True):
            given = arguments if isinstance(arguments, Mapping) else {"raw": arguments}
            content.append({"type": "tool_use", "id": identifier, "name": name, "input": dict(given)})
        given_finish = "max_tokens" if answer.finish == "length" else answer.finish
        finish = given_finish or ("tool_use" if answer.calls else "end_turn")
        put_in, put_out = answer.usage
        return {
            "id": f"msg_{next(self._numbers)}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": content,
            "stop_reason": finish,
            "stop_sequence": None,
            "usage": {"input_tokens": put_in, "output_tokens": put_out},
        }


def _openai_events(whole: Mapping[str, Any]) -> Iterator[str]:
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = whole["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\S+\s*", message["content"] or "")]
    deltas += [{"tool_calls": [{"index": n, **call}]} for n, call in enumerate(message.get("tool_calls", ()))]
    for delta in deltas:
        yield f"data: {json.dumps({**head, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})}\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield f"data: {json.dumps({**head, 'choices': [last]})}\n\n"
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': whole['usage']})}\n\n"
    yield "data: [DONE]\n\n"


def _anthropic_events(whole: Mapping[str, Any]) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        if kind == "text":
            opening: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": word} for word in re.findall(r"\S+\s*", block["text"])]
        elif kind == "thinking":
            opening = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            opening = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield event("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": whole["usage"]["output_tokens"]})
    yield event("message_stop")


def _key(request: web.Request) -> str:
    return request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")


def _as_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))


def _read_openai(body: Mapping[str, Any], key: str) -> Asked:
    """Raises ValueError for what OpenAI refuses: a result without its call, a call without its result."""
    system = ""
    said: list[tuple[str, str]] = []
    open_calls: dict[str, Any] = {}
    for message in body["messages"]:
        role = message["role"]
        if role != "tool" and open_calls:
            raise ValueError(f"tool_call_ids did not have response messages: {sorted(open_calls)}")
        if role in ("system", "developer"):
            system += _text_of(message["content"])
        elif role == "user":
            said.append(("user", _text_of(message["content"])))
        elif role == "assistant":
            if message.get("content"):
                said.append(("assistant", _text_of(message["content"])))
            for call in message.get("tool_calls") or ():
                if not call["id"] or call["id"] in open_calls:
                    raise ValueError(f"bad tool call id {call['id']!r}")
                json.loads(call["function"]["arguments"])
                open_calls[call["id"]] = call
                said.append(("call", json.dumps(call["function"], sort_keys=True)))
        elif role == "tool":
            if open_calls.pop(message["tool_call_id"], None) is None:
                raise ValueError("a tool message must follow the tool_calls it answers")
            said.append(("result", _text_of(message["content"])))
    if open_calls:
        raise ValueError(f"tool_call_ids did not have response messages: {sorted(open_calls)}")
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    return Asked(OPENAI, body["model"], system, said, tools, key, body)


def _read_anthropic(body: Mapping[str, Any], key: str) -> Asked:
    """Raises ValueError for what Anthropic refuses: roles that do not alternate, ids used twice, late results."""
    said: list[tuple[str, str]] = []
    used: set[str] = set()
    open_calls: set[str] = set()
    before = "assistant"
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == before:
            raise ValueError("roles must alternate between user and assistant")
        before = role
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            raise ValueError("messages must have non-empty content")
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if role == "user" and results != open_calls:
            raise ValueError(f"tool_use ids without tool_result blocks right after: {sorted(open_calls ^ results)}")
        open_calls = set()
        for block in blocks:
            kind = block["type"]
            if kind == "text":
                if not block["text"].strip():
                    raise ValueError("text content blocks must be non-empty")
                said.append((role, block["text"]))
            elif kind == "tool_use":
                if block["id"] in used:
                    raise ValueError(f"tool_use ids must be unique: {block['id']}")
                used.add(block["id"])
                open_calls.add(block["id"])
                given = {"name": block["name"], "arguments": block["input"]}
                said.append(("call", json.dumps(given, sort_keys=True)))
            elif kind == "tool_result":
                said.append(("result", _text_of(block["content"])))
            elif kind == "thinking":
                if block["signature"] != "sealed":
                    raise ValueError("invalid signature in thinking block")
                said.append(("thinking", block["thinking"]))
    if before != "user":
        raise ValueError("the conversation must end with a user message")
    tools = [tool["name"] for tool in body.get("tools", ())]
    return Asked(ANTHROPIC, body["model"], _text_of(body.get("system", "")), said, tools, key, body)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or ())

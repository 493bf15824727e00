"""Answers that are nearly or not at all what a provider says: mended, told to the model, or refused; never a crash, and
whatever comes of them goes back to either provider in a form that it takes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from agent.engine import EngineError, EngineUnavailable, Step
from agent.models import candidates, names
from agent.models.breaker import Breaker
from agent.models.chain import Chain
from agent.tools import TOOLS
from agent.trajectory import Context, Said
from workspace_store.database import to_json

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Odd:
    """A provider that answers with whatever it is given, and checks what it is asked with."""

    def __init__(self) -> None:
        self.body, self.status = b"", 200
        self.port = 0

    def answers(self, body: Any, status: int = 200) -> None:
        self.body, self.status = body if isinstance(body, bytes) else json.dumps(body).encode(), status

    async def reply(self, request: web.Request) -> web.Response:
        body = await request.json()
        for message in body["messages"]:
            content = message.get("content")
            used = [block for block in content or () if isinstance(block, dict) and block["type"] == "tool_use"]
            called = [call["function"] for call in message.get("tool_calls", ())] + used
            assert all(NAME.fullmatch(one["name"]) for one in called), called
        return web.Response(body=self.body, status=self.status, content_type="application/json")

    def chain(self, protocol: str) -> Chain:
        base = f"http://127.0.0.1:{self.port}" + ("/v1" if protocol == "openai" else "")
        name = names.parse(f"{protocol}:local", base, "a-key")
        return Chain([candidates.make(name, 20, Breaker(time.monotonic))], 20, False, _at_once)

    async def ask(self, protocol: str, *said: Said) -> Step:
        given = [Said("user", "Hello?", message="m1"), *said]
        return await self.chain(protocol).step(Context("Be kind.", [], [], [], given, "It is noon.", tools=TOOLS))


async def _at_once(seconds: float) -> None:
    """No pause."""


@pytest.fixture
async def odd() -> AsyncIterator[Odd]:
    found = Odd()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", found.reply)
    app.router.add_post("/v1/messages", found.reply)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.port = int(runner.addresses[0][1])
    yield found
    await runner.cleanup()


def openai(message: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **(message or {})}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return {**whole, **more}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": arguments}, **more}


def calling(arguments: Any, **more: Any) -> dict[str, Any]:
    return openai({"tool_calls": [call(arguments, **more)]})


def anthropic(*content: Any, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return {**whole, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage, **more}


def use(given: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": "shell", "input": given, **more}


LS = {"command": "ls"}
WORDS = {"role": "assistant", "content": "Hello."}
FINE = {"openai": openai(WORDS), "anthropic": anthropic({"type": "text", "text": "Hello."})}

MEANT = {
    "an object": calling(LS),
    "written twice": calling(json.dumps(json.dumps(LS))),
    "no id": calling(json.dumps(LS), id=None),
    "an id that is a number": calling(json.dumps(LS), id=7),
    "an endless id": calling(json.dumps(LS), id="x" * 5000),
    "the form before": openai({"function_call": {"name": "shell", "arguments": json.dumps(LS)}}),
}
NOT_MEANT = {
    "deeper than anybody reads": calling("[" * 200_000),
    "deep": calling(f'{{"command": {"[" * 500}{"]" * 500}}}'),
    "no number": calling('{"command": "ls", "timeout": NaN}'),
    "thousands of digits": calling(f'{{"command": "ls", "timeout": {"9" * 5000}}}'),
    "a list": calling("[1]"),
    "nothing": calling(None),
    "cut off": calling('{"command": "l'),
    "a list as it is": anthropic(use([1])),
    "words": anthropic(use("ls")),
    "nothing at all": anthropic(use(None)),
    "no number as it is": anthropic(use({"command": "ls", "timeout": float("nan")})),
}
WELL_ENOUGH = {
    "no model": openai(WORDS, model=None),
    "a time that is none": openai(WORDS, created="now"),
    "a time after all times": openai(WORDS, created=10**18),
    "counts below nothing": openai(WORDS, usage={"prompt_tokens": -5, "completion_tokens": None}),
    "no counts": openai(WORDS, usage=None),
    "parts nobody knows": anthropic({"type": "banana"}, {"type": "text", "text": "Hello."}),
}
UNUSABLE = {
    "openai": [
        [1], None, {"error": {"message": "overloaded"}}, openai(choices=[]), openai(choices=None),
        openai(WORDS | {"content": " "}),
        b"<html>", b"", b'{"id": "x", "cho', b'{"id": "\\xff',
    ],
    "anthropic": [
        [1], None, {"type": "error", "error": {"type": "overloaded_error"}}, anthropic(content=None),
        anthropic(content="Hello."), anthropic(usage=None), anthropic(), anthropic({"type": "banana"}), b"<p>", b'{"id',
    ],
}  # fmt: skip


def protocol_of(body: dict[str, Any]) -> str:
    return "openai" if "choices" in body else "anthropic"


async def goes_back(odd: Odd, step: Step) -> None:
    """It is kept, and both providers are asked with it."""
    again = Step.from_json(json.loads(to_json(step.to_json())))
    results = [Said("tool", "done", call=call.id, name=call.name) for call in again.calls]
    for protocol, body in FINE.items():
        odd.answers(body)
        assert (await odd.ask(protocol, again.said(), *results)).replies == {"m1": "Hello."}


@pytest.mark.parametrize("how", MEANT)
async def test_what_is_plainly_meant_is_done(odd: Odd, how: str) -> None:
    odd.answers(MEANT[how])
    step = await odd.ask("openai")
    (found,) = step.calls
    assert (found.name, dict(found.arguments), found.problem) == ("shell", LS, "")
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", found.id)
    await goes_back(odd, step)


@pytest.mark.parametrize("how", NOT_MEANT)
async def test_what_is_not_is_told_to_the_model(odd: Odd, how: str) -> None:
    body = NOT_MEANT[how]
    odd.answers(body)
    step = await odd.ask(protocol_of(body))
    (found,) = step.calls
    assert found.problem
    assert "timeout" not in found.arguments
    await goes_back(odd, step)


@pytest.mark.parametrize("how", WELL_ENOUGH)
async def test_words_are_taken_whatever_is_odd_beside_them(odd: Odd, how: str) -> None:
    body = WELL_ENOUGH[how]
    odd.answers(body)
    assert (await odd.ask(protocol_of(body))).replies == {"m1": "Hello."}


@pytest.mark.parametrize("protocol", UNUSABLE)
async def test_what_nobody_can_use_is_an_error_with_words(odd: Odd, protocol: str) -> None:
    for body in UNUSABLE[protocol]:
        odd.answers(body)
        with pytest.raises(EngineError) as raised:
            await odd.ask(protocol)
        assert not isinstance(raised.value, EngineUnavailable)
        assert f"{protocol}:local: " in str(raised.value)
        assert len(str(raised.value)) < 400


@pytest.mark.parametrize("name", ["", "my tool! ünï", "a" * 3000])
async def test_a_tool_that_no_provider_would_take_back(odd: Odd, name: str) -> None:
    odd.answers(openai({"tool_calls": [call("{}", function={"name": name, "arguments": "{}"})]}))
    step = await odd.ask("openai")
    assert step.calls[0].name == name
    await goes_back(odd, step)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_work_later_is_waited_for(odd: Odd, status: int) -> None:
    odd.answers(b"no", status)
    with pytest.raises(EngineUnavailable):
        await odd.ask("openai")


async def test_a_refused_request_is_told_in_the_providers_words_but_never_with_a_key(odd: Odd) -> None:
    said = {"error": {"message": "max_tokens is too large; key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"}}
    odd.answers(said, 400)
    with pytest.raises(EngineError) as raised:
        await odd.ask("openai")
    assert "HTTP 400: max_tokens is too large" in str(raised.value)
    assert "sk-proj" not in str(raised.value)

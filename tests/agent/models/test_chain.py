"""Every protocol, streamed or not, keeps the same contract; fallbacks and breakers decide who is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from agent.engine import EngineError, EngineUnavailable, Step
from agent.models import candidates, names
from agent.models.breaker import Breaker
from agent.models.chain import Chain
from agent.tools import TOOLS
from agent.trajectory import Context, Said
from nightporter.testing.models import ModelServer, Say


class Clock:
    """Seconds that pass when they are slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["openai", "anthropic", "openai streamed", "anthropic streamed"])
def chain(request: pytest.FixtureRequest, server: ModelServer, clock: Clock) -> Chain:
    return make(server, clock, str(request.param))


def make(server: ModelServer, clock: Clock, how: str, *models: str, timeout: float = 20) -> Chain:
    protocol, _, streamed = how.partition(" ")
    base = server.base_url if protocol == "openai" else server.origin
    found = [
        candidates.make(names.parse(f"{protocol}:{model}", base, "key"), timeout, Breaker(clock))
        for model in models or ("local",)
    ]
    return Chain(found, timeout, bool(streamed), clock.sleep)


def asking(*said: Said) -> Context:
    return Context("Be kind.", [], [], [], [Said("user", "Hello?", message="m1"), *said], "It is noon.", tools=TOOLS)


class Told:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def answering(self, text: str) -> None:
        self.texts.append(text)


async def test_words_become_the_reply_to_the_newest_message(server: ModelServer, chain: Chain) -> None:
    server.say(Say("Good day to you."))
    step = await chain.step(asking(Said("user", "Anybody?", message="m2")))
    assert step.replies == {"m2": "Good day to you."}
    assert step.usage is not None
    assert (step.usage.input_tokens, step.usage.output_tokens) == (100, 20)
    assert step.model == "local"


async def test_calls_come_with_what_is_said_and_thought_beside_them_and_go_back_paired(
    server: ModelServer, chain: Chain
) -> None:
    calls: list[tuple[str, Mapping[str, str]]] = [("shell", {"command": "ls"}), ("recall", {"query": "door"})]
    server.say(Say("I look.", calls, thinking="Where is it?"), Say("Here."))
    step = await chain.step(asking())
    assert [(call.name, dict(call.arguments), call.problem) for call in step.calls] == [
        (name, arguments, "") for name, arguments in calls
    ]
    assert step.text == "I look."
    results = [Said("tool", f"result of {call.name}", call=call.id, name=call.name) for call in step.calls]
    await chain.step(asking(Step.from_json(step.to_json()).said(), *results))
    assert server.refused == []
    assert server.asked[-1].results() == ["result of shell", "result of recall"]
    thought = [text for role, text in server.asked[-1].said if role == "thinking"]
    assert thought == (["Where is it?"] if server.asked[-1].protocol == "anthropic" else [])


async def test_what_is_written_is_told_as_it_grows(server: ModelServer, clock: Clock) -> None:
    for how in ("openai streamed", "anthropic streamed"):
        told = Told()
        server.say(Say("One two three."))
        await make(server, clock, how).step(asking(), told)
        assert told.texts[-1] == "One two three."
        assert len(told.texts) > 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [("{not json", "JSON"), ("[1]", "object"), ({}, "command"), ({"command": "ls", "cmmand": "x"}, "cmmand")],
)
async def test_arguments_that_do_not_fit_are_a_problem_of_the_call(
    server: ModelServer, clock: Clock, given: str | dict[str, str], problem: str
) -> None:
    server.say(Say(calls=[("shell", given)]))
    (call,) = (await make(server, clock, "openai").step(asking())).calls
    assert problem in call.problem


async def test_words_that_no_database_takes_are_replaced(server: ModelServer, chain: Chain) -> None:
    server.say(Say("a\ud800\x00b", [("shell", {"command": "echo \ud800"}), ("no\ud800", {})]), Say("x\x00\ud800"))
    step = await chain.step(asking())
    assert [call.name for call in step.calls] == ["shell", "no\ufffd"]
    assert step.calls[0].arguments == {"command": "echo \ufffd"}
    results = [Said("tool", "nothing", call=call.id, name=call.name) for call in step.calls]
    answered = await chain.step(asking(step.said(), *results))
    assert "\x00" not in answered.replies["m1"]
    assert server.refused == []


async def test_ids_that_cannot_be_used_again_are_replaced(server: ModelServer, chain: Chain) -> None:
    calls = [("recall", {"query": "a"}), ("recall", {"query": "b"}), ("recall", {"query": "c"})]
    server.say(Say(calls=calls, ids=["same", "same", "no good id!"]), Say("Done."))
    step = await chain.step(asking())
    assert len({call.id for call in step.calls}) == 3
    results = [Said("tool", "nothing", call=call.id, name=call.name) for call in step.calls]
    assert (await chain.step(asking(step.said(), *results))).replies == {"m1": "Done."}
    assert server.refused == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_passing_failure_is_tried_once_more_at_once(server: ModelServer, chain: Chain, status: int) -> None:
    server.say(Say(status=status), Say("There."))
    assert (await chain.step(asking())).replies == {"m1": "There."}


async def test_a_failure_that_stays_is_worth_asking_again_later(server: ModelServer, chain: Chain) -> None:
    server.script = lambda asked: Say(status=503)
    with pytest.raises(EngineUnavailable, match="local"):
        await chain.step(asking())
    assert len(server.asked) == 2


async def test_a_server_that_asks_for_time_gets_it(server: ModelServer, chain: Chain, clock: Clock) -> None:
    server.say(Say(status=429, retry_after=40))
    with pytest.raises(EngineUnavailable) as caught:
        await chain.step(asking())
    assert caught.value.seconds == pytest.approx(40, abs=1)
    with pytest.raises(EngineUnavailable):
        await chain.step(asking())
    assert len(server.asked) == 1
    await clock.sleep(41)
    assert (await chain.step(asking())).replies


@pytest.mark.parametrize(("status", "said"), [(401, "api_key"), (404, "engine.model"), (400, "400")])
async def test_what_will_never_work_says_what_to_do_and_is_not_waited_for(
    server: ModelServer, chain: Chain, status: int, said: str
) -> None:
    server.script = lambda asked: Say(status=status)
    with pytest.raises(EngineError, match=said) as caught:
        await chain.step(asking())
    assert not isinstance(caught.value, EngineUnavailable)
    assert len(server.asked) == 1


async def test_the_next_model_is_asked_and_the_first_left_alone_until_its_breaker_closes(
    server: ModelServer, clock: Clock
) -> None:
    chain = make(server, clock, "openai", "first", "second")
    server.script = lambda asked: Say(status=503) if asked.model == "first" else Say("From the second.")
    for _ in range(4):
        assert (await chain.step(asking())).replies == {"m1": "From the second."}
    first = [asked for asked in server.asked if asked.model == "first"]
    assert len(first) == 3
    await clock.sleep(30)
    server.script = lambda asked: Say(f"From the {asked.model}.")
    assert (await chain.step(asking())).replies == {"m1": "From the first."}


async def test_a_model_that_hangs_is_given_up_in_time(server: ModelServer, clock: Clock) -> None:
    chain = make(server, clock, "openai", timeout=0.2)
    server.script = lambda asked: Say(hang=True)
    with pytest.raises(EngineUnavailable, match="in time"):
        await asyncio.wait_for(chain.step(asking()), 10)


async def test_a_connection_that_ends_is_a_passing_failure(server: ModelServer, chain: Chain) -> None:
    server.say(Say(drop=True), Say("There."))
    assert (await chain.step(asking())).replies == {"m1": "There."}


async def test_a_stream_that_breaks_off_is_asked_again(server: ModelServer, clock: Clock) -> None:
    for how in ("openai streamed", "anthropic streamed"):
        server.say(Say("One two three four.", stops_after=3), Say("Whole."))
        assert (await make(server, clock, how).step(asking())).replies == {"m1": "Whole."}


async def test_an_empty_answer_is_asked_for_again_then_given_up(server: ModelServer, chain: Chain) -> None:
    server.say(Say(""), Say("Now."))
    assert (await chain.step(asking())).replies == {"m1": "Now."}
    server.say(Say(""), Say(""))
    with pytest.raises(EngineError, match="nothing"):
        await chain.step(asking())


async def test_the_same_call_again_and_again_is_stopped(server: ModelServer, chain: Chain) -> None:
    server.script = lambda asked: Say(calls=[("recall", {"query": "x"})])
    said: list[Said] = []
    for _ in range(4):
        step = await chain.step(asking(*said))
        said += [step.said(), *(Said("tool", "nothing", call=c.id, name=c.name) for c in step.calls)]
    with pytest.raises(EngineError, match="in a row"):
        await chain.step(asking(*said))
    assert server.refused == []


async def test_an_answer_that_grew_too_long_says_so(server: ModelServer, clock: Clock) -> None:
    server.say(Say("Half of it", finish="length"))
    (text,) = (await make(server, clock, "openai").step(asking())).replies.values()
    assert text.startswith("Half of it")
    assert "cut off" in text

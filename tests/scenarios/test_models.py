"""The whole path with a model that thinks: a local provider speaks both protocols, all else is as users run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.models import ModelServer, Say
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

pytestmark = pytest.mark.slow
MakeHouse = Callable[..., House]
PROTOCOLS = ["openai", "anthropic"]


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


def settings(server: ModelServer, protocol: str = "openai") -> dict[str, str]:
    """The settings for a model of the local provider."""
    base = server.base_url if protocol == "openai" else server.origin
    return {"engine__model": f"{protocol}:local", "engine__base_url": base, "engine__api_key": "a-test-key"}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_model_uses_the_shell_and_answers(make_house: MakeHouse, models: ModelServer, protocol: str) -> None:
    models.say(Say(calls=[("shell", {"command": "echo 6 > n; expr $(cat n) \\* 7"})]), Say("It is 42."))
    house = await asyncio.to_thread(make_house, **settings(models, protocol))
    assert await asyncio.to_thread(house.say, "What is six times seven?") == "It is 42."
    first, second = models.asked
    assert first.key == "a-test-key"
    assert "What is six times seven?" in first.words
    assert {"shell", "remember", "recall"} <= set(first.tools)
    assert "42" in second.results()[0]
    assert models.refused == []


async def test_what_was_said_before_is_there_for_another_provider(make_house: MakeHouse, models: ModelServer) -> None:
    house = await asyncio.to_thread(make_house, **settings(models, "anthropic"))
    models.say(
        Say("I look.", [("shell", {"command": "echo blue > colour"}), ("remember", {"text": "Ann likes blue"})],
            thinking="Which colour?"),
        Say("Noted."),
    )  # fmt: skip
    await asyncio.to_thread(house.say, "My colour is blue.")
    await asyncio.to_thread(house.stop)
    house.settings.update(settings(models, "openai"))
    await asyncio.to_thread(house.start)
    models.say(Say("Blue."))
    assert await asyncio.to_thread(house.say, "Which colour is mine?") == "Blue."
    last = models.asked[-1]
    assert (last.protocol, models.refused) == ("openai", [])
    assert "echo blue > colour" in last.words
    assert "My colour is blue." in last.words
    assert "Noted." in last.words


async def test_killed_between_answer_and_tool_nothing_is_asked_or_run_twice(
    make_house: MakeHouse, models: ModelServer
) -> None:
    house = await asyncio.to_thread(make_house, **settings(models))
    models.say(Say(calls=[("shell", {"command": "echo once >> trace; sleep 1; cat trace"})]), Say("Done."))
    message = await asyncio.to_thread(house.post, "Append a line.")
    await until(lambda: list(house.home.glob("volumes/*/live/workspace/trace")), "the tool has begun", 30)
    await asyncio.to_thread(house.kill, "runner")
    found = await asyncio.to_thread(house.answer, message)
    assert [reply["text"] for reply in found["replies"]] == ["Done."]
    assert len(models.asked) == 2
    (trace,) = house.home.glob("volumes/*/live/workspace/trace")
    assert trace.read_text() == "once\n"


async def test_a_model_that_cannot_be_reached_is_told_once_and_waited_for(
    make_house: MakeHouse, models: ModelServer
) -> None:
    house = await asyncio.to_thread(make_house, **settings(models))
    models.script = lambda asked: Say(status=503)
    message = await asyncio.to_thread(house.post, "Are you there?")
    await until(lambda: len(models.asked) >= 2, "it was asked", 30)

    def told() -> list[str]:
        return [reply["text"] for reply in house.status(message)["replies"]]

    await asyncio.to_thread(wait_until, told, "told", 30)
    models.script = lambda asked: Say("Here I am.")
    await asyncio.to_thread(house.kill, "runner")
    found = await asyncio.to_thread(house.answer, message, seconds=60)
    texts = [reply["text"] for reply in found["replies"]]
    assert "not reachable" in texts[0]
    assert "Your message is kept" in texts[0]
    assert texts[1:] == ["Here I am."]


async def test_stop_ends_a_turn_while_the_model_thinks(make_house: MakeHouse, models: ModelServer) -> None:
    house = await asyncio.to_thread(make_house, **settings(models))
    models.say(Say(hang=True))
    message = await asyncio.to_thread(house.post, "Think long.")
    await until(lambda: models.asked, "the model thinks", 30)
    await asyncio.to_thread(house.say, "/stop")
    found = await asyncio.to_thread(house.answer, message, seconds=10)
    assert [reply["text"] for reply in found["replies"]] == ["Stopped."]
    models.release()
    models.say(Say("Hello."))
    assert await asyncio.to_thread(house.say, "hello") == "Hello."


async def test_a_model_at_telegram(make_house: MakeHouse, models: ModelServer) -> None:
    models.script = lambda asked: Say("**Good** evening.")
    async with TelegramServer() as telegram:
        given = {"telegram__token": TOKEN, "telegram__api_url": telegram.api_url, "access__policy": "open"}
        await asyncio.to_thread(make_house, **settings(models), **given)
        telegram.say(telegram.message("good evening"))
        await until(lambda: telegram.messages, "an answer", 30)
        assert telegram.messages[0]["text"] == "Good evening."

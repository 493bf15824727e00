"""A model at Slack, by mail and on Telegram: its tools, two providers in turn, all that goes wrong, and kill -9.

The provider is a local server that speaks both protocols and refuses what they refuse; all else is as users run it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.models import ANTHROPIC, OPENAI, Asked, ModelServer, Say
from nightporter.testing.web import until
from tests.scenarios.three_channels import CHANNELS, Town, link_all, town_with
from workspace_store import crash_points
from workspace_store.crash_points import Point

pytestmark = pytest.mark.slow
MakeHouse = Callable[..., House]
PROTOCOLS = (OPENAI, ANTHROPIC)
HANGS_SECONDS = "2"


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


def settings(server: ModelServer, protocol: str) -> dict[str, str]:
    base = server.base_url if protocol == OPENAI else server.origin
    return {
        "engine__model": f"{protocol}:local", "engine__base_url": base, "engine__api_key": "a-test-key",
        "engine__fallbacks": "[]", "access__policy": "open",
    }  # fmt: skip


async def restart(house: House, **settings: str) -> None:
    await asyncio.to_thread(house.stop)
    house.settings.update(settings)
    await asyncio.to_thread(house.start)


async def hears(town: Town, channel: str, words: str, seconds: float = 40) -> None:
    await until(lambda: any(words in said for said in town.said(channel)), f"{words!r} at {channel}", seconds)


def line(name: str) -> Say:
    """A call that leaves one line in the workspace."""
    return Say(f"I write {name}.", [("shell", {"command": f"echo {name} >> lines; cat lines"})], thinking="A line.")


def lines(house: House) -> list[str]:
    (path,) = house.home.glob("volumes/*/live/workspace/lines")
    return path.read_text().split()


async def test_tools_at_three_channels_with_the_provider_changed_between_turns(
    make_house: MakeHouse, models: ModelServer
) -> None:
    async with town_with(make_house, **settings(models, OPENAI)) as town:
        await link_all(town)
        assert models.asked == []
        written: list[str] = []
        for turn, (channel, protocol) in enumerate(zip(CHANNELS * 2, PROTOCOLS * 3, strict=True)):
            if turn:
                await restart(town.house, **settings(models, protocol))
            name = f"{channel}-{turn}"
            models.say(line(name), Say(f"Written: {name}."))
            await town.say(channel, f"Please write {name}.")
            await hears(town, channel, f"Written: {name}.")
            written.append(name)
            first, second = models.asked[-2:]
            assert (first.protocol, second.protocol) == (protocol, protocol)
            # What was said and done through the other provider, at the other channels.
            assert all(f"Please write {each}." in first.words for each in written)
            assert all(f"Written: {each}." in first.words for each in written[:-1])
            assert [word for word in second.results()[-1].split() if word in written] == written
        assert lines(town.house) == written
        assert len(models.asked) == 2 * len(written)
        assert models.refused == []


FAULTS = {
    "arguments that are no JSON": [Say(calls=[("shell", '{"command": "echo tru')])],
    "arguments cut off": [Say(calls=[("shell", '{"command": "echo tru')], finish="length")],
    "arguments it does not take": [Say(calls=[("shell", {"cmd": "ls"})])],
    "arguments of another type": [Say(calls=[("shell", {"command": ["ls"]})])],
    "no such tool": [Say(calls=[("launch_missiles", {})])],
    "a tool without a name": [Say(calls=[("", {})])],
    "no ids": [Say(calls=[("recall", {"query": "x"}), ("recall", {"query": "y"})], ids=["", ""])],
    "the same id twice": [Say(calls=[("recall", {"query": "x"}), ("recall", {"query": "y"})], ids=["a", "a"])],
    "429": [Say(status=429, retry_after=0.1)],
    "500": [Say(status=500)],
    "529": [Say(status=529)],
    "a lost connection": [Say(drop=True)],
    "hanging": [Say(hang=True)],
    "nothing at all": [Say("")],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_whatever_goes_wrong_each_message_gets_its_one_answer(
    make_house: MakeHouse, models: ModelServer, protocol: str
) -> None:
    given = {**settings(models, protocol), "engine__timeout_seconds": HANGS_SECONDS}
    async with town_with(make_house, **given) as town:
        for number, (fault, answers) in enumerate(FAULTS.items()):
            channel = CHANNELS[number % len(CHANNELS)]
            models.say(*answers, Say(f"Well after {fault}."))
            await town.say(channel, f"Now {fault}.")
            await hears(town, channel, f"Well after {fault}.", 60)
            models.release()
        told = [said for channel in CHANNELS for said in town.said(channel)]
        for fault in FAULTS:
            assert len([said for said in told if f"Well after {fault}." in said]) == 1, fault
        assert len(told) == len(FAULTS), told
        assert models.refused == []
        assert len(models.asked) == 2 * len(FAULTS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_overlong_answer_arrives_whole_at_every_channel(
    make_house: MakeHouse, models: ModelServer, protocol: str
) -> None:
    words = [f"word-{number}" for number in range(12_000)]
    async with town_with(make_house, **settings(models, protocol)) as town:
        for channel in CHANNELS:
            models.say(Say("\n\n".join(" ".join(words[at : at + 60]) for at in range(0, len(words), 60))))
            await town.say(channel, "Tell me everything.")
            await hears(town, channel, words[-1], 90)
            told = " ".join(town.said(channel)).split()
            assert [word for word in told if word.startswith("word-")] == words, channel
            # What the provider itself cut off is said to be.
            models.say(Say("Half of it", finish="length"))
            await town.say(channel, "And shorter?")
            await hears(town, channel, "cut off")
        assert models.refused == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("point", [Point.TOOL_REQUESTED, Point.TOOL_RAN, Point.TOOL_RECORDED])
async def test_killed_between_the_answer_and_the_tool_nothing_is_asked_or_run_twice(
    make_house: MakeHouse, models: ModelServer, tmp_path: Path, protocol: str, point: Point
) -> None:
    plan = tmp_path / "plan"

    def script(asked: Asked) -> Say:
        name = re.findall(r"Please write (\S+)\.", asked.words)[-1]
        done = any(f"echo {name} " in json.dumps(text) for role, text in asked.said if role == "call")
        return Say(f"Written: {name}.") if done else line(name)

    models.script = script
    async with town_with(make_house, crash_plan=str(plan), **settings(models, protocol)) as town:
        await link_all(town)
        for channel in CHANNELS:
            mark = crash_points.reached_mark(plan)
            mark.unlink(missing_ok=True)
            crash_points.write(plan, point, "kill", 1)
            victim = town.house.pid("runner")
            await town.say(channel, f"Please write {channel}-line.")
            await asyncio.to_thread(wait_until, mark.exists, f"{point} is reached")
            await hears(town, channel, f"Written: {channel}-line.", 60)
            assert town.house.pid("runner") != victim
        assert lines(town.house) == [f"{channel}-line" for channel in CHANNELS]
        assert len(models.asked) == 2 * len(CHANNELS)
        assert models.refused == []
        for channel in CHANNELS:
            assert len([said for said in town.said(channel) if "Written:" in said]) == 1
        verified = await asyncio.to_thread(town.house.run, "journal", "verify")
        assert verified.returncode == 0, verified.stdout

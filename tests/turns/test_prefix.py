"""What one request says is the beginning of what the next one says, to the byte, until turns are folded."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agent import engines
from agent.settings import EngineSettings
from nightporter.testing.models import Asked, ModelServer, Say
from tests.turns.stage import Stage
from workspace_store import context_heads, memory

PROTOCOLS = ["openai", "anthropic"]


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


def settings(server: ModelServer, protocol: str, window: int = 16_384) -> EngineSettings:
    base = server.base_url if protocol == "openai" else server.origin
    return EngineSettings(model=f"{protocol}:local", base_url=base, api_key="key", context_window=window)


def wire(asked: Asked) -> list[str]:
    """A request as the provider reads it, in order: tools, role, messages. Marks of its cache say nothing."""
    body = asked.body
    parts = [body.get("tools"), body.get("system"), *body["messages"]]
    return [json.dumps(_unmarked(part), sort_keys=True) for part in parts]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def goes_on(before: Asked, after: Asked) -> bool:
    first, second = wire(before), wire(after)
    return second[: len(first)] == first and len(second) > len(first)


def busy(asked: Asked) -> Say:
    """A model that does a bit of everything, told by the number in the newest message."""
    at, (_, words) = max((n, said) for n, said in enumerate(asked.said) if said[0] == "user" and "turn " in said[1])
    number = int(words.partition("turn ")[2].split()[0])
    done = len([role for role, _ in asked.said[at:] if role == "result"])
    shell = ("shell", {"command": f"echo result {number} | tee -a log"})
    plans: list[list[Say]] = [
        [],
        [Say("I look.", [shell], thinking="Hm.")],
        [Say(calls=[shell, ("shell", {"command": f"seq {number * 400}"})]), Say(calls=[("tasks", {})])],
        [Say(calls=[("remember", {"text": f"fact {number}"})])],
        [Say(calls=[("nothing", {}), ("shell", {"comand": "typo"})])],
    ]
    plan = plans[number % len(plans)]
    steps = list(itertools.accumulate((len(say.calls) for say in plan), initial=0))
    return plan[steps.index(done)] if done in steps[:-1] else Say(f"Answer {number}.")


async def live(
    stage: Stage, server: ModelServer, protocol: str, turns: Iterator[int], window: int = 64_000
) -> list[tuple[Asked, int]]:
    """Live through turns; every request, and up to where the head it was made under reaches."""
    engine = engines.make(settings(server, protocol, window))
    found: list[tuple[Asked, int]] = []

    def say(asked: Asked) -> Say:
        # Now: a folding after the reply makes the head of the next turn.
        head = stage.database.read_now(lambda connection: context_heads.find(connection, stage.owner))
        found.append((asked, head.upto if head else 0))
        return busy(asked)

    server.script = say
    for number in turns:
        await stage.hear(f"turn {number} please")
        await stage.serve(engine)
        # Written beside the turns, as a person or a session's end does.
        if number == 7:
            await stage.database.write(
                lambda connection: memory.write_note(connection, stage.owner, "beside", "a note from elsewhere", None)
            )
    assert server.refused == []
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_request_is_the_beginning_of_the_next_until_a_folding(
    stage: Stage, models: ModelServer, protocol: str
) -> None:
    asked = await live(stage, models, protocol, iter(range(1, 12)))
    assert len(asked) > 20
    assert [one for one, after in itertools.pairwise(asked) if not goes_on(one[0], after[0])] == []
    last = asked[-1][0].words
    # What changes rides with the message it came before: the time, and what was noted beside the turns.
    assert last.count("[status]") == 11
    assert last.count("a note from elsewhere") == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_over_many_turns_only_foldings_begin_anew(stage: Stage, models: ModelServer, protocol: str) -> None:
    asked = await live(stage, models, protocol, iter(range(1, 60)), window=40_000)
    breaks = [(one, after) for one, after in itertools.pairwise(asked) if not goes_on(one[0], after[0])]
    assert breaks
    assert all(one[1] < after[1] for one, after in breaks)
    # Role and tools stay even then.
    assert all(wire(one[0])[:2] == wire(after[0])[:2] for one, after in breaks)


async def test_anthropic_is_told_where_its_cache_may_break(stage: Stage, models: ModelServer) -> None:
    asked = await live(stage, models, "anthropic", iter(range(1, 4)))
    await stage.database.write(lambda connection: context_heads.drop(connection, stage.owner))
    asked += await live(stage, models, "anthropic", iter([5]))
    body = asked[-1][0].body
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["messages"][-1]["content"][-1]
    # The head: notes and what was folded.
    assert "fact 3" in body["messages"][0]["content"][0]["text"]
    assert "cache_control" in body["messages"][0]["content"][0]
    assert json.dumps(body).count("cache_control") <= 4


async def test_a_turn_that_was_cut_off_goes_on_with_the_same_words(stage: Stage, models: ModelServer) -> None:
    """The status bar of a turn is recorded with its first answer: asked again, it says what it said."""
    models.say(Say(calls=[("shell", {"command": "echo one"})]), Say(hang=True))
    engine = engines.make(settings(models, "openai"))
    await stage.hear("turn 1")
    async with stage.running(engine) as runner:
        serving = asyncio.create_task(runner.serve(stage.owner))
        while len(models.asked) < 2:
            await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    models.release()
    models.script = lambda asked: Say("Done.")
    await stage.serve(engine)
    assert len(models.asked) == 3
    assert wire(models.asked[2]) == wire(models.asked[1])

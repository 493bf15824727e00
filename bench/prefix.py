"""How much of each request to a model is new: all before it was sent, to the byte, just before, so that a cache holds.

Forty turns with commands and notes, at both providers' interfaces, at a window of 16,000 tokens; foldings included.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

from bench.houses import house
from bench.table import Row, show
from nightporter.testing.models import Asked, ModelServer, Say

TURNS = 40
PROTOCOLS = ("openai", "anthropic")


def measure() -> list[Row]:
    return [
        Row(f"new of each request, {protocol}", asyncio.run(_new_shares(protocol)), 20, "%") for protocol in PROTOCOLS
    ]


async def _new_shares(protocol: str) -> list[float]:
    async with ModelServer(_work) as server:
        base = server.base_url if protocol == "openai" else server.origin
        given = {"engine__model": f"{protocol}:local", "engine__base_url": base, "engine__api_key": "key"}
        await asyncio.to_thread(_live, {**given, "engine__context_window": "16000"})
        wires = [_wire(asked) for asked in server.asked]
    return [_new(before, after) for before, after in itertools.pairwise(wires)]


def _live(settings: dict[str, str]) -> None:
    with house(**settings) as found:
        for number in range(TURNS):
            found.say(f"turn {number}: look into file{number}.txt")


def _work(asked: Asked) -> Say:
    """A command in every other turn, a note in every fifth."""
    at, (_, words) = max((n, said) for n, said in enumerate(asked.said) if said[0] == "user" and "turn " in said[1])
    number = int(words.partition("turn ")[2].partition(":")[0])
    done = len([role for role, _ in asked.said[at:] if role == "result"])
    if not done and number % 2:
        return Say(calls=[("shell", {"command": f"seq {number * 20}"})])
    if not done and number % 5 == 0:
        return Say(calls=[("remember", {"text": f"file{number}.txt matters"})])
    return Say(f"It is about {number}.")


def _wire(asked: Asked) -> bytes:
    """A request in the order a provider reads it, without the marks of its cache."""
    parts: Sequence[Any] = [asked.body.get("tools"), asked.body.get("system"), *asked.body["messages"]]
    return "\n".join(json.dumps(_unmarked(part), sort_keys=True) for part in parts).encode()


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _new(before: bytes, after: bytes) -> float:
    """Per cent of ``after`` that comes behind what both begin with."""
    same = next((n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))
    return 100 * (1 - same / len(after))


if __name__ == "__main__":
    show(measure())

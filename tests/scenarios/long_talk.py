"""A long scripted conversation with a model over HTTP: what is planted early is asked for late, in a small window."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from agent.model_engine import ModelEngine
from agent.models.names import ModelName
from agent.trajectory import CHARACTERS_PER_TOKEN
from nightporter.testing.models import Asked, ModelServer, Say
from tests.turns.stage import Stage

WINDOW = 16_384
RECALLED_EVERY = 10
PROMISE_EVERY = 97
PLANT_EVERY = 7


def identifier(number: int) -> str:
    """What turn ``number`` plants: a hash, a UUID, an address or a file name."""
    digest = sha256(str(number).encode()).hexdigest()
    return (
        digest[:40],
        str(UUID(digest[:32])),
        f"https://build.example.org/{digest[:10]}/log?job={number}",
        f"/srv/data/report_{digest[:8]}.parquet",
    )[number % 4]


def promise(number: int) -> str:
    return f"I will send report {sha256(str(-number).encode()).hexdigest()[:12]} to Ann every Monday"


@dataclass
class Talk:
    """The script of the model, what the person says, and what was seen of the requests."""

    turns: int
    recalled_every: int = RECALLED_EVERY
    later: int = 40
    """So many turns after it was planted, at least, something is asked for."""
    promises: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    """Of the largest request of each turn, its JSON included: more than a model reads."""
    seconds: list[float] = field(default_factory=list)
    wanted: str = ""
    """What must be in the context of this turn's last request."""
    job: str = ""
    named: bool = False
    """The person names it: then what was said of it is in the context. Else the model looks it up."""
    planted: list[int] = field(default_factory=list)
    """The turns that planted something."""
    promising: str = ""
    asked_for: int = 0
    recalled: int = 0
    """How often the model had to look something up."""
    _largest: int = 0
    _last_words: str = ""

    def question(self, number: int) -> str:
        """What the person says in turn ``number``."""
        self.wanted = self.promising = ""
        old = [planted for planted in self.planted if planted + self.later <= number]
        if old and number % self.recalled_every == 0:
            planted = old[number * 31 % len(old)]
            self.wanted, self.job = identifier(planted), f"job-{planted:05d}"
            self.named = bool(number // self.recalled_every % 2)
            return f"What was the artefact of {self.job}?" if self.named else "What was the artefact of the job I mean?"
        if number % PROMISE_EVERY == 5:
            self.promising = promise(number)
            return f"Please promise it, {number}."
        if number % PLANT_EVERY == 0:
            self.planted.append(number)
            return (
                f"The artefact of job-{number:05d} is {identifier(number)}, keep that in mind. " + "Mind the gap. " * 20
            )
        return f"Tell me about topic {number}. " + f"It matters for chapter {number % 50}. " * 8

    def script(self, asked: Asked) -> Say:
        """What the model says: it promises as it is told, recalls what it does not see, and talks."""
        body = json.dumps(asked.body)
        self._largest = max(self._largest, len(body))
        self._last_words = asked.words
        self.missing += [one for one in self.promises if one not in asked.words]
        results = asked.said[-1][0] == "result"
        if self.promising and not results:
            return Say(calls=[("promise", {"text": self.promising})])
        if self.wanted and not self.named and self.wanted not in asked.words and not results:
            self.recalled += 1
            return Say(calls=[("recall", {"query": self.job})])
        return Say(f"Here is what I think of it. {'That is well. ' * 30}")

    def heard(self, seconds: float, number: int) -> None:
        """A turn has ended."""
        self.tokens.append(self._largest / CHARACTERS_PER_TOKEN)
        self.seconds.append(seconds)
        if self.wanted:
            self.asked_for += 1
            if self.wanted not in self._last_words:
                self.missing.append(f"turn {number}: {self.wanted}")
        if self.promising:
            self.promises.append(self.promising)
        self._largest = 0

    def medians(self, values: Sequence[float], parts: int = 5) -> list[float]:
        """Of equal parts of the conversation, in order."""
        size = len(values) // parts
        return [statistics.median(values[part * size : (part + 1) * size]) for part in range(parts)]


async def hold(stage: Stage, talk: Talk, window: int = WINDOW) -> ModelServer:
    """Hold the whole conversation through the inbox, the runner and a model over HTTP."""
    async with ModelServer(talk.script) as server:
        engine = ModelEngine([ModelName("openai:stub", "openai", "stub", server.base_url, "key")], window)
        async with contextlib.aclosing(engine), stage.running(engine) as runner:
            await engine.prepare()
            for number in range(talk.turns):
                message = await stage.hear(talk.question(number))
                started = time.perf_counter()
                await runner.serve(stage.owner)
                talk.heard(time.perf_counter() - started, number)
                server.asked.clear()
                assert await stage.status(message) == "done", await stage.replies(message)
        return server

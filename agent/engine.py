"""The protocol of an engine: what thinks. It is given a context and yields one step at a time.

An engine never touches the database, a channel or a sandbox: a step names tool calls or a reply, and the turn journals
it before it is used, so that a resumed turn replays recorded steps instead of asking again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from agent.progress import SILENT, Progress
from agent.trajectory import Context, Said

FORM = 1
"""Version of a step's JSON in the journal; a golden file guards it."""


@dataclass(frozen=True)
class ToolCall:
    """A tool to run. ``id`` is unique in its turn. ``problem``: why it cannot be run as it was asked for."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


@dataclass(frozen=True)
class Thought:
    """Reasoning that its provider wants to see again with the calls it led to. ``signature``: the provider's seal."""

    text: str
    signature: str = ""
    id: str = ""


@dataclass(frozen=True)
class Usage:
    """What a step cost. Tokens as the provider counts them; ``micro_usd`` None where the price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    micro_usd: int | None = None


@dataclass(frozen=True)
class Step:
    """What the engine says next: tool calls to run first, or the replies that end its work on what it was given.

    ``replies`` maps the inbox message answered (hex UUID) to markdown text. A step with no calls ends the turn.
    ``text``: what is said beside calls. ``provider``: whose ``thoughts`` these are; no other can read their seals.
    """

    calls: tuple[ToolCall, ...] = ()
    replies: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    thoughts: tuple[Thought, ...] = ()
    provider: str = ""
    model: str = ""
    usage: Usage | None = None

    def to_json(self) -> dict[str, Any]:
        """What the journal keeps, in words of no provider."""
        body: dict[str, Any] = {"form": FORM, "calls": calls_to_json(self.calls), "replies": dict(self.replies)}
        spoken = {"text": self.text, "provider": self.provider, "model": self.model}
        body |= {key: value for key, value in spoken.items() if value}
        if self.thoughts:
            body["thoughts"] = [asdict(thought) for thought in self.thoughts]
        if self.usage is not None:
            body["usage"] = asdict(self.usage)
        return body

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Step:
        """A step as it was recorded, by this release or one before. Raises ValueError for a later one's."""
        if body.get("form", 0) > FORM:
            raise ValueError(f"the step was recorded by a later release (form {body['form']})")
        return Step(
            calls_from_json(body["calls"]),
            dict(body["replies"]),
            body.get("text", ""),
            tuple(Thought(**thought) for thought in body.get("thoughts", ())),
            body.get("provider", ""),
            body.get("model", ""),
            Usage(**body["usage"]) if "usage" in body else None,
        )

    def said(self) -> Said:
        """The step as the trajectory keeps it, so that its calls stay paired with their results."""
        data: dict[str, Any] = {"calls": calls_to_json(self.calls)}
        if self.thoughts:
            data |= {"thoughts": [asdict(thought) for thought in self.thoughts], "provider": self.provider}
        return Said("assistant", self.text, data=data)


def calls_to_json(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
        | ({"problem": call.problem} if call.problem else {})
        for call in calls
    ]


def calls_from_json(calls: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call["id"], call["name"], call["arguments"], call.get("problem", "")) for call in calls)


class EngineError(Exception):
    """The engine cannot go on; the text says why and what the user can do."""


class EngineUnavailable(EngineError):
    """Nothing that thinks can be reached now; ``seconds``: when it is worth asking again."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Engine(Protocol):
    """What thinks."""

    name: str
    context_window: int
    """In tokens."""
    takes_messages: bool
    """Whether messages that arrive in mid-turn may be handed to the running turn."""
    looks_back: bool
    """Whether it reads more than the turn in hand: earlier turns, memory, how things stand."""

    async def prepare(self) -> None:
        """Load what is slow to load; called once the service is ready."""
        ...

    async def step(self, context: Context, progress: Progress = SILENT) -> Step:
        """The next step; what is written of an answer meanwhile goes to ``progress``.

        Raises EngineUnavailable: ask again later; EngineError: it will not work like this.
        """
        ...

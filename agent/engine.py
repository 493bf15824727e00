"""The protocol of an engine: what thinks. It is given a context and yields one step at a time.

An engine never touches the database, a channel or a sandbox: a step names tool calls or a reply, and the turn journals
it before it is used, so that a resumed turn replays recorded steps instead of asking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.progress import SILENT, Progress
from agent.trajectory import Context


@dataclass(frozen=True)
class ToolCall:
    """A tool to run. ``id`` is unique in its turn; ``answers`` the inbox message it is for (hex UUID)."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """What the engine says next: tool calls to run first, or the replies that end its work on what it was given.

    ``replies`` maps the inbox message answered (hex UUID) to markdown text. A step with no calls ends the turn.
    """

    calls: tuple[ToolCall, ...] = ()
    replies: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        calls = [{"id": c.id, "name": c.name, "arguments": dict(c.arguments)} for c in self.calls]
        return {"calls": calls, "replies": dict(self.replies)}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Step:
        calls = tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in body["calls"])
        return Step(calls, dict(body["replies"]))


class EngineError(Exception):
    """The engine cannot go on; the text says why and what the user can do."""


class Engine(Protocol):
    """What thinks."""

    name: str
    context_window: int
    """In tokens."""
    takes_messages: bool
    """Whether messages that arrive in mid-turn may be handed to the running turn."""

    async def step(self, context: Context, progress: Progress = SILENT) -> Step:
        """The next step; what is written of an answer meanwhile goes to ``progress``. Raises EngineError."""
        ...

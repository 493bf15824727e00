"""What a tool is: something an engine may ask the turn to do, with its declared kind of repetition.

A tool returns text, data for the journal and, where it writes to the database, the writes themselves: the turn runs
them in the transaction that records ``tool.returned``, so a tool that writes is done exactly once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Connection

from agent.sandbox import CommandResult, OutputListener, Sandbox
from workspace_store.journal import Event

Repetition = Literal["pure", "idempotent", "once"]


@dataclass(frozen=True)
class Write:
    """A write to be made with the tool's result, and the event that tells of it."""

    apply: Callable[[Connection], object]
    event: Event


@dataclass(frozen=True)
class ToolResult:
    """``text`` for the engine and the reader; ``data`` for the journal; ``touched``: it may have changed the volume.

    ``data["file"]`` (``name``, ``content_type``, ``size``, ``blob``) goes out with the turn's reply.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    touched: bool = False
    output: str = ""
    """A large output, to be kept whole as a blob."""
    origin: str = ""
    """Whose words ``text`` are where nobody here vouches for them (``mcp:weather``, ``https://example.org``): a model
    reads them as data of that origin."""


@dataclass(frozen=True)
class Here:
    """Where and by whom the turn was asked for. ``user``: None where nobody said it (a schedule, a task's end)."""

    channel: str = ""
    account: str = ""
    conversation: str = ""
    thread: str = ""
    user: UUID | None = None
    in_room: bool = False


class ToolHost(Protocol):
    """What the turn lends to its tools. ``stopping`` is set when the person says /stop."""

    principal: UUID
    turn: UUID
    here: Here
    stopping: asyncio.Event
    message_allow: Sequence[str]
    """Patterns of whom may be written to without asking."""

    @property
    def sandbox(self) -> Sandbox: ...

    async def delegate(self, call_id: str, goal: str, steps: int) -> ToolResult:
        """Run a subtask of this turn; what it found."""
        ...

    async def read(self, query: Callable[[Connection], Any]) -> Any: ...

    def listener(self, call_id: str) -> OutputListener: ...


class Arguments(BaseModel):
    """What a tool is asked with. A name nobody knows is a mistake to be told, not to be dropped."""

    model_config = ConfigDict(extra="forbid")


class NoArguments(Arguments):
    pass


@dataclass(frozen=True)
class Ask:
    """A person is asked first. ``text`` completes "May I …?"; ``role``: who may answer."""

    text: str
    role: Literal["asked", "admin"] = "asked"


@dataclass(frozen=True)
class Refuse:
    """It is not done, whoever asks. ``reason`` is for whoever asked."""

    reason: str


Gate = Callable[[ToolHost, Mapping[str, Any]], Awaitable[Ask | Refuse | None]]
"""What stands before a call with these arguments; None: nothing does."""

Run = Callable[[ToolHost, str, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Tool:
    """``repetition``: ``pure`` may run again after a crash; ``idempotent`` may with the same key; ``once`` may not.

    The key is ``{turn.hex}:{call_id}``: the same whenever the same call is run again.
    """

    name: str
    description: str
    repetition: Repetition
    run: Run
    needs_sandbox: bool = False
    arguments: type[BaseModel] | Mapping[str, Any] = NoArguments
    """What it is asked with: a model, or a JSON schema that whoever runs it checks by itself."""
    gate: Gate | None = None
    kept: Callable[[CommandResult, Mapping[str, Any]], ToolResult] | None = None
    """Reads the result that the sandbox keeps of it, for a tool that is one command or request of the sandbox."""
    outside: bool = False
    """It acts outside by itself, where nobody sees it: its calls are in the effect ledger."""

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments, as a model sees it."""
        return self.arguments if isinstance(self.arguments, Mapping) else self.arguments.model_json_schema()

    @cached_property
    def characters(self) -> int:
        """How much of a request it takes to tell of it."""
        return len(self.name) + len(self.description) + len(json.dumps(dict(self.schema)))

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the journal keeps them. Raises ValueError with what is wrong with them."""
        if isinstance(self.arguments, Mapping):
            return dict(given)
        try:
            return self.arguments.model_validate(given).model_dump(mode="json", exclude_unset=True)
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors())
            raise ValueError("; ".join(faults)) from error


Tools = Mapping[str, Tool]
"""By name, in the order they are told to a model."""

NO_TOOLS: Tools = {}

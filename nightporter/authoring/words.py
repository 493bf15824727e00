"""What a team writes an agent with. Only the standard library: importing it costs nothing and starts nothing.

    from nightporter import Agent, tool

    @tool(kind="pure")
    def price(room: str, nights: int = 1) -> int:
        \"\"\"What a room costs, in euros.\"\"\"
        return nights * {"single": 80, "double": 120}[room]

    agent = Agent(role="You are the night porter of Hotel Ada.", tools=[price])

It imports nothing of the other packages, since a team's own ``agent.py`` may be found under the name of one of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, overload
from uuid import UUID

P = ParamSpec("P")
R = TypeVar("R")

Kind = Literal["pure", "idempotent", "once"]
"""What becomes of a call that was cut off: ``pure`` is run again, ``idempotent`` is run again with the same key,
``once`` is never run again, and said to have been done perhaps."""
Approval = Literal["ask", "admin"]
"""Who has to approve each call first: ``ask``: the person it is done for; ``admin``: any admin."""

TIMEOUT_SECONDS = 120.0


class ToolFunction(Generic[P, R]):
    """A function that an agent may use as a tool; called from Python, it is the function it was."""

    def __init__(
        self,
        function: Callable[P, R],
        kind: Kind,
        name: str,
        description: str,
        approval: Approval | None,
        timeout: float,
    ) -> None:
        self.function, self.kind, self.approval, self.timeout = function, kind, approval, timeout
        self.name = name or function.__name__
        self.description = description or inspect.cleandoc(function.__doc__ or "")
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.function(*arguments, **named)


@overload
def tool(function: Callable[P, R], /) -> ToolFunction[P, R]: ...


@overload
def tool(
    *,
    kind: Kind = ...,
    name: str = ...,
    description: str = ...,
    approval: Approval | None = ...,
    timeout: float = ...,
) -> Callable[[Callable[P, R]], ToolFunction[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    kind: Kind = "once",
    name: str = "",
    description: str = "",
    approval: Approval | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Any:
    """Make a tool of a typed function, sync or async: its parameters are what a model is asked for, its docstring says
    what it does.

    ``kind``: what may be done with a call that was cut off; ``once`` unless said otherwise. ``approval``: a person has
    to approve each call. ``timeout`` in seconds. A parameter annotated ``Context`` gets one; an ``idempotent`` tool's
    parameter ``key: str`` gets a text that is the same whenever the same call is run again. Models see neither.
    """
    if function is not None and not callable(function):
        raise TypeError(f'write @tool(kind="…"), not @tool({function!r})')
    if kind not in get_args(Kind):
        raise ValueError(f'kind={kind!r} is none: write "pure", "idempotent" or "once"')
    if approval is not None and approval not in get_args(Approval):
        raise ValueError(f'approval={approval!r} is none: write "ask" or "admin", or leave it out')
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout <= 86_400:
        raise ValueError(f"timeout={timeout!r} is none: write seconds, at most a day")

    def make(wrapped: Callable[..., Any]) -> ToolFunction[..., Any]:
        if isinstance(wrapped, ToolFunction):
            raise TypeError(f"{wrapped.name} is a tool already; take one @tool away")
        if not inspect.isroutine(wrapped):
            raise TypeError(f"{wrapped!r} is not a function; write @tool over a def")
        return ToolFunction(wrapped, kind, name, description, approval, timeout)

    return make if function is None else make(function)


@dataclass(frozen=True)
class Ask:
    """A policy's answer: a person is asked first. ``text`` completes "May I …?"; ``role="admin"``: an admin is."""

    text: str
    role: Literal["asked", "admin"] = "asked"


@dataclass(frozen=True)
class Refuse:
    """A policy's answer: this is not done. ``reason`` is for whoever asked."""

    reason: str


@dataclass(frozen=True)
class Call:
    """A tool that is about to be used, as a policy sees it. ``arguments`` are JSON, as they were asked for.

    ``user``: who asked; None where nobody did (a schedule). ``principal``: whose workspace it is, a user or a room.
    """

    tool: str
    arguments: Mapping[str, Any]
    user: UUID | None
    principal: UUID
    channel: str
    in_room: bool


Policy = Callable[[Call], "Ask | Refuse | None"]
"""Looks at every call of every tool before it runs, built-in ones too; None: nothing against it."""


@dataclass(frozen=True)
class Agent:
    """An agent: ``role`` says who it is and what for.

    ``policies``: texts are rules it is told, functions are rules that are kept, whatever a model says (see ``Call``).
    ``builtin_tools``: the built-in tools it has; all when None.
    """

    role: str
    tools: Sequence[Callable[..., Any]] = ()
    policies: Sequence[str | Policy] = field(default=())
    builtin_tools: Sequence[str] | None = None


@dataclass(frozen=True)
class Ran:
    """A command that ran in the sandbox; ``exit_code`` None: it did not end in time, or was interrupted."""

    exit_code: int | None
    output: str


class Context(Protocol):
    """What a tool may know and use of the call it runs for: annotate a parameter with it.

    The methods are for sync tools; each has a twin for async ones, ``await context.arun("ls")``. Paths are within
    ``/workspace`` or the home, absolute or relative to ``/workspace``; none leads out of them.
    """

    user: UUID | None
    """Who asked; None where nobody did (a schedule)."""
    principal: UUID
    """Whose workspace it is: a user, or a room."""
    in_room: bool
    channel: str
    conversation: str
    thread: str
    turn: UUID
    call_id: str
    key: str
    """The same whenever the same call is run again, and never the same for another."""

    @property
    def stopping(self) -> bool:
        """Whether the person has said /stop: a long tool should end."""
        ...

    def run(self, command: str, *, timeout: float | None = None) -> Ran:
        """Run a command in the person's sandbox, in a terminal of the tools."""
        ...

    def read_file(self, path: str) -> bytes:
        """The bytes of a file of the workspace. Raises OSError with the reason."""
        ...

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file of the workspace; its folder is made. Raises OSError with the reason."""
        ...

    async def arun(self, command: str, *, timeout: float | None = None) -> Ran: ...

    async def aread_file(self, path: str) -> bytes: ...

    async def awrite_file(self, path: str, data: bytes | str) -> None: ...

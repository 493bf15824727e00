"""A team's function as a tool: what a model sees of it, what it is given, and what its result or its end comes to."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field

from agent.sandbox import CommandResult, FrozenFile, OutputListener, SandboxError
from agent.tool import Here, Tool, ToolResult
from nightporter import Context, tool
from nightporter.authoring import functions
from nightporter.authoring.calling import Workshop
from nightporter.authoring.words import ToolFunction


@dataclass
class Shells:
    """A sandbox that keeps what it was asked; its terminals do nothing."""

    commands: list[tuple[str, str]] = field(default_factory=list)
    exit_code: int = 0

    async def run(self, call_id: str, command: str, **more: Any) -> CommandResult:
        self.commands.append((call_id, command))
        return CommandResult(call_id, "exited", self.exit_code, "out", 0, 1, more["terminal"], "/", state_digest="d1")

    async def freeze_file(self, path: str) -> FrozenFile:
        if path == "missing":
            raise SandboxError("there is no missing")
        return FrozenFile(path, 3, f"blob of {path}")


@dataclass
class Host:
    sandbox: Any = field(default_factory=Shells)
    principal: UUID = field(default_factory=uuid4)
    turn: UUID = field(default_factory=uuid4)
    here: Here = field(default_factory=lambda: Here("slack", "T1", "C1", "", UUID(int=7)))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, query: Any) -> Any:
        raise AssertionError("no tool of a team reads the database")

    def listener(self, call_id: str) -> OutputListener:
        raise AssertionError("nothing is told")


async def read_blob(owner: UUID, blob: str) -> bytes:
    return blob.encode()


def made(function: Any) -> Tool:
    given = function if isinstance(function, ToolFunction) else tool(function)
    return functions.make(given, Workshop(), read_blob)


async def used(function: Any, host: Host | None = None, **arguments: Any) -> ToolResult:
    its = made(function)
    return await its.run(host or Host(), "call-1", its.read(arguments))


class Room(BaseModel):
    number: int
    floor: int = 1


class Bed(enum.Enum):
    ONE = "single"
    TWO = "double"


async def test_types_are_the_schema_and_values_come_as_their_types() -> None:
    seen: dict[str, Any] = {}

    @tool(kind="pure")
    def book(
        room: Room, day: date, schema: Annotated[str, Field(description="A word of ours.")], bed: Bed = Bed.TWO,
        guests: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Book a room.

        For one night.
        """
        seen.update(room=room, day=day, schema=schema, bed=bed, guests=guests)

    its = made(book)
    assert its.description == "Book a room.\n\nFor one night."
    assert its.schema["required"] == ["room", "day", "schema"]
    assert its.schema["properties"]["schema"]["description"] == "A word of ours."
    assert its.schema["additionalProperties"] is False
    arguments = its.read({"room": {"number": 7}, "day": "2026-12-24", "schema": "x"})
    assert arguments == {"room": {"number": 7}, "day": "2026-12-24", "schema": "x"}, "as JSON keeps them"
    assert (await its.run(Host(), "call-1", arguments)).text == "Done."
    assert seen == {"room": Room(number=7), "day": date(2026, 12, 24), "schema": "x", "bed": Bed.TWO, "guests": None}
    with pytest.raises(ValueError, match="nights: Extra inputs are not permitted"):
        its.read({**arguments, "nights": 2})


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("plain words", "plain words"), (None, "Done."), (7, "7"), (True, "true"), ({"a": [1, "b"]}, '{"a":[1,"b"]}'),
        (Room(number=3), '{"number":3,"floor":1}'), (date(2026, 1, 2), '"2026-01-02"'), ([Bed.ONE], '["single"]'),
    ],
)  # fmt: skip
async def test_what_it_returns_is_told_as_text_or_json(returned: Any, text: str) -> None:
    def give() -> Any:
        """Give."""
        return returned

    assert (await used(give)).text == text


async def test_what_cannot_be_told_is_said_to_have_run() -> None:
    def give() -> Any:
        """Give."""
        return threading.Lock()

    found = await used(give)
    assert "`give` ran, but what it returned cannot be told" in found.text
    assert found.data["status"] == "failed"


async def test_sync_and_async_run_beside_the_loop_and_beside_each_other() -> None:
    here = threading.get_ident()

    def sync() -> bool:
        """Sync."""
        time.sleep(0.3)
        return threading.get_ident() == here

    async def not_sync() -> bool:
        """Async, and as blocking as can be."""
        time.sleep(0.3)
        return threading.get_ident() == here

    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    found = await asyncio.gather(used(sync), used(not_sync))
    beating.cancel()
    assert [one.text for one in found] == ["false", "false"]
    assert beats > 10, "the loop went on"


@pytest.mark.parametrize("error", [ValueError("no such room"), SystemExit(3), asyncio.CancelledError("gone")])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_it_raises_is_a_result(error: BaseException, is_async: bool) -> None:
    def sync() -> None:
        """Fail."""
        raise error

    async def not_sync() -> None:
        """Fail."""
        raise error

    found = await used(not_sync if is_async else sync)
    assert f"failed: {type(error).__name__}: {error}" in found.text
    assert found.data["status"] == "failed"


@pytest.mark.parametrize(("kind", "doubt"), [("pure", False), ("idempotent", True), ("once", True)])
@pytest.mark.parametrize("is_async", [False, True])
async def test_too_long_is_given_up_and_in_doubt_unless_it_is_pure(kind: Any, doubt: bool, is_async: bool) -> None:
    let_go = threading.Event()

    @tool(kind=kind, timeout=0.1)
    def sync() -> None:
        """Wait."""
        let_go.wait(20)

    cancelled = threading.Event()

    @tool(kind=kind, timeout=0.1)
    async def not_sync() -> None:
        """Wait."""
        try:
            await asyncio.sleep(20)
        finally:
            cancelled.set()

    found = await used(not_sync if is_async else sync)
    let_go.set()
    assert "took longer than 0.1 s and was given up" in found.text
    assert ("may have been done" in found.text) is doubt
    assert found.data["status"] == "interrupted"
    assert not is_async or await asyncio.to_thread(cancelled.wait, 5)


async def test_stop_ends_the_wait_at_once() -> None:
    host, let_go = Host(), threading.Event()

    def wait(context: Context) -> None:
        """Wait."""
        while not context.stopping:
            let_go.wait(0.01)
        let_go.set()

    running = asyncio.create_task(used(wait, host))
    await asyncio.sleep(0.05)
    host.stopping.set()
    found = await asyncio.wait_for(running, 2)
    assert "`wait` was stopped" in found.text
    assert await asyncio.to_thread(let_go.wait, 5), "and it may know"


async def test_context_and_key_are_given_and_never_asked_for() -> None:
    host = Host()

    @tool(kind="idempotent")
    def pay(amount: int, key: str, context: Context | None = None) -> dict[str, Any]:
        """Pay."""
        assert context is not None
        assert context.key == key
        return {"key": key, "user": context.user, "channel": context.channel, "call": context.call_id}

    assert list(made(pay).schema["properties"]) == ["amount"]
    first, again = await used(pay, host, amount=3), await used(pay, host, amount=3)
    assert first.text == again.text
    assert f'"key":"{host.turn.hex}:call-1"' in first.text
    assert str(UUID(int=7)) in first.text
    assert '"slack"' in first.text
    other = await made(pay).run(host, "call-2", {"amount": 3})
    assert "call-2" in other.text


async def test_only_an_idempotent_tools_key_is_the_runtimes() -> None:
    def look_up(key: str) -> str:
        """Look up."""
        return key

    assert (await used(look_up, key="front door")).text == "front door"


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_workspace_is_reached_through_the_sandbox(is_async: bool) -> None:
    host = Host()

    def sync(context: Context) -> str:
        """Work."""
        context.write_file("notes/a b.txt", "hello")
        with pytest.raises(OSError, match="there is no missing"):
            context.read_file("missing")
        return f"{context.run('ls').output} {context.read_file('x').decode()}"

    async def not_sync(context: Context) -> str:
        """Work."""
        await context.awrite_file("notes/a b.txt", b"hello")
        with pytest.raises(OSError, match="there is no missing"):
            await context.aread_file("missing")
        return f"{(await context.arun('ls')).output} {(await context.aread_file('x')).decode()}"

    found = await used(not_sync if is_async else sync, host)
    assert found.text == "out blob of x"
    assert (found.touched, found.data["state_digest"]) == (True, "d1")
    assert len({named for named, _ in host.sandbox.commands}) == len(host.sandbox.commands), "each has its own id"
    assert host.sandbox.commands[0][1].startswith("mkdir -p -- /workspace/notes")


async def test_a_context_ends_with_its_call() -> None:
    kept: list[Context] = []

    def keep(context: Context) -> None:
        """Keep."""
        kept.append(context)

    await used(keep)
    with pytest.raises(RuntimeError, match="is over"):
        await asyncio.to_thread(kept[0].run, "ls")


def test_a_tool_is_still_a_function() -> None:
    @tool
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    assert double(4) == 8
    assert double.__doc__ == "Double."


async def test_approval_asks_with_the_arguments() -> None:
    @tool(approval="admin")
    def wire(amount: int, to: str) -> None:
        """Wire."""

    gate = made(wire).gate
    assert gate is not None
    arguments: Mapping[str, Any] = {"amount": 3, "to": "Ann"}
    asked = await gate(Host(), arguments)
    assert asked is not None
    assert (asked.text, asked.role) == ('use `wire` with amount 3, to "Ann"', "admin")  # type: ignore[union-attr]

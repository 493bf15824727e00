"""The runner's side of the sandbox manager: one connection, many principals' sandboxes.

The manager may die and be started again at any moment: what can be asked again is asked again on a new connection;
a command that was running is lost with its sandbox (SandboxLost).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from agent.sandbox import (
    BackgroundTask,
    CommandResult,
    FrozenFile,
    OutputListener,
    PlacedFile,
    Policy,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
    WakeReport,
)
from sandbox_runner.published import Snapshot

FRAME_LIMIT = 8 << 20
"""All principals share a connection: a frame that does not fit must never be written."""
RECONNECT_SECONDS = 10.0
RECONNECT_PAUSE = 0.05


class VolumeRefused(SandboxUnavailable):
    """The volume that is there is not the one that the database speaks of: nothing of it is touched."""


ERRORS: Mapping[str, type[SandboxError]] = {
    "lost": SandboxLost,
    "inconsistent": VolumeRefused,
    "unavailable": SandboxUnavailable,
    "refused": SandboxError,
}


@dataclass(frozen=True)
class Look:
    """What is there without waking: the live directory's id and the digest of the process state in it."""

    live_id: str | None
    state_digest: str | None
    directory: str = ""
    """Where the main terminal is."""
    tasks: tuple[str, ...] = ()
    """Commands of the background tasks that were running when it was published."""
    skills: tuple[tuple[str, str], ...] = ()
    """(name, description) of what ``use_skill`` reads."""


def socket_path(home: Path, host: str) -> Path:
    return home / "run" / f"sandbox-manager-{host}.sock"


@contextlib.contextmanager
def short_path(path: Path) -> Any:
    """A name of at most 107 bytes for a unix socket in a directory of any depth (sun_path holds 108)."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def encode(frame: Mapping[str, Any]) -> bytes | None:
    """A frame as a line; None where it is longer than its reader would take."""
    line = json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return line if len(line) < FRAME_LIMIT else None


class _ConnectionLost(Exception):
    pass


class ManagerAway(SandboxUnavailable):
    """The sandbox manager cannot be reached now; what was asked can be asked again."""


class _Connection:
    """One connection to the manager with its requests under way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[int, OutputListener] = {}
        self.closed = False
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, op: str, on_output: OutputListener | None, arguments: Mapping[str, Any]) -> Any:
        if self.closed:
            raise _ConnectionLost
        number = next(self._numbers)
        frame = encode({"id": number, "op": op, **arguments})
        if frame is None:
            raise SandboxError("the command is too long; put it into a file")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if on_output:
            self._listeners[number] = on_output
        try:
            self._writer.write(frame)
            await self._writer.drain()
            return await future
        except ConnectionError as error:
            raise _ConnectionLost from error
        finally:
            self._waiting.pop(number, None)
            self._listeners.pop(number, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._handle(json.loads(line))
        except (ConnectionError, ValueError):
            pass  # Told to every request that waits, below.
        finally:
            self.closed = True
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_ConnectionLost())

    def _handle(self, frame: dict[str, Any]) -> None:
        number = int(frame["id"])
        if "output" in frame:
            if listener := self._listeners.get(number):
                listener(frame["output"])
            return
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if "error" in frame:
            future.set_exception(ERRORS[frame["error"]](frame["message"]))
        else:
            future.set_result(frame["result"])

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


class Sandboxes:
    """Sandboxes of this host, by way of its manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def lend(self, principal: UUID) -> AsyncIterator[LentSandbox]:
        """A principal's sandbox for one turn; it does not count as idle until the turn gives it back."""
        lent = LentSandbox(self, principal)
        try:
            yield lent
        finally:
            if lent.used:
                await asyncio.shield(self._give_back(principal))

    async def _give_back(self, principal: UUID) -> None:
        # A manager that is gone has nothing to be given back.
        with contextlib.suppress(SandboxError):
            await self.ask("give_back", principal)

    async def ask(
        self, op: str, principal: UUID | None = None, *, again: bool = True, on_output: OutputListener | None = None,
        **arguments: Any,
    ) -> Any:  # fmt: skip
        """Ask the manager. ``again``: ask on a new connection if this one is lost, else SandboxLost."""
        if principal is not None:
            arguments["principal"] = principal.hex
        deadline = asyncio.get_running_loop().time() + RECONNECT_SECONDS
        while True:
            try:
                return await (await self._connected()).ask(op, on_output, arguments)
            except _ConnectionLost as error:
                if not again:
                    raise SandboxLost("the sandbox manager ended while this ran, and the sandbox with it") from error
                if asyncio.get_running_loop().time() > deadline:
                    raise ManagerAway("the sandbox manager ends whenever it is asked; try again") from error
            # Whoever is being killed still takes connections, for a moment, and answers none.
            await asyncio.sleep(RECONNECT_PAUSE)

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> _Connection:
        deadline = asyncio.get_running_loop().time() + RECONNECT_SECONDS
        while True:
            try:
                with short_path(self._path) as name:
                    reader, writer = await asyncio.open_unix_connection(name, limit=FRAME_LIMIT)
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ManagerAway("the sandbox manager of this host is not running") from error
                await asyncio.sleep(RECONNECT_PAUSE)
            else:
                return _Connection(reader, writer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class LentSandbox:
    """One principal's sandbox in the hands of one turn: the ``Sandbox`` protocol and what the turn needs besides."""

    def __init__(self, sandboxes: Sandboxes, principal: UUID) -> None:
        self._sandboxes = sandboxes
        self._principal = principal
        self.used = False

    async def _ask(self, op: str, **arguments: Any) -> Any:
        self.used = True
        return await self._sandboxes.ask(op, self._principal, **arguments)

    async def wake(self) -> tuple[WakeReport, str]:
        """Wake it; how it came up, and the live directory's id."""
        found = await self._ask("wake")
        screens = {name: tuple(lines) for name, lines in found["screens"].items()}
        report = WakeReport(found["sandbox_id"], found["fresh"], found["state_digest"], tuple(found["notes"]), screens)
        return report, found["live_id"]

    async def run(
        self,
        call_id: str,
        command: str,
        *,
        terminal: str,
        timeout: float | None,
        background: bool,
        policy: Policy = "restart",
        on_output: Callable[[str], None] | None,
    ) -> CommandResult:
        found = await self._ask(
            "run", again=False, on_output=on_output, call_id=call_id, command=command, terminal=terminal,
            timeout=timeout, background=background, policy=policy,
        )  # fmt: skip
        return command_result(found)

    async def assist(self, call_id: str, helper: str, request: str, timeout: float) -> CommandResult:
        found = await self._ask("assist", again=False, call_id=call_id, helper=helper, request=request, timeout=timeout)
        return command_result(found)

    async def result(self, call_id: str) -> CommandResult | None:
        found = await self._ask("result", again=False, call_id=call_id)
        return None if found is None else command_result(found)

    async def interrupt(self, terminal: str | None) -> None:
        await self._ask("interrupt", terminal=terminal)

    async def tasks(self) -> list[BackgroundTask]:
        return [background_task(item) for item in await self._ask("tasks")]

    async def task_output(self, task: int, tail_bytes: int) -> str:
        return str(await self._ask("task_output", task=task, tail_bytes=tail_bytes))

    async def stop_task(self, task: int) -> BackgroundTask:
        return background_task(await self._ask("stop_task", task=task))

    async def start_task(self, task: int, policy: Policy | None) -> BackgroundTask:
        return background_task(await self._ask("start_task", again=False, task=task, policy=policy))

    async def capture(self) -> str | None:
        found: str | None = await self._ask("capture")
        return found

    async def look(self) -> Look:
        found = await self._ask("look")
        skills = tuple((str(name), str(description)) for name, description in found["skills"])
        return Look(**{**found, "tasks": tuple(found["tasks"]), "skills": skills})

    async def changed_files(self) -> tuple[list[str], int]:
        """The first few files that differ from the last checkpoint, and how many there are."""
        found = await self._ask("changed_files")
        return [str(path) for path in found["first"]], int(found["count"])

    async def check(self, turn: UUID, command: str, seconds: float) -> CommandResult:
        """A command's result in a fresh sandbox, on a copy of the files."""
        return command_result(await self._ask("check", turn=turn.hex, command=command, seconds=seconds))

    async def stop_check(self) -> None:
        await self._ask("stop_check")

    async def place_files(self, files: Sequence[Mapping[str, str]]) -> tuple[str, list[PlacedFile]]:
        """Put blobs (``name``, ``blob``) into the workspace's inbox; the live directory's id, what became of each."""
        found = await self._ask("place_files", files=[dict(file) for file in files])
        return str(found["live_id"]), [PlacedFile(**file) for file in found["files"]]

    async def skill(self, name: str) -> str:
        return str(await self._ask("skill", name=name))

    async def freeze_file(self, path: str, most: int) -> FrozenFile:
        return FrozenFile(**await self._ask("freeze_file", path=path, most=most))

    async def snapshot(self, turn: UUID, note: str) -> Snapshot:
        return Snapshot.from_json(await self._ask("snapshot", turn=turn.hex, note=note))

    async def running_tasks(self) -> list[BackgroundTask]:
        return [background_task(item) for item in await self._ask("running_tasks")]

    async def rest(self, turn: UUID, note: str) -> Snapshot:
        """End the sandbox and publish what is there."""
        return Snapshot.from_json(await self._ask("rest", turn=turn.hex, note=note))

    async def rewind(
        self, turn: UUID, *, to: int, number: int, path: str | None, root: str | None, note: str
    ) -> Snapshot:
        """Make the volume (or ``path`` in it) equal to generation ``to``, or the tree ``root``, as ``number``."""
        return Snapshot.from_json(
            await self._ask("rewind", turn=turn.hex, to=to, number=number, path=path, root=root, note=note)
        )

    async def differences(self, before: int, after: int) -> str:
        return str(await self._ask("differences", before=before, after=after))


def command_result(found: Mapping[str, Any]) -> CommandResult:
    return CommandResult(**{**found, "notes": tuple(found["notes"])})


def background_task(found: Mapping[str, Any]) -> BackgroundTask:
    return BackgroundTask(**{**found, "argv": tuple(found["argv"])})

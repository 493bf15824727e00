"""What a turn lends to its tools: the sandbox, woken by the first call that needs it, and memory to read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from agent.sandbox import (
    ASSIST_SECONDS,
    BackgroundTask,
    CommandResult,
    FrozenFile,
    OutputListener,
    PlacedFile,
    Policy,
    Sandbox,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
    WakeReport,
)
from agent.tool import Here, ToolResult
from sandbox_runner import texts
from sandbox_runner.egress import texts as egress_texts
from sandbox_runner.published import Snapshot
from sandbox_runner.sandboxes import LentSandbox, Look
from workspace_store import effects
from workspace_store.database import Database
from workspace_store.effects import Effect
from workspace_store.file_limits import FileLimits
from workspace_store.journal import Event

if TYPE_CHECKING:
    from sandbox_runner.subtasks import Subtasks

T = TypeVar("T")


class TurnSandbox:
    """A tool host: wakes the sandbox once, and keeps what its waking has to tell until the turn has told it."""

    def __init__(
        self,
        principal: UUID,
        turn: UUID,
        lent: LentSandbox,
        database: Database,
        publish: Callable[[UUID, dict[str, Any]], None],
        limits: FileLimits,
        here: Here,
        stopping: asyncio.Event,
        message_allow: Sequence[str] = (),
    ) -> None:
        self.subtasks: Subtasks | None = None
        """Runs subtasks of the turn, once the turn lends itself."""
        self.here = here
        self.message_allow = message_allow
        self.stopping = stopping
        self.principal = principal
        self.turn = turn
        self._lent = lent
        self._database = database
        self._publish = publish
        self._limits = limits
        self.sending: list[Mapping[str, Any]] = []
        """Files that go out with the turn's reply."""
        self._report: WakeReport | None = None
        self._events: list[Event] = []
        self._notes: tuple[str, ...] = ()
        self.live_id: str | None = None

    async def delegate(self, call_id: str, goal: str, steps: int) -> ToolResult:
        if self.subtasks is None:
            raise SandboxError(texts.NO_SUBTASKS)
        return await self.subtasks.run(call_id, goal, steps)

    @property
    def sandbox(self) -> Sandbox:
        return self

    @property
    def id(self) -> str | None:
        """The sandbox that is awake for this turn; None: none yet."""
        return self._report.sandbox_id if self._report else None

    @property
    def briefing(self) -> list[str]:
        return [*self._report.notes, *texts.screens(self._report.screens)] if self._report else []

    def unsaid_events(self) -> list[Event]:
        """Events to journal with the next ones of the turn; told once."""
        events, self._events = self._events, []
        return events

    def unsaid_notes(self) -> tuple[str, ...]:
        """What could not be restored, for the person; told once."""
        notes, self._notes = self._notes, ()
        return notes

    def take_to_send(self, returned: Mapping[str, Any]) -> None:
        """Note what a tool's recorded result sends: it goes out with the turn's reply."""
        if isinstance(file := returned.get("file"), Mapping):
            self.sending.append(file)

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await self._database.read(query)

    def listener(self, call_id: str) -> OutputListener:
        return lambda text: self._publish(self.principal, {"turn": self.turn.hex, "call": call_id, "output": text})

    # The sandbox's own words

    async def wake(self) -> WakeReport:
        if self._report is None:
            try:
                self._report, self.live_id = await self._lent.wake()
            except SandboxLost as error:
                # Nothing has run yet: no command is uncertain because of it.
                raise SandboxUnavailable(str(error)) from error
            if self._report.fresh:
                self._notes = self._report.notes
                body = {
                    "sandbox": self._report.sandbox_id,
                    "state_digest": self._report.state_digest,
                    "notes": list(self._report.notes),
                }
                self._events.append(Event("sandbox.woken", body))
        return self._report

    async def _awake(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the sandbox that is awake; one that was lost is told of by the next call, which wakes a new one."""
        await self.wake()
        try:
            return await ask()
        except SandboxLost:
            self._report = None
            raise

    async def run(
        self,
        call_id: str,
        command: str,
        *,
        terminal: str = "main",
        timeout: float | None = None,
        background: bool = False,
        policy: Policy = "restart",
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        return await self._awake(
            lambda: self._lent.run(
                call_id,
                command,
                terminal=terminal,
                timeout=timeout,
                background=background,
                policy=policy,
                on_output=on_output,
            )
        )

    async def assist(
        self, call_id: str, helper: str, request: Mapping[str, Any], *, timeout: float = ASSIST_SECONDS
    ) -> CommandResult:
        asked = json.dumps(dict(request))
        return await self._awake(lambda: self._lent.assist(call_id, helper, asked, timeout))

    async def result(self, call_id: str) -> CommandResult | None:
        return await self._awake(lambda: self._lent.result(call_id))

    async def interrupt(self, terminal: str | None = None) -> None:
        if self._report is not None:
            await self._lent.interrupt(terminal)

    async def tasks(self) -> list[BackgroundTask]:
        return await self._awake(self._lent.tasks)

    async def task_output(self, task: int, tail_bytes: int = 8192) -> str:
        return await self._awake(lambda: self._lent.task_output(task, tail_bytes))

    async def stop_task(self, task: int) -> BackgroundTask:
        return await self._awake(lambda: self._lent.stop_task(task))

    async def start_task(self, task: int, policy: Policy | None = None) -> BackgroundTask:
        return await self._awake(lambda: self._lent.start_task(task, policy))

    async def capture(self) -> str | None:
        return await self._awake(self._lent.capture)

    async def skill(self, name: str) -> str:
        return await self._lent.skill(name)

    async def freeze_file(self, path: str) -> FrozenFile:
        """Within what one reply may carry; does not wake anything."""
        if len(self.sending) >= self._limits.max_count:
            raise SandboxError(texts.too_many_to_send(self._limits.max_count))
        frozen = await self._lent.freeze_file(path, self._limits.max_bytes)
        if frozen.size + sum(int(file["size"]) for file in self.sending) > self._limits.max_message_bytes:
            raise SandboxError(texts.too_much_to_send(path, self._limits.max_message_bytes))
        return frozen

    # What the turn itself needs

    async def look(self) -> Look:
        """The live directory's id and the digest of the process state in it, without waking anything."""
        return await self._lent.look()

    async def snapshot(self, turn: UUID, note: str) -> Snapshot:
        return await self._lent.snapshot(turn, note)

    async def check(self, command: str, seconds: float) -> CommandResult:
        """A command's result in a fresh sandbox, on a copy of the files as they are now; the live one is not touched.

        Cut off, the check is ended.
        """
        try:
            return await self._lent.check(self.turn, command, seconds)
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxError):
                await self._lent.stop_check()
            raise

    async def place_files(self, files: Sequence[Mapping[str, str]]) -> tuple[str, list[PlacedFile]]:
        """Put blobs into the workspace's inbox, without waking anything."""
        return await self._lent.place_files(files)

    async def what_changed(self) -> str:
        """What is known of a tool that was cut off: files changed since the last checkpoint, and what went out."""
        outside = egress_texts.so_far(await self._database.read(partial(effects.of_turn, turn=self.turn)))
        try:
            files = texts.files_changed(*await self._lent.changed_files())
        except SandboxError as error:
            files = f"What changed could not be read ({error})."
        return f"{files} {outside}".strip()

    async def untold_effects(self) -> list[Effect]:
        """What egress refused, and requests whose end nobody saw, that no result has told of yet."""
        return await self._database.read(partial(effects.untold, owner=self.principal))

"""The host's end of a guest agent's control socket, and the command line that starts one.

What the guest says is untrusted: every frame is size-capped and checked before it becomes a word of
``agent.sandbox``; one that is wrong ends the connection with a named error, never with memory or patience spent.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agent.sandbox import BackgroundTask, CommandResult, OutputListener, Policy, SandboxError, SandboxLost
from sandbox_runner.egress.screening import Screen
from sandbox_runner.guest_frames import (
    EVENT,
    MAX_FRAME,
    RESULT,
    Answer,
    Captured,
    CrontabEvent,
    GuestHello,
    Held,
    Interrupted,
    MaybeTask,
    OneTask,
    Output,
    OutputEvent,
    Restored,
    Result,
    Said,
    ScreenEvent,
    TaskEndedEvent,
    TaskRecord,
    Tasks,
    Unknown,
)

GUEST_FOLDER = Path(__file__).parent / "guest"
PROTOCOL = 1
ANSWER_SECONDS = 30.0
"""Time for every answer but that of a command."""


Model = TypeVar("Model", bound=Said)


class GuestProtocolError(SandboxLost):
    """The guest broke the protocol; its connection was closed and its sandbox must be dismantled."""


class GuestRefused(SandboxError):
    """The guest would not do it; ``code`` says why in a word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def guest_arguments(
    python: str,
    fd: int,
    *,
    folder: str = str(GUEST_FOLDER),
    workspace: str | None = None,
    processes: int | None = None,
) -> list[str]:
    """argv of the guest. ``python`` (≥ 3.9), ``folder`` (the guest's own) and ``workspace`` are paths where it runs."""
    arguments = [python, "-I", "-S", "-B", f"{folder}/__main__.py", "--fd", str(fd)]
    if workspace is not None:
        arguments += ["--workspace", workspace]
    if processes is not None:
        arguments += ["--processes", str(processes)]
    return arguments


def task_of(said: TaskRecord) -> BackgroundTask:
    """In the words of ``agent.sandbox``."""
    return BackgroundTask(**said.model_dump())


def _command_result(said: Result) -> CommandResult:
    return CommandResult(**said.model_dump())


class GuestConnection:
    """One guest. All methods may be called at once; all raise SandboxLost when the connection ends under them.

    ``on_task_ended``, ``on_state`` (the digest of a state file written outside a command) and ``on_crontab`` (its text,
    when it changed) are called in the event loop and must not block.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_task_ended: Callable[[BackgroundTask], None] | None = None,
        on_state: Callable[[str | None], None] | None = None,
        on_crontab: Callable[[str], None] | None = None,
        screen: Screen | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_task_ended = on_task_ended
        self._on_state = on_state
        self._on_crontab = on_crontab
        self._screen = screen
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, OutputListener] = {}
        self._last_id = 0
        self._lost: SandboxLost | None = None
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def over(
        cls,
        sock: socket.socket,
        *,
        on_task_ended: Callable[[BackgroundTask], None] | None = None,
        on_state: Callable[[str | None], None] | None = None,
        on_crontab: Callable[[str], None] | None = None,
        screen: Screen | None = None,
    ) -> GuestConnection:
        """Over a connected unix socket, which it owns from then on."""
        reader, writer = await asyncio.open_unix_connection(sock=sock, limit=MAX_FRAME)
        return cls(reader, writer, on_task_ended=on_task_ended, on_state=on_state, on_crontab=on_crontab, screen=screen)

    @property
    def lost(self) -> SandboxLost | None:
        """Why the connection ended; None while it lives."""
        return self._lost

    async def hello(self) -> GuestHello:
        """Raises GuestProtocolError for a guest of another protocol version."""
        hello = self._checked(GuestHello, await self._ask("hello"))
        if hello.protocol != PROTOCOL:
            raise self._fail(f"the guest speaks protocol {hello.protocol}, this host {PROTOCOL}")
        return hello

    async def restore(
        self,
        state: bytes | None = None,
        seal: Mapping[str, object] | None = None,
        base: Mapping[str, object] | None = None,
    ) -> Restored:
        """Bring terminals and tasks back from a ``state`` that is to be believed. Once, before any command.

        ``seal``: what this sandbox sets its own seals with (``life``, ``key``, and the ``number`` they come after).
        ``base``: what its read-only system is (``base_system``).
        """
        text = None if state is None else state.decode("utf-8", "replace")
        return self._checked(
            Restored, await self._ask("restore", state=text, seal=seal, base=base, screens=self._screen is not None)
        )

    async def run(
        self,
        call_id: str,
        command: str,
        *,
        terminal: str = "main",
        timeout: float,
        background: bool = False,
        policy: Policy = "restart",
        output_bytes: int = 1 << 20,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """See ``agent.sandbox.Sandbox.run``; ``timeout`` in seconds, counted from when the terminal is free."""
        if on_output is not None:
            self._listeners[call_id] = on_output
        try:
            answer = await self._ask(
                "run",
                within=None,
                call_id=call_id,
                command=command,
                terminal=terminal,
                timeout_s=timeout,
                background=background,
                policy=policy,
                output_bytes=output_bytes,
            )
        finally:
            self._listeners.pop(call_id, None)
        result = self._checked(Result, answer)
        if result.call_id != call_id:
            raise self._fail("the guest answered with the result of another call")
        return _command_result(result)

    async def assist(self, call_id: str, helper: str, request: str, *, timeout: float) -> CommandResult:
        """See ``agent.sandbox.Sandbox.assist``; ``request`` is JSON, ``timeout`` in seconds."""
        answer = await self._ask(
            "assist",
            within=timeout + ANSWER_SECONDS,
            call_id=call_id,
            helper=helper,
            request=request,
            timeout_s=timeout,
        )
        return _command_result(self._checked(Result, answer))

    async def result(self, call_id: str) -> CommandResult | None:
        """Wait for a command's result; None: this guest does not know it."""
        try:
            said = RESULT.validate_python(await self._ask("result", within=None, call_id=call_id))
        except ValidationError as error:
            raise self._fail(_brief(error)) from None
        return None if isinstance(said, Unknown) else _command_result(said)

    async def interrupt(self, terminal: str | None = None) -> bool:
        """SIGINT to what runs in the foreground (None: of any terminal), SIGKILL a second later; False: nothing ran."""
        return self._checked(Interrupted, await self._ask("interrupt", terminal=terminal)).interrupted

    async def tasks(self) -> list[BackgroundTask]:
        return [task_of(said) for said in self._checked(Tasks, await self._ask("tasks")).tasks]

    async def task_output(self, task: int, tail_bytes: int = 8192) -> str:
        return self._checked(Output, await self._ask("task_output", task=task, tail_bytes=tail_bytes)).output

    async def stop_task(self, task: int, *, grace: float = 5.0) -> BackgroundTask:
        """SIGTERM, SIGKILL after ``grace`` seconds; returns once it has ended."""
        answer = await self._ask("task_stop", within=grace + ANSWER_SECONDS, task=task, grace_s=grace)
        return task_of(self._checked(OneTask, answer).task)

    async def start_task(self, task: int, policy: Policy | None = None) -> BackgroundTask:
        """Start one that is over again; ``policy``: from now on. Raises GuestRefused with why not."""
        return task_of(self._checked(OneTask, await self._ask("task_start", task=task, policy=policy or None)).task)

    async def told(self, task: int, starts: int) -> None:
        """The end of that start of a task was recorded: it need not be kept any longer."""
        await self._ask("told", task=task, starts=starts)

    async def run_timer(self, command: str, environment: Mapping[str, str], note: str) -> BackgroundTask | None:
        """Run a line of the crontab, with a note for the person; None: the run before still goes on."""
        answer = await self._ask("run_timer", command=command, environment=dict(environment), note=note or None)
        said = self._checked(MaybeTask, answer).task
        return task_of(said) if said is not None else None

    async def note(self, texts: Sequence[str]) -> None:
        """Tell these with the next result."""
        await self._ask("note", notes=list(texts))

    async def hold(self, note: str) -> int:
        """Pause what runs; commands under way become tasks, told with ``note``. How many processes are paused."""
        return self._checked(Held, await self._ask("hold", note=note)).processes

    async def release(self) -> int:
        """Let what was paused go on."""
        return self._checked(Held, await self._ask("release")).processes

    async def live(self, seconds: float) -> None:
        """Let the sandbox live so long from now, and end by itself then. Waits for the answer as long as it takes."""
        await self._ask("live", within=None, seconds=seconds)

    async def capture(self) -> Captured:
        """Publish process state now."""
        return self._checked(Captured, await self._ask("capture"))

    async def shutdown(self, *, grace: float = 2.0) -> Captured:
        """End tasks gently, publish a last time, end everything. The connection is closed after."""
        answer = await self._ask("shutdown", within=grace + ANSWER_SECONDS, grace_s=grace)
        captured = self._checked(Captured, answer)
        await self.close()
        return captured

    async def close(self) -> None:
        """Hang up; the guest then ends, and all in its sandbox with it."""
        if self._lost is None:
            self._end(SandboxLost("the connection to the sandbox was closed"))
        self._reading.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._reading
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _ask(self, operation: str, *, within: float | None = ANSWER_SECONDS, **fields: object) -> dict[str, Any]:
        if self._lost is not None:
            raise SandboxLost(str(self._lost)) from self._lost
        self._last_id += 1
        number = self._last_id
        line = json.dumps({"id": number, "op": operation, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_FRAME:
            raise SandboxError(f"the request is larger than {MAX_FRAME} bytes; put its content into a file instead")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self._writer.write(line)
            await self._writer.drain()
            async with asyncio.timeout(within):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise self._fail(f"no answer to {operation} within {within:g} s") from None
        except OSError as error:
            raise self._end(SandboxLost(f"the sandbox cannot be reached: {error}")) from error
        finally:
            # A caller that gave up leaves the number known, so that a late answer is not taken for a forged one.
            if answer.done():
                self._pending.pop(number, None)

    def _checked(self, model: type[Model], answer: dict[str, Any]) -> Model:
        try:
            return model.model_validate(answer)
        except ValidationError as error:
            raise self._fail(_brief(error)) from None

    async def _read(self) -> None:
        try:
            while True:
                line = await self._reader.readline()
                if not line.endswith(b"\n"):
                    self._end(SandboxLost("the sandbox ended"))
                    return
                self._take(line)
                if self._lost is not None:
                    return
        except ValueError:
            self._fail(f"the guest sent a frame of more than {MAX_FRAME} bytes")
        except OSError as error:
            self._end(SandboxLost(f"the connection to the sandbox broke: {error}"))

    def _take(self, line: bytes) -> None:
        try:
            frame = json.loads(line)
        except (ValueError, RecursionError):
            self._fail("the guest sent a frame that is not JSON")
            return
        try:
            if isinstance(frame, dict) and "event" in frame:
                self._take_event(frame)
            else:
                self._take_answer(Answer.model_validate(frame))
        except ValidationError as error:
            self._fail(_brief(error))

    def _take_answer(self, answer: Answer) -> None:
        waiting = self._pending.pop(answer.id, None)
        if waiting is None:
            self._fail(f"the guest answered a question that was not asked ({answer.id})")
        elif waiting.done():
            return
        elif answer.ok and answer.result is not None:
            waiting.set_result(answer.result)
        elif not answer.ok and answer.error is not None:
            waiting.set_exception(GuestRefused(answer.error.code, answer.error.message))
        else:
            self._pending[answer.id] = waiting
            self._fail("the guest sent an answer without content")

    def _take_event(self, frame: dict[str, Any]) -> None:
        event = EVENT.validate_python(frame)
        if isinstance(event, OutputEvent):
            listener = self._listeners.get(event.call_id)
            if listener is not None:
                listener(event.data)
        elif isinstance(event, TaskEndedEvent):
            if self._on_task_ended is not None:
                self._on_task_ended(task_of(event.task))
        elif isinstance(event, CrontabEvent):
            if self._on_crontab is not None:
                self._on_crontab(event.text)
        elif isinstance(event, ScreenEvent):
            self._advise(event)
        elif self._on_state is not None:
            self._on_state(event.digest)

    def _advise(self, event: ScreenEvent) -> None:
        """Say which texts are not to be written down; the guest waits for it."""
        held = self._screen.held(event.texts) if self._screen is not None else []
        line = json.dumps({"op": "counsel", "number": event.number, "held": held}, separators=(",", ":"))
        self._writer.write(line.encode() + b"\n")

    def _fail(self, reason: str) -> SandboxLost:
        return self._end(GuestProtocolError(f"the sandbox was given up: {reason}"))

    def _end(self, error: SandboxLost) -> SandboxLost:
        if self._lost is None:
            self._lost = error
            self._writer.close()
            pending, self._pending = self._pending, {}
            for waiting in pending.values():
                if not waiting.done():
                    waiting.set_exception(error)
                    waiting.exception()  # a caller that has gone is not reported as an error of ours
        return self._lost


def _brief(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"the guest's frame is wrong at {'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}"

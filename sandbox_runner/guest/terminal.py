"""A named terminal: its shell, the state it goes on from when that shell ends, and the commands that wait for it."""

from __future__ import annotations

import os
import re
import time
from collections import deque

from . import limits, processes
from .loop import Loop, Timer
from .output import CappedOutput, LiveOutput, decode
from .requests import without_own_lines
from .scrollback import TAKEN_BYTES, Scrollback
from .shell import Shell
from .shell_scripts import HISTORY_ENTRIES
from .shell_state import Dump, exported, without_hooks
from .tasks import NOT_KEPT, SHELL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .shell_state import State
    from .tasks import Task

_BROKEN_START_NOTE = "its shell ended while it started; its prompts, traps, set options and limits were dropped"
HISTORY_ENTRY_CHARS = 4000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def is_terminal_name(name: object) -> bool:
    return isinstance(name, str) and NAME.match(name) is not None


class Call:
    """One command on its way to a result."""

    def __init__(self, call_id: str, command: str, terminal: str, timeout_s: float, output_bytes: int) -> None:
        self.call_id = call_id
        self.command = command
        self.terminal = terminal
        self.timeout_s = timeout_s
        self.token = os.urandom(12).hex()
        self.output = CappedOutput(output_bytes)
        self.live: LiveOutput | None = None
        self.log: Callable[[bytes], None] | None = None
        """Where output goes once the result has been given."""
        self.started = time.monotonic()
        self.interrupted = False
        self.notes: list[str] = []
        self.result: dict[str, Any] | None = None
        self.waiting: list[Callable[[dict[str, Any]], None]] = []

    def write(self, data: bytes) -> None:
        if self.log is not None:
            self.log(data)
            return
        self.output.write(data)
        if self.live is not None:
            self.live.write(data)

    def milliseconds(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


class Ended:
    """How a command ended: ``dump`` from its shell, or the exit ``code`` of the shell itself."""

    def __init__(self, dump: Dump | None, code: int, *, shell_ended: bool = False) -> None:
        self.dump = dump
        self.code = code
        self.shell_ended = shell_ended


class Terminal:
    """Runs its calls in order. ``on_ended`` and ``on_timeout`` take a call over; ``proceed`` starts the next."""

    def __init__(
        self,
        loop: Loop,
        name: str,
        start_shell: Callable[[Terminal, Callable[[str, Dump | None], None], Callable[[int], None]], Shell],
        on_ended: Callable[[Terminal, Call, Ended], None],
        on_timeout: Callable[[Terminal, Call], None],
    ) -> None:
        self._loop = loop
        self.name = name
        self._start_shell = start_shell
        self._on_ended = on_ended
        self._on_timeout = on_timeout
        self.shell: Shell | None = None
        self.state: State | None = None
        """As of the last command that ended; a new shell starts from it."""
        self.history: deque[str] = deque(maxlen=HISTORY_ENTRIES)
        self.scrollback = Scrollback()
        self.jobs: dict[int, str] = {}
        """Process groups of the shell's jobs at the end of the last command, and what they run."""
        self.notes: list[str] = []
        """For the next result."""
        self.queue: deque[Call] = deque()
        self.current: Call | None = None
        self.on_ready: Callable[[Dump | None], None] | None = None
        self._timeout: Timer | None = None

    def submit(self, call: Call) -> None:
        self.queue.append(call)
        if self.current is None:
            self._start_next()

    def start(self) -> None:
        """Have a shell. Raises OSError when no process can be made."""
        if self.shell is None:
            shell: list[Shell] = []
            self.shell = self._start_shell(
                self,
                lambda token, dump: self._reported(shell[0], token, dump),
                lambda code: self._exited(shell[0], code),
            )
            shell.append(self.shell)
            self.notes += self.shell.notes
            self.shell.notes = []

    def scroll(self, call: Call) -> None:
        """What a call has printed so far is on the screen; its own lines that ``set -x`` shows are not."""
        head, tail, _ = call.output.parts()
        shown = decode((head + tail)[-TAKEN_BYTES:])
        if self.shell is not None:
            shown = without_own_lines(shown, call.token, self.shell.command_path)
        self.scrollback.add(call.command, shown.encode("utf-8", "replace"))

    def take(self, dump: Dump, base: dict[str, str]) -> None:
        """What the shell says of itself at the end of a command."""
        self.jobs = dump.jobs
        self.state = dump.state(base)

    def complete(self, dump: Dump) -> list[str]:
        """Add what the shell does not say of itself to what was taken; notes for the person."""
        self._keep_history(dump.history)
        if self.shell is None or self.state is None:
            return []
        self.state["limits"] = limits.differences(self.shell.pid)
        self.state["cwd"] = processes.true_directory(self.shell.pid, self.state["cwd"])
        # First, since it waits until the shell's output goes where it went before the dump.
        notes = self.shell.take_notes(dump.outputs)
        self.state["descriptors"] = self.shell.kept_open()
        return notes

    def name_part_of_shell(self, task: Task) -> None:
        """What the shell runs as a copy of itself (a loop, a group with ``&``) shows the shell's own arguments."""
        if self.shell is not None and task.argv == self.shell.argv:
            said = self.jobs.get(task.pid) or (self.history[-1] if self.history else "")
            task.argv = [SHELL, "-c", said] if said else [SHELL, NOT_KEPT]
            task.environment = exported(self.state) if self.state else {}

    def _keep_history(self, history: list[str]) -> None:
        """The history as the shell itself has it: commands may change that too."""
        self.history.clear()
        self.history.extend(entry for entry in history if len(entry) <= HISTORY_ENTRY_CHARS)

    def open_program(self) -> str:
        """The interactive program that has the terminal; empty: none has."""
        return self.shell.interactive_program() if self.shell is not None and self.current is not None else ""

    def proceed(self) -> None:
        """The current call has its result; start the next one."""
        self.current = None
        self._start_next()

    def detach_shell(self) -> Shell | None:
        """Give the shell away (it is stuck in a command); the next command gets a new one."""
        shell, self.shell = self.shell, None
        return shell

    def cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _start_next(self) -> None:
        if self.current is not None or not self.queue:
            return
        call = self.current = self.queue.popleft()
        call.started = time.monotonic()
        try:
            self.start()
            assert self.shell is not None
            self.shell.run(
                call.token, (call.command + "\n").encode("utf-8", "surrogateescape"), self._remember(call), call.write
            )
        except OSError as error:
            call.write(f"no shell could be started: {error.strerror}\n".encode())
            self._on_ended(self, call, Ended(None, 126))
            return
        self._timeout = self._loop.call_later(call.timeout_s, self._timed_out)

    def _remember(self, call: Call) -> str | None:
        entry = call.command.strip("\n")
        if not entry.strip() or len(entry) > HISTORY_ENTRY_CHARS or (self.history and self.history[-1] == entry):
            return None
        self.history.append(entry)
        return entry

    def _timed_out(self) -> None:
        if self.current is not None:
            self._on_timeout(self, self.current)

    def _reported(self, shell: Shell, token: str, dump: Dump | None) -> None:
        if token == shell.start_token:
            if shell is self.shell and self.on_ready is not None:
                self.on_ready(dump)
        elif shell is self.shell and self.current is not None:
            self.cancel_timeout()
            self._on_ended(self, self.current, Ended(dump, dump.status if dump else -1))

    def _exited(self, shell: Shell, code: int) -> None:
        if shell is not self.shell:
            return
        self.shell = None
        if not shell.ready and self.state is not None:
            # What it was to be given ends it, and would at each wake.
            self.state = without_hooks(self.state)
            self.notes.append(_BROKEN_START_NOTE)
        if self.current is None:
            self.notes.append(f"the shell of this terminal had ended with {code}; restarted from its last state")
        else:
            self.cancel_timeout()
            self._on_ended(self, self.current, Ended(None, code, shell_ended=True))

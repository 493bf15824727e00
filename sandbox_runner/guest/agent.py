"""The guest agent proper: it ties the host's requests to terminals, tasks and the state file.

A command's state is published before its result is told; nothing here waits, and nothing needs a new process to
get out of a sandbox that is full of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat

from . import crontab, limits, processes
from .environment import Environment
from .framing import Connection
from .helpers import Helpers
from .holding import Holding
from .lifetime import Lifetime
from .loop import Loop
from .mcp import McpServers
from .operations import OPERATIONS
from .pressure import PressureWatch
from .publisher import Publisher
from .requests import BadRequest, result_of, without_own_lines
from .results import Results
from .shell import Shell
from .shell_state import Dump, exported, without_hooks
from .tasks import Task, TaskTable
from .terminal import Call, Ended, Terminal, is_terminal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = Callable[[dict[str, Any]], None]

MAX_TERMINALS = 16
_ROUND_S = 0.04
_ROUNDS = 12
_SETTLE_S = 0.15
_PRESSURE_NOTE = (
    "process limit reached; everything in the sandbox was stopped, terminals restarted from the last saved state"
)
_HANGING_NOTE = "the command was not begun: its terminal hung; its prompts, traps and set options were dropped"
_MEMORY_NOTE = "exit 137 is SIGKILL: most likely the memory limit"


class Guest:
    """Everything the guest knows. One instance a process."""

    def __init__(
        self, loop: Loop, fds: tuple[int, int], base: dict[str, str], workspace: str, process_limit: int
    ) -> None:
        self.loop = loop
        self.base = base
        self.workspace = workspace
        self.home = base.get("HOME", workspace)
        self.folder = os.path.join(self.home, ".nightporter")
        self._runtime = _private_folder(base)
        self._shells = 0
        self.publisher = Publisher(self.folder)
        self.results = Results()
        self.terminals: dict[str, Terminal] = {}
        self.tasks = TaskTable(loop, os.path.join(self.folder, "tasks"), base, self._task_ended)
        self.watch = PressureWatch(loop, process_limit, self._is_active, self._relieve)
        self.crontab = ""
        self._notes: list[str] = []
        """Told with the next result of any terminal."""
        self.holding = Holding()
        self.lifetime = Lifetime(loop, self.end)
        self.helpers = Helpers(loop, base, workspace, self.results)
        self.environment = Environment(self)
        self.mcp = McpServers(loop, base, workspace, self.results)
        self.restored = False
        self.sleeping: list[Task] | None = None
        self._changed = False
        self.connection = Connection(loop, *fds, self._frame, self.end)
        loop.watch_children(self._reap)

    def end(self) -> None:
        """Kill everything and stop (the host is gone, or asked for it)."""
        processes.kill_everything()
        for terminal in self.terminals.values():
            shell = terminal.detach_shell()
            if shell is not None:
                shell.close()
        with contextlib.suppress(OSError):
            os.rmdir(self._runtime)
        self.loop.stop()

    # The host's requests ------------------------------------------------------------------------------------------

    def _frame(self, frame: dict[str, Any]) -> None:
        request_id = frame.get("id")

        def answer(result: dict[str, Any]) -> None:
            self.connection.send({"id": request_id, "ok": True, "result": result})

        try:
            operation = OPERATIONS.get(str(frame.get("op")))
            if operation is None:
                raise BadRequest(f"there is no operation {str(frame.get('op'))[:40]!r}")
            operation(self, frame, answer)
        except BadRequest as error:
            self._refuse(request_id, "bad_request", str(error))
        except OSError as error:
            self._refuse(request_id, "failed", f"{error.strerror}: {error.filename or ''}")

    def _refuse(self, request_id: object, code: str, message: str) -> None:
        self.connection.send({"id": request_id, "ok": False, "error": {"code": code, "message": message}})

    # Terminals ----------------------------------------------------------------------------------------------------

    def terminal(self, name: str) -> Terminal:
        """The terminal of that name, made when it is new. Raises BadRequest."""
        if name not in self.terminals:
            if not is_terminal_name(name):
                raise BadRequest("a terminal's name is up to 64 letters, digits, '.', '_' and '-'")
            if len(self.terminals) >= MAX_TERMINALS:
                raise BadRequest(f"there are {MAX_TERMINALS} terminals already")
            self.terminals[name] = Terminal(self.loop, name, self._start_shell, self._call_ended, self._call_timed_out)
        return self.terminals[name]

    def reopen_roots(self, notes: list[str]) -> None:
        """Without these folders no shell starts, so that nobody could open them again."""
        for folder in (self.workspace, self.home, self.folder):
            if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                with contextlib.suppress(OSError):
                    os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
                    notes.append(f"the folder {folder} was closed to its owner; it was opened again")

    def folder_for(self, cwd: str, notes: list[str], what: str) -> str:
        """``cwd`` where it still is one; else the workspace, with a note."""
        self.reopen_roots(notes)
        if cwd and os.path.isdir(cwd) and os.access(cwd, os.X_OK):
            return cwd
        fallback = self.workspace if os.path.isdir(self.workspace) else "/"
        if cwd:
            notes.append(f"{what}: the folder {cwd} is gone; it is in {fallback} now")
        return fallback

    def _start_shell(
        self, terminal: Terminal, on_report: Callable[[str, Dump | None], None], on_exit: Callable[[int], None]
    ) -> Shell:
        state = terminal.state
        notes: list[str] = []
        cwd = self.folder_for(state["cwd"] if state else self.workspace, notes, f"terminal {terminal.name}")
        if not os.path.isdir(self._runtime):
            os.makedirs(self._runtime, mode=0o700)
        self._shells += 1
        shell = Shell(
            self.loop,
            os.path.join(self._runtime, str(self._shells)),
            self.base,
            cwd,
            state,
            list(terminal.history),
            on_report,
            on_exit,
            limits.by_number(state.get("limits", {})) if state else None,
        )
        shell.notes += notes
        return shell

    def show(self, call_id: str, text: str) -> None:
        self.connection.send_event({"event": "output", "call_id": call_id, "data": text})

    def _call_ended(self, terminal: Terminal, call: Call, ended: Ended) -> None:
        """A command is over. What it left running is watched for a moment before its state is believed."""
        self._observe(terminal, call, ended, None, _ROUNDS)

    def _observe(self, terminal: Terminal, call: Call, ended: Ended, before: set[int] | None, rounds: int) -> None:
        """A fork bomb shows itself by ever new processes; and what was just forked becomes its program meanwhile."""
        if terminal.current is not call:
            return
        left = self.tasks.unknown(*self.shells_at_rest())
        if not left or (before is not None and (left <= before or rounds == 0)):
            self._settle_call(terminal, call, ended)
        elif self.watch.is_near():
            self.watch.when_relieved(lambda: self._settle_call(terminal, call, ended))
        else:
            self.loop.call_later(_ROUND_S, lambda: self._observe(terminal, call, ended, left, rounds - 1))

    def _settle_call(self, terminal: Terminal, call: Call, ended: Ended) -> None:
        if terminal.current is not call:
            return
        if ended.dump is not None:
            terminal.take(ended.dump, self.base)
        self.look()
        notes = terminal.notes + self._notes
        if ended.dump is not None:
            notes += terminal.complete(ended.dump)
        elif ended.shell_ended:
            notes.append(f"the shell itself ended with {ended.code}; a new one starts from the last saved state")
        else:
            notes.append("the state of this terminal was too large to read; the last saved one stands")
        if ended.code == 137 and not call.interrupted:
            notes.append(_MEMORY_NOTE)
        terminal.notes, self._notes = [], []
        terminal.scroll(call)
        self._changed = False
        notes += self.publish()
        self.give(terminal, call, "interrupted" if call.interrupted else "exited", ended.code, notes)
        self.environment.told()
        self.environment.ended(call.milliseconds())
        terminal.proceed()

    def give(
        self,
        terminal: Terminal,
        call: Call,
        status: str,
        code: int | None,
        notes: list[str],
        task: int | None = None,
    ) -> None:
        if call.live is not None:
            call.live.flush()
            call.live = None
        text, omitted = call.output.text()
        cwd = terminal.state["cwd"] if terminal.state else self.workspace
        cwd = cwd.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if terminal.shell is not None:
            text = without_own_lines(text, call.token, terminal.shell.command_path)
        digest = self.publisher.digest if status != "running" else None
        result = result_of(
            call, status, code, text, cwd, omitted_bytes=omitted, terminal=terminal.name, task=task,
            state_digest=digest, notes=call.notes + notes,
        )  # fmt: skip
        self.results.settle(call, result)

    def set_aside(self, note: str) -> None:
        """Let what runs in terminals go on as tasks, and tell why."""
        told = False
        for terminal in list(self.terminals.values()):
            call = terminal.current
            if call is not None and terminal.shell is not None and not terminal.shell.reported:
                told = True
                terminal.cancel_timeout()
                self._call_timed_out(terminal, call, note)
        if not told and note not in self._notes:
            self._notes.append(note)

    def _call_timed_out(self, terminal: Terminal, call: Call, why: str = "") -> None:
        """The command goes on as a task, with the shell that it holds; the terminal gets a new one."""
        shell = terminal.detach_shell()
        if shell is None:
            return
        if not shell.has_begun:
            self._give_up_shell(terminal, call, shell)
            return
        environment = exported(terminal.state) if terminal.state else {}
        cwd = processes.working_directory(shell.pid) or self.workspace
        # Run again only by a person's wish: it was not asked to be a service, and half of it is done already.
        task = Task(self.tasks.new_number(), ["bash", "-c", call.command], cwd, environment, "ask")
        task.terminal = terminal.name
        terminal.scroll(call)
        self.tasks.adopt_shell(task, shell)
        head, tail, omitted = call.output.parts()
        if task.writer is not None:
            task.writer.write(head + (b"\n[...]\n" if omitted else b"") + tail)
            call.log = task.writer.write
        shell.on_report = lambda _, dump: self.tasks.shell_ended(task, dump.status if dump else -1)
        shell.on_exit = lambda code: self.tasks.shell_ended(task, code)
        after = f"still running after {call.timeout_s:g} s: it is background task {task.number} now"
        self._go_on(terminal, call, "running", f"{why} It is background task {task.number}." if why else after, task)

    def _give_up_shell(self, terminal: Terminal, call: Call, shell: Shell) -> None:
        """The shell hangs in what its own state makes it do, and would at each command and wake: go on without that."""
        group = shell.foreground()
        if group > 1 and group != shell.pid:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        shell.close()
        terminal.state = without_hooks(terminal.state) if terminal.state else None
        self._go_on(terminal, call, "interrupted", _HANGING_NOTE)

    def _go_on(self, terminal: Terminal, call: Call, status: str, note: str, task: Task | None = None) -> None:
        """Answer a call that has not ended, and let the terminal go on with its new shell."""
        notes = [*terminal.notes, note]
        terminal.notes = []
        notes += self.publish()
        self.give(terminal, call, status, None, notes, task.number if task is not None else None)
        terminal.proceed()

    # Tasks --------------------------------------------------------------------------------------------------------

    def look(self) -> list[Task]:
        """Look for tasks nobody announced."""
        found = self.tasks.look(*self.shells_at_rest())
        for task in found:
            for terminal in self.terminals.values():
                terminal.name_part_of_shell(task)
        return found

    def shells_at_rest(self) -> tuple[set[int], set[int]]:
        """Shells that run nothing in the foreground, and those that do."""
        idle: set[int] = set()
        busy: set[int] = self.helpers.pids() | self.mcp.pids()
        for terminal in self.terminals.values():
            if terminal.shell is not None:
                at_rest = terminal.current is None or terminal.shell.reported
                (idle if at_rest else busy).add(terminal.shell.pid)
        return idle, busy

    def _task_ended(self, task: Task) -> None:
        self.connection.send_event({"event": "task_ended", "task": task.told()})
        self._notes += self.environment.task_ended(task)
        self.change()

    def change(self) -> None:
        """What is published is out of date; soon it will not be."""
        if self.sleeping is None and not self._changed:
            self._changed = True
            self.loop.call_later(0.05, self._publish_change)

    def _publish_change(self) -> None:
        if self._changed and self.sleeping is None:
            self._changed = False
            before = self.publisher.digest
            self._notes += self.publish()
            if self.publisher.digest != before:
                self.connection.send_event({"event": "state", "digest": self.publisher.digest})

    def publish(self) -> list[str]:
        """Write the state file; notes for the person."""
        notes: list[str] = []
        self.reopen_roots(notes)
        running = self.tasks.stopped() + (self.tasks.running() if self.sleeping is None else self.sleeping)
        for task in running:
            task.look()
        self.look_at_crontab()
        ended = self.tasks.untold()
        return notes + self.publisher.publish(
            self.terminals.values(), running, ended, self.tasks.next_number, self.crontab
        )

    def look_at_crontab(self) -> None:
        """The host has to know of what was written there, with every line's time."""
        found = crontab.read(self.folder)
        if found != self.crontab:
            self.crontab = found
            self.connection.send_event({"event": "crontab", "text": found})

    def note(self, text: str) -> None:
        """Told with the next result of any terminal."""
        if text not in self._notes:
            self._notes.append(text)

    # Limits and ends ----------------------------------------------------------------------------------------------

    def _is_active(self) -> bool:
        return any(terminal.current for terminal in self.terminals.values()) or bool(self.tasks.running())

    def _relieve(self) -> None:
        """The sandbox is full of processes: end them all, needing no new one."""
        processes.kill_everything()
        self.tasks.mark_lost()
        told = False
        for terminal in list(self.terminals.values()):
            shell = terminal.detach_shell()
            if shell is not None:
                shell.ended = True
                shell.close()
            terminal.cancel_timeout()
            call = terminal.current
            if call is not None:
                told = True
                self.give(terminal, call, "interrupted", None, [_PRESSURE_NOTE])
        self._reap()
        if not told:
            self._notes.append(_PRESSURE_NOTE)
        self.publish()

        def resume() -> None:
            for terminal in list(self.terminals.values()):
                terminal.proceed()

        self.loop.call_later(_SETTLE_S, resume)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.tasks.reaped(pid, status)
            self.helpers.reaped(pid, status)
            self.tasks.aside.discard(pid)
            self.mcp.reaped(pid, status)
            for terminal in self.terminals.values():
                if terminal.shell is not None and terminal.shell.pid == pid:
                    terminal.shell.reaped(status)


def _private_folder(base: dict[str, str]) -> str:
    """A private folder for what the guest and its shells tell each other."""
    parent = base.get("TMPDIR", "/tmp")
    folder = os.path.join(parent if os.path.isdir(parent) else "/tmp", f".nightporter-{os.urandom(6).hex()}")
    os.mkdir(folder, 0o700)
    return folder

"""The guest agent proper: what the host may ask, answered from terminals, tasks and the state file."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from . import processes, restoring
from .framing import MAX_FRAME, Connection, encode
from .loop import Loop
from .output import LiveOutput, decode
from .pressure import PressureWatch
from .publisher import Publisher
from .results import Results
from .shell import Shell
from .shell_state import Dump, exported
from .tasks import STOP_GRACE_S, Task, TaskTable
from .terminal import Call, Ended, Terminal, is_terminal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = Callable[[dict[str, Any]], None]

PROTOCOL = 1
MAX_TERMINALS = 16
DEFAULT_TIMEOUT_S = 120.0
DEFAULT_OUTPUT_BYTES = 1 << 20
_GROWTH_S = 0.04
_GROWTH = 16
_PRESSURE_NOTE = (
    "process limit reached; everything in the sandbox was stopped, terminals restarted from the last saved state"
)
_MEMORY_NOTE = "exit 137 is SIGKILL: most likely the memory limit"


class BadRequest(ValueError):
    """The host asked for something that is not in the protocol."""


class Guest:
    """Everything the guest knows. One instance a process."""

    def __init__(self, loop: Loop, fd: int, base: dict[str, str], workspace: str, process_limit: int) -> None:
        self._loop = loop
        self.base = base
        self._workspace = workspace
        self._home = base.get("HOME", workspace)
        self._folder = os.path.join(self._home, ".nightporter")
        self._runtime = _private_folder(base)
        self._shells = 0
        self._publisher = Publisher(self._folder)
        self._results = Results()
        self.terminals: dict[str, Terminal] = {}
        self.tasks = TaskTable(loop, os.path.join(self._folder, "tasks"), base, self._task_ended)
        self._watch = PressureWatch(loop, process_limit, self._is_active, self._relieve)
        self._notes: list[str] = []
        """Told with the next result of any terminal."""
        self._restored = False
        self._sleeping: list[Task] | None = None
        self._changed = False
        self._operations: dict[str, Callable[[dict[str, Any], Answer], None]] = {
            "hello": self._hello,
            "restore": self._restore,
            "run": self._run,
            "result": self._result,
            "interrupt": self._interrupt,
            "tasks": self._list_tasks,
            "task_output": self._task_output,
            "task_stop": self._task_stop,
            "capture": self._capture,
            "shutdown": self._shutdown,
        }
        self._connection = Connection(loop, fd, self._frame, self.end)
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
        self._loop.stop()

    # The host's requests ------------------------------------------------------------------------------------------

    def _frame(self, frame: dict[str, Any]) -> None:
        number = frame.get("id")

        def answer(result: dict[str, Any]) -> None:
            self._connection.send({"id": number, "ok": True, "result": result})

        try:
            operation = self._operations.get(str(frame.get("op")))
            if operation is None:
                raise BadRequest(f"there is no operation {str(frame.get('op'))[:40]!r}")
            operation(frame, answer)
        except BadRequest as error:
            self._refuse(number, "bad_request", str(error))
        except OSError as error:
            self._refuse(number, "failed", f"{error.strerror}: {error.filename or ''}")

    def _refuse(self, number: object, code: str, message: str) -> None:
        self._connection.send({"id": number, "ok": False, "error": {"code": code, "message": message}})

    def _hello(self, frame: dict[str, Any], answer: Answer) -> None:
        python = ".".join(map(str, sys.version_info[:3]))
        answer({"protocol": PROTOCOL, "pid": os.getpid(), "python": python, "workspace": self._workspace})

    def _restore(self, frame: dict[str, Any], answer: Answer) -> None:
        if self._restored or self.terminals:
            raise BadRequest("restore comes once, before any command")
        self._restored = True
        restoring.restore(self, self._loop, self._publisher, self._folder, answer)

    def _run(self, frame: dict[str, Any], answer: Answer) -> None:
        call_id, command = _string(frame, "call_id", 200), _string(frame, "command", MAX_FRAME)
        if self._results.wait(call_id, answer):
            return
        if "\0" in command:
            raise BadRequest("a command cannot hold a NUL character")
        terminal = self.terminal(_string(frame, "terminal", 64, "main"))
        timeout = _number(frame, "timeout_s", DEFAULT_TIMEOUT_S)
        size = int(_number(frame, "output_bytes", DEFAULT_OUTPUT_BYTES))
        call = Call(call_id, command, terminal.name, timeout, max(1024, min(size, DEFAULT_OUTPUT_BYTES)))
        self._results.add(call, answer)
        if frame.get("background") is True:
            self._run_in_background(call, terminal)
            return
        call.live = LiveOutput(self._loop, lambda text: self._show(call_id, text))
        self._watch.when_relieved(lambda: terminal.submit(call))

    def _result(self, frame: dict[str, Any], answer: Answer) -> None:
        if not self._results.wait(_string(frame, "call_id", 200), answer):
            answer({"unknown": True})

    def _interrupt(self, frame: dict[str, Any], answer: Answer) -> None:
        terminal = self.terminals.get(_string(frame, "terminal", 64, "main"))
        call = terminal.current if terminal else None
        if terminal is None or call is None or terminal.shell is None:
            answer({"interrupted": False})
            return
        call.interrupted = True
        shell = terminal.shell
        shell.interrupt(signal.SIGINT)

        def insist() -> None:
            if terminal.current is call and terminal.shell is shell:
                shell.interrupt(signal.SIGKILL)
                self._loop.call_later(0.5, insist)

        self._loop.call_later(2.0, insist)
        answer({"interrupted": True})

    def _list_tasks(self, frame: dict[str, Any], answer: Answer) -> None:
        self.look()
        answer({"tasks": [task.record() for task in self.tasks.all()]})

    def _task_output(self, frame: dict[str, Any], answer: Answer) -> None:
        size = int(_number(frame, "tail_bytes", 8192))
        answer({"output": decode(self.tasks.output(self._task(frame), max(0, min(size, 256 << 10))))})

    def _task_stop(self, frame: dict[str, Any], answer: Answer) -> None:
        task = self._task(frame)
        grace = _number(frame, "grace_s", STOP_GRACE_S)
        self.tasks.stop(task, lambda: answer({"task": task.record()}), grace)

    def _capture(self, frame: dict[str, Any], answer: Answer) -> None:
        self.look()
        if any(terminal.current for terminal in self.terminals.values()):
            answer({"digest": None, "notes": []})
            return
        notes = self.publish()
        answer({"digest": self._publisher.digest, "notes": notes})

    def _shutdown(self, frame: dict[str, Any], answer: Answer) -> None:
        grace = _number(frame, "grace_s", 2.0)
        self.look()
        self._sleeping = self.tasks.running()
        left = [len(self._sleeping)]

        def finish() -> None:
            if left[0] >= 0:
                left[0] = -1
                notes = self.publish()
                answer({"digest": self._publisher.digest, "notes": notes})
                self._connection.flush()
                self.end()

        def one_less() -> None:
            left[0] -= 1
            if left[0] == 0:
                finish()

        for task in list(self._sleeping):
            self.tasks.stop(task, one_less, grace)
        if not self._sleeping:
            finish()
        else:
            self._loop.call_later(grace, finish)

    # Terminals ----------------------------------------------------------------------------------------------------

    def terminal(self, name: str) -> Terminal:
        """The terminal of that name, made when it is new. Raises BadRequest."""
        if name not in self.terminals:
            if not is_terminal_name(name):
                raise BadRequest("a terminal's name is up to 64 letters, digits, '.', '_' and '-'")
            if len(self.terminals) >= MAX_TERMINALS:
                raise BadRequest(f"there are {MAX_TERMINALS} terminals already")
            self.terminals[name] = Terminal(self._loop, name, self._start_shell, self._call_ended, self._call_timed_out)
        return self.terminals[name]

    def folder_for(self, cwd: str, notes: list[str], what: str) -> str:
        """``cwd`` where it still is one; else the workspace, with a note."""
        if cwd and os.path.isdir(cwd) and os.access(cwd, os.X_OK):
            return cwd
        fallback = self._workspace if os.path.isdir(self._workspace) else "/"
        if cwd:
            notes.append(f"{what}: the folder {cwd} is gone; it is in {fallback} now")
        return fallback

    def _start_shell(
        self, terminal: Terminal, on_report: Callable[[str, Dump | None], None], on_exit: Callable[[int], None]
    ) -> Shell:
        state = terminal.state
        notes: list[str] = []
        cwd = self.folder_for(state["cwd"] if state else self._workspace, notes, f"terminal {terminal.name}")
        if not os.path.isdir(self._runtime):
            os.makedirs(self._runtime, mode=0o700)
        self._shells += 1
        shell = Shell(
            self._loop,
            os.path.join(self._runtime, str(self._shells)),
            self.base,
            cwd,
            state,
            list(terminal.history),
            on_report,
            on_exit,
            restoring.limit_numbers(state.get("limits", {})) if state else None,
        )
        shell.notes += notes
        return shell

    def _show(self, call_id: str, text: str) -> None:
        self._connection.send_event({"event": "output", "call_id": call_id, "data": text})

    def _call_ended(self, terminal: Terminal, call: Call, ended: Ended) -> None:
        """A command is over. What it left running is looked at before its state is believed."""
        before = self.tasks.count_unknown(*self._shells_at_rest())
        if not before:
            self._settle_held(terminal, call, ended)
            return

        def grown() -> None:
            if terminal.current is not call:
                return
            if self.tasks.count_unknown(*self._shells_at_rest()) > before + _GROWTH:
                self._watch.when_relieved(lambda: self._settle_held(terminal, call, ended), wait_for_verdict=True)
            else:
                self._settle_held(terminal, call, ended)

        # By then what was just forked has become its program, too.
        self._loop.call_later(_GROWTH_S, grown)

    def _settle_held(self, terminal: Terminal, call: Call, ended: Ended) -> None:
        if terminal.current is call:
            self.look()
            self._settle_call(terminal, call, ended)

    def _settle_call(self, terminal: Terminal, call: Call, ended: Ended) -> None:
        notes = terminal.notes + self._notes
        if ended.dump is not None:
            state = ended.dump.state(self.base)
            if terminal.shell is not None:
                state["limits"] = restoring.limit_differences(terminal.shell.pid)
            terminal.state = state
        elif ended.shell_ended:
            notes.append(f"the shell itself ended with {ended.code}; a new one starts from the last saved state")
        else:
            notes.append("the state of this terminal was too large to read; the last saved one stands")
        if ended.code == 137 and not call.interrupted:
            notes.append(_MEMORY_NOTE)
        terminal.notes, self._notes = [], []
        self._changed = False
        notes += self.publish()
        self._give(terminal, call, "interrupted" if call.interrupted else "exited", ended.code, notes)
        terminal.proceed()

    def _give(
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
        cwd = terminal.state["cwd"] if terminal.state else self._workspace
        result = {
            "call_id": call.call_id,
            "status": status,
            "exit_code": code,
            "output": text,
            "omitted_bytes": omitted,
            "duration_ms": call.milliseconds(),
            "terminal": terminal.name,
            "cwd": cwd.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            "task": task,
            "state_digest": self._publisher.digest if status != "running" else None,
            "notes": call.notes + notes,
        }
        if terminal.shell is not None:
            result["output"] = _without_own_lines(text, call.token, terminal.shell.command_path)
        self._results.settle(call, _fit(result))

    def _call_timed_out(self, terminal: Terminal, call: Call) -> None:
        """The command goes on as a task, with the shell that it holds; the terminal gets a new one."""
        shell = terminal.detach_shell()
        if shell is None:
            return
        environment = exported(terminal.state) if terminal.state else {}
        cwd = processes.working_directory(shell.pid) or self._workspace
        # Run again only by a person's wish: it was not asked to be a service, and half of it is done already.
        task = Task(self.tasks.new_number(), ["bash", "-c", call.command], cwd, environment, "ask")
        self.tasks.adopt_shell(task, shell)
        head, tail, omitted = call.output.parts()
        if task.writer is not None:
            task.writer.write(head + (b"\n[...]\n" if omitted else b"") + tail)
            call.log = task.writer.write
        shell.on_report = lambda _, dump: self.tasks.shell_ended(task, dump.status if dump else -1)
        shell.on_exit = lambda code: self.tasks.shell_ended(task, code)
        notes = [*terminal.notes, f"still running after {call.timeout_s:g} s: it is background task {task.number} now"]
        terminal.notes = []
        notes += self.publish()
        self._give(terminal, call, "running", None, notes, task.number)
        terminal.proceed()

    # Tasks --------------------------------------------------------------------------------------------------------

    def _run_in_background(self, call: Call, terminal: Terminal) -> None:
        state = terminal.state
        cwd = self.folder_for(state["cwd"] if state else self._workspace, call.notes, f"terminal {terminal.name}")
        environment = exported(state) if state else {}
        task = Task(self.tasks.new_number(), ["bash", "-c", call.command], cwd, environment, "restart")
        try:
            self.tasks.start(task)
        except OSError as error:
            call.write(f"it could not be started: {error.strerror}\n".encode())
            self._give(terminal, call, "exited", 126, [])
            return
        notes = self.publish()
        self._give(terminal, call, "running", None, notes, task.number)

    def _task(self, frame: dict[str, Any]) -> Task:
        number = frame.get("task")
        task = self.tasks.get(number) if isinstance(number, int) else None
        if task is None:
            raise BadRequest(f"there is no task {number!r}")
        return task

    def look(self) -> list[Task]:
        """Look for tasks nobody announced."""
        return self.tasks.look(*self._shells_at_rest())

    def _shells_at_rest(self) -> tuple[set[int], set[int]]:
        """Shells that run nothing in the foreground, and those that do."""
        idle: set[int] = set()
        busy: set[int] = set()
        for terminal in self.terminals.values():
            if terminal.shell is not None:
                at_rest = terminal.current is None or terminal.shell.reported
                (idle if at_rest else busy).add(terminal.shell.pid)
        return idle, busy

    def _task_ended(self, task: Task) -> None:
        self._connection.send_event({"event": "task_ended", "task": task.record()})
        if self._sleeping is None and not self._changed:
            self._changed = True
            self._loop.call_later(0.05, self._publish_change)

    def _publish_change(self) -> None:
        if self._changed and self._sleeping is None:
            self._changed = False
            before = self._publisher.digest
            self._notes += self.publish()
            if self._publisher.digest != before:
                self._connection.send_event({"event": "state", "digest": self._publisher.digest})

    def publish(self) -> list[str]:
        """Write the state file; notes for the person."""
        running = self.tasks.running() if self._sleeping is None else self._sleeping
        return self._publisher.publish(self.terminals.values(), running, self.tasks.next_number)

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
                self._give(terminal, call, "interrupted", None, [_PRESSURE_NOTE])
        self._reap()
        if not told:
            self._notes.append(_PRESSURE_NOTE)
        self.publish()
        for terminal in list(self.terminals.values()):
            terminal.proceed()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.tasks.reaped(pid, status)
            for terminal in self.terminals.values():
                if terminal.shell is not None and terminal.shell.pid == pid:
                    terminal.shell.reaped(status)


def _private_folder(base: dict[str, str]) -> str:
    """A private folder for what the guest and its shells tell each other."""
    parent = base.get("TMPDIR", "/tmp")
    folder = os.path.join(parent if os.path.isdir(parent) else "/tmp", f".nightporter-{os.urandom(6).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def _without_own_lines(text: str, token: str, command_path: str) -> str:
    """Under ``set -x`` bash shows the lines that the guest types as well."""
    first, newline, rest = text.partition("\n")
    if newline and first.endswith(f" . {command_path}"):
        text = rest
    traced = text.find(token)
    return text if traced < 0 else text[: text.rfind("\n", 0, traced) + 1]


def _fit(result: dict[str, Any]) -> dict[str, Any]:
    """Within a frame: a control character takes six bytes there."""
    while len(encode(result)) > MAX_FRAME - 4096:
        text = result["output"]
        quarter = len(text) // 4
        result["omitted_bytes"] += len(text[quarter:-quarter].encode("utf-8", "replace"))
        result["output"] = f"{text[:quarter]}\n[… more omitted …]\n{text[-quarter:]}"
    return result


def _string(frame: dict[str, Any], key: str, limit: int, default: str | None = None) -> str:
    value = frame.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise BadRequest(f"{key} must be a string of at most {limit} characters")
    return value


def _number(frame: dict[str, Any], key: str, default: float) -> float:
    value = frame.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise BadRequest(f"{key} must be a number from 0")
    return float(value)

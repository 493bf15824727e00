"""Background tasks: those the guest started, commands past their timeout, and whatever else goes on running.

The last kind is found by looking, not by asking: any process that is neither the guest, a terminal's shell nor part
of a command in the foreground.
"""

from __future__ import annotations

import os
import signal
import stat
import time

from . import processes
from .ends import is_worth_telling
from .loop import Loop
from .secret_filter import words_hold_secret
from .shell import Shell
from .spawn import exit_code_of, spawn
from .task_log import TaskLog, tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SHELL = "/bin/bash"
"""Of what a terminal's shell ran as a copy of itself, should it be started again."""
NOT_KEPT = "[not kept]"
NOT_TOLD = "[not kept: it looks like a secret]"
STOP_GRACE_S = 5.0
_LOOK_S = 1.0
_FINISHED_KEPT = 64
_UNTOLD_KEPT = 64
_STOPPED_KEPT = 32
_ARGUMENTS_TOLD = 64
_ARGUMENT_TOLD = 2000
_SYSTEM_VARIABLES = frozenset(("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES"))


class Task:
    """One background task; ``pid`` is 0 once it has ended."""

    def __init__(self, number: int, argv: list[str], cwd: str, environment: dict[str, str], policy: str) -> None:
        self.number = number
        self.argv = argv
        self.cwd = cwd
        self.environment = environment
        """Difference from the base environment."""
        self.policy = policy
        self.pid = 0
        self.process_started = 0
        self.starts = 1
        self.started_at = time.time()
        self.state = "running"
        self.exit_code: int | None = None
        self.log = ""
        self.writer: TaskLog | None = None
        self.shell: Shell | None = None
        """The stuck shell of a command past its timeout."""
        self.timer = False
        """A line of the crontab, run when it was due."""
        self.terminal = ""
        self.open = ""
        """The interactive program that has the terminal of that name: it cannot be brought back."""
        self.on_stopped: list[Callable[[], None]] = []
        self.stopped = False
        """Somebody asked for its end."""
        self.untold = False
        """It ended by itself, and nobody has recorded that yet."""

    def record(self) -> dict[str, Any]:
        return {
            "task": self.number,
            "argv": self.argv,
            "cwd": self.cwd,
            "state": self.state,
            "exit_code": self.exit_code,
            "log": self.log,
            "policy": self.policy,
            "starts": self.starts,
            "started_at": self.started_at,
            "timer": self.timer,
        }

    def look(self) -> None:
        """See whether what it runs is interactive, while that still lives."""
        if self.state == "running" and self.shell is not None:
            self.open = self.shell.interactive_program()

    def told(self) -> dict[str, Any]:
        """The record as the host is told it, with arguments to be read by people."""
        argv = [argument[:_ARGUMENT_TOLD] for argument in self.argv[:_ARGUMENTS_TOLD]]
        if words_hold_secret(self.argv):
            # A shell's command stays one, of which nothing is told.
            argv = [*(["bash", "-c"] if argv[:2] == ["bash", "-c"] else [os.path.basename(argv[0])]), NOT_TOLD]
        return {**self.record(), "argv": argv}


class TaskTable:
    """All tasks of the sandbox. ``on_ended`` is told of each that ends."""

    def __init__(self, loop: Loop, folder: str, base: dict[str, str], on_ended: Callable[[Task], None]) -> None:
        self._loop = loop
        self._folder = folder
        self._base = base
        self._on_ended = on_ended
        self._tasks: dict[int, Task] = {}
        self.next_number = 1
        self.aside: set[int] = set()
        """Processes of the guest's own, which are nobody's tasks."""
        self._looking = False

    def all(self) -> list[Task]:
        return list(self._tasks.values())

    def running(self) -> list[Task]:
        return [task for task in self._tasks.values() if task.state == "running"]

    def stopped(self) -> list[Task]:
        """Those that a sleep ended and that wait for a person's word."""
        return [task for task in self._tasks.values() if task.state == "stopped"][-_STOPPED_KEPT:]

    def untold(self) -> list[Task]:
        return [task for task in self._tasks.values() if task.untold][-_UNTOLD_KEPT:]

    def remember(self, task: Task, code: int | None) -> None:
        """A task that ended in an earlier sandbox, which nobody was told of."""
        task.state, task.exit_code, task.untold = "exited", code, True
        self._add(task)

    def keep_stopped(self, task: Task) -> None:
        """A task that a sleep ended: it starts again when somebody says so."""
        task.state = "stopped"
        self._add(task)

    def get(self, number: object) -> Task | None:
        return self._tasks.get(number) if isinstance(number, int) else None

    def start(self, task: Task) -> None:
        """Run a managed task in a session of its own, its output into its log. Raises OSError."""
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kept = self._file_of_its_own(task)
            if kept is None:
                self._start_with_log(task, null)
            else:
                with os.fdopen(kept, "wb"):
                    task.pid = spawn(task.argv, {**self._base, **task.environment}, task.cwd, stdin=null, stdout=kept)
        finally:
            os.close(null)
        self._identify(task)
        self._add(task)

    def _start_with_log(self, task: Task, null: int) -> None:
        """Through the guest into a log that it bounds."""
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        try:
            task.pid = spawn(task.argv, {**self._base, **task.environment}, task.cwd, stdin=null, stdout=write_end)
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        task.log = self.log_path(task.number)
        task.writer = TaskLog(task.log)
        self._loop.add_reader(read_end, lambda: self._pump(task, read_end))

    def _file_of_its_own(self, task: Task) -> int | None:
        """The file that a person sent its output to, which it goes on with; None: there is none."""
        if not task.log or task.log == self.log_path(task.number):
            return None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(task.log, flags, 0o666)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        return None

    def adopt_shell(self, task: Task, shell: Shell) -> None:
        """A command past its timeout goes on in the shell that it holds."""
        task.pid, task.shell = shell.pid, shell
        task.log = self.log_path(task.number)
        task.writer = TaskLog(task.log)
        self._identify(task)
        self._add(task)

    def new_number(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def log_path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number}.log")

    def unknown(self, idle_shells: set[int], busy_shells: set[int]) -> set[int]:
        """The processes of tasks that were not looked at yet."""
        found = processes.scan()
        roots = self._unknown_roots(found, idle_shells, busy_shells)
        return {pid for group in roots.values() for root in group for pid in processes.tree(root.pid, found)}

    def look(self, idle_shells: set[int], busy_shells: set[int]) -> list[Task]:
        """Find tasks that nobody announced; the new ones. Ends those whose process is gone."""
        found = processes.scan()
        for task in self.running():
            process = found.get(task.pid)
            # Children of the guest are settled by their reaping, which knows the exit code.
            gone = process is None or process.started != task.process_started
            if gone and task.writer is None:
                self._finish(task, None)
        new: list[Task] = []
        for roots in self._unknown_roots(found, idle_shells, busy_shells).values():
            leader = min(roots, key=lambda process: (process.pid != process.group, process.started, process.pid))
            argv = processes.arguments(leader.pid)
            if not argv:
                continue
            environment = processes.environment(leader.pid)
            difference = {
                name: value
                for name, value in environment.items()
                if self._base.get(name) != value and name not in _SYSTEM_VARIABLES and not name.startswith("BASH_FUNC_")
            }
            task = Task(self.new_number(), argv, processes.working_directory(leader.pid), difference, "ask")
            task.pid, task.process_started = leader.pid, leader.started
            task.log = processes.output_file(leader.pid)
            self._add(task)
            new.append(task)
        return new

    def _unknown_roots(
        self, found: dict[int, processes.Process], idle: set[int], busy: set[int]
    ) -> dict[int, list[processes.Process]]:
        """Top processes that belong to no task and no foreground command, by process group."""
        known = {task.pid for task in self.running()}
        known_groups = {found[pid].group for pid in known if pid in found}
        own = os.getpid()
        roots: dict[int, list[processes.Process]] = {}
        for process in found.values():
            if process.pid in known or process.pid in idle or process.pid in busy or process.pid in self.aside:
                continue
            if process.group not in known_groups and (process.parent in (own, 0) or process.parent in idle):
                roots.setdefault(process.group, []).append(process)
        return roots

    def reaped(self, pid: int, status: int) -> None:
        for task in self.running():
            if task.pid == pid:
                if task.shell is not None:
                    task.shell.reaped(status)
                else:
                    self._finish(task, exit_code_of(status))

    def stop(self, task: Task, on_stopped: Callable[[], None], grace: float = STOP_GRACE_S) -> None:
        """SIGTERM to all of it, SIGKILL after ``grace`` seconds."""
        if task.state == "stopped":
            task.state = "exited"
        if task.state != "running":
            on_stopped()
            return
        task.stopped = True
        task.on_stopped.append(on_stopped)
        self.signal(task, signal.SIGTERM)

        def kill() -> None:
            if task.state == "running":
                self.signal(task, signal.SIGKILL)
                self._loop.call_later(0.2, lambda: self._settle(task))

        self._loop.call_later(grace, kill)

    def signal(self, task: Task, number: int) -> None:
        members = processes.tree(task.pid, processes.scan())
        if task.shell is not None and number == signal.SIGTERM:
            # An interactive bash ignores SIGTERM and ends by itself once its command has.
            members = [pid for pid in members if pid != task.pid] or members
        for pid in members:
            processes.send_signal(pid, number)

    def shell_ended(self, task: Task, code: int) -> None:
        """The command that held a shell is over."""
        self._finish(task, code)
        if task.shell is not None:
            task.shell.close()
            task.shell = None
        if task.writer is not None:
            task.writer.close()

    def mark_lost(self) -> None:
        """Everything was killed."""
        for task in self.running():
            task.state = "lost"
            if task.shell is not None:
                task.shell.close()
                task.shell = None
            self._finished(task)

    def output(self, task: Task, size: int) -> bytes:
        return tail(task.log, size) if task.log else b""

    def _add(self, task: Task) -> None:
        self._tasks[task.number] = task
        over = [number for number, each in self._tasks.items() if each.state in ("exited", "lost") and not each.untold]
        stopped = [number for number, each in self._tasks.items() if each.state == "stopped"]
        for number in over[:-_FINISHED_KEPT] + stopped[:-_STOPPED_KEPT]:
            del self._tasks[number]
        self._watch()

    def _identify(self, task: Task) -> None:
        process = processes.read_process(task.pid)
        task.process_started = process.started if process else 0

    def _pump(self, task: Task, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data and task.writer is not None:
            task.writer.write(data)
        elif not data:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            if task.writer is not None:
                task.writer.close()

    def _watch(self) -> None:
        """Processes that are not the guest's children end without telling it."""
        if self._looking or not any(task.writer is None for task in self.running()):
            return
        self._looking = True

        def look() -> None:
            self._looking = False
            for task in self.running():
                self._settle(task)
            self._watch()

        self._loop.call_later(_LOOK_S, look)

    def _settle(self, task: Task) -> None:
        if task.state != "running" or task.writer is not None:
            return
        process = processes.read_process(task.pid)
        if process is None or process.started != task.process_started or process.state in "ZX":
            self._finish(task, None)

    def _finish(self, task: Task, code: int | None) -> None:
        if task.state == "running":
            task.state, task.exit_code = "exited", code
            self._finished(task)

    def _finished(self, task: Task) -> None:
        for told in task.on_stopped:
            told()
        task.on_stopped.clear()
        task.untold = not task.stopped and is_worth_telling(task.argv, task.started_at)
        self._on_ended(task)

"""Starting background tasks: at a person's word, by the crontab, and again after a sleep."""

from __future__ import annotations

import os
import time

from .crontab import NAME
from .requests import BadRequest
from .shell_state import exported
from .tasks import NOT_KEPT, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .agent import Guest
    from .terminal import Call, Terminal

POLICIES = ("restart", "ask", "never")
"""What becomes of a task that a sleep ends: started again, named and kept for a person's word, or neither."""


def run_in_background(guest: Guest, call: Call, terminal: Terminal, policy: str) -> None:
    state = terminal.state
    cwd = guest.folder_for(state["cwd"] if state else guest.workspace, call.notes, f"terminal {terminal.name}")
    environment = exported(state) if state else {}
    task = Task(guest.tasks.new_number(), ["bash", "-c", call.command], cwd, environment, policy)
    try:
        guest.tasks.start(task)
    except OSError as error:
        call.write(f"it could not be started: {error.strerror}\n".encode())
        guest.give(terminal, call, "exited", 126, [])
        return
    notes = guest.publish()
    guest.give(terminal, call, "running", None, notes, task.number)


def run_timer(guest: Guest, command: str, environment: dict[str, str]) -> Task | None:
    """Start a line of the crontab; None: the run before still goes on. Raises OSError."""
    argv = ["bash", "-c", command]
    if any(task.timer and task.argv == argv for task in guest.tasks.running()):
        return None
    notes: list[str] = []
    task = Task(guest.tasks.new_number(), argv, guest.folder_for(guest.home, notes, NAME), environment, "never")
    task.timer = True
    guest.tasks.start(task)
    guest.change()
    return task


def at_word(guest: Guest, task: Task, policy: str) -> None:
    """Start a task that is over again, and set what becomes of it at the next sleep. Raises BadRequest."""
    if task.timer:
        raise BadRequest(f"task {task.number} is a line of the crontab, which starts it when it is due")
    if task.argv[1:] == [NOT_KEPT]:
        why = "since it held a secret, was too long or is not known"
        raise BadRequest(f"how task {task.number} was called was not kept, {why}")
    if task.state != "running":
        notes: list[str] = []
        again = task_of({**task.record(), "environment": task.environment, "policy": policy or task.policy})
        again.terminal = task.terminal
        problem = start_again(guest, again, notes)
        if problem:
            raise BadRequest(f"task {task.number} was not started: {problem}")
        for note in notes:
            guest.note(note)
    elif policy:
        task.policy = policy
    guest.change()


def start_again(guest: Guest, task: Task, notes: list[str]) -> str:
    """Start it where it was, with its log continued; why not, or empty."""
    task.cwd = guest.folder_for(task.cwd, notes, f"task {task.number}")
    program = task.argv[0]
    if not _is_program(program, task.environment.get("PATH", guest.base.get("PATH", "")), task.cwd):
        return f"the program {program} is gone"
    task.starts, task.started_at = task.starts + 1, time.time()
    try:
        guest.tasks.start(task)
    except OSError as error:
        return str(error.strerror)
    return ""


def task_of(record: dict[str, Any]) -> Task:
    task = Task(record["task"], record["argv"], record["cwd"], record["environment"], record["policy"])
    task.starts, task.started_at, task.log = record["starts"], record["started_at"], record["log"]
    task.timer = record["timer"]
    return task


def _is_program(name: str, path: str, cwd: str) -> bool:
    places = [cwd] if "/" in name else path.split(":")
    return any(os.access(os.path.join(place, name), os.X_OK) for place in places)

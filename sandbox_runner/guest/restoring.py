"""Waking up: terminals and tasks from the state file, each checked, and what did not come back told."""

from __future__ import annotations

from . import crontab, state_file
from .loop import Loop, Timer
from .shell_state import Dump
from .starting import start_again, task_of
from .terminal import Terminal, is_terminal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .agent import Guest

_READY_S = 3.0


class _Gathering:
    """Waits for the restored shells to report, up to a bound, then answers once."""

    def __init__(self, loop: Loop, finish: Callable[[], None]) -> None:
        self._waiting: set[str] = set()
        self._finish: Callable[[], None] | None = finish
        self._timer: Timer = loop.call_later(_READY_S, self.finish)

    def expect(self, name: str) -> None:
        self._waiting.add(name)

    def arrived(self, name: str) -> None:
        self._waiting.discard(name)
        self.finish_if_complete()

    def finish_if_complete(self) -> None:
        if not self._waiting:
            self.finish()

    def finish(self) -> None:
        finish, self._finish = self._finish, None
        self._timer.cancel()
        if finish is not None:
            finish()


def restore(guest: Guest, loop: Loop, state: str | None, answer: Callable[[dict[str, Any]], None]) -> None:
    """Answers with the digest restored from (None: nothing) and notes, once the terminals are there."""
    loaded = state_file.load(state, is_terminal_name)
    notes = loaded.notes
    guest.tasks.next_number = loaded.next_task
    crontab.give_back(guest.folder, loaded.crontab)
    guest.look_at_crontab()

    def finish() -> None:
        for terminal in guest.terminals.values():
            terminal.on_ready = None
            notes.extend(terminal.notes)
            terminal.notes = []
        untold = [task.told() for task in guest.tasks.untold()]
        screens = {name: list(terminal.scrollback.lines) for name, terminal in guest.terminals.items()}
        answer({"digest": loaded.digest, "terminals": screens, "ended": untold, "notes": notes})

    gathering = _Gathering(loop, finish)
    for name, record in loaded.terminals.items():
        terminal = guest.terminal(name)
        terminal.history.extend(record.pop("history"))
        terminal.scrollback.lines.extend(record.pop("scrollback"))
        program, not_kept = record.pop("open"), record.pop("not_kept")
        if program:
            notes.append(_was_open(program, name))
        notes += [_was_open(f"descriptor {each}", name) for each in record.pop("descriptors")]
        notes += [f"{what} was not kept in terminal {name}; set it again where it is needed" for what in not_kept]
        terminal.state = record
        terminal.on_ready = _check(guest, terminal, gathering)
        try:
            terminal.start()
            gathering.expect(name)
        except OSError as error:
            notes.append(f"terminal {name} could not be started yet: {error.strerror}")
    for ended in loaded.ended:
        guest.tasks.remember(task_of(ended), ended["exit_code"])
    for running in loaded.tasks:
        _restore_task(guest, running, notes)
    gathering.finish_if_complete()


def _check(guest: Guest, terminal: Terminal, gathering: _Gathering) -> Callable[[Dump | None], None]:
    """Compare what the shell says it has with what it was given."""

    def ready(dump: Dump | None) -> None:
        wanted = terminal.state
        if dump is not None and wanted is not None:
            got = dump.state(guest.base)
            for key, word in (("variables", ""), ("functions", "function "), ("aliases", "alias "), ("traps", "trap ")):
                for name in wanted[key]:
                    if name not in got[key]:
                        terminal.notes.append(f"not restored: {word}{name} of terminal {terminal.name}")
            if got["cwd"] != wanted["cwd"]:
                wanted["cwd"] = got["cwd"]
        terminal.on_ready = None
        gathering.arrived(terminal.name)

    return ready


def _was_open(program: str, terminal: str) -> str:
    return f"{program} was open in terminal {terminal}; it could not be kept"


def _restore_task(guest: Guest, record: dict[str, Any], notes: list[str]) -> None:
    if record["open"]:
        notes.append(_was_open(record["open"], record["terminal"]))
        return
    task = task_of(record)
    title = f"task {task.number} ({' '.join(task.argv)[:120]})"
    if task.timer:
        notes.append(f"{title} was cut short by sleep; the crontab runs it again when it is due")
    elif task.policy == "never":
        notes.append(f"{title} ended with the sleep: its policy is never")
    elif record["stopped"] or task.policy == "ask":
        task.terminal = record["terminal"]
        guest.tasks.keep_stopped(task)
        if not record["stopped"]:
            notes.append(f"was running: {title}; not restarted: `start {task.number}` starts it again")
    elif problem := start_again(guest, task, notes):
        notes.append(f"{title} was not restarted: {problem}")
    else:
        notes.append(f"{title} was restarted, start {task.starts}")

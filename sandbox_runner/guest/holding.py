"""Pausing what runs, and letting it go on: for a sandbox that takes more disk than it may.

Terminals stay usable, for what helps is deleting files: a command under way goes on as a background task, paused, and
its terminal gets a new shell.
"""

from __future__ import annotations

import signal

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent import Guest

_ROUNDS = 20


class Holding:
    """What is paused: pids with the start of each process, so that none is mistaken for a later one."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def hold(self, guest: Guest, note: str) -> int:
        """Pause everything but the guest and shells that wait at their prompt; how many processes that is."""
        shells = [
            terminal.shell.pid
            for terminal in guest.terminals.values()
            if terminal.current is not None and terminal.shell is not None and not terminal.shell.reported
        ]
        # The shell before its command: it must not learn that the command stopped, and take it for ended.
        for pid in shells:
            self._stop(processes.read_process(pid))
        idle, _ = guest.shells_at_rest()
        for _ in range(_ROUNDS):
            running = [each for each in processes.scan().values() if each.pid not in idle and each.state not in "Tt"]
            for process in running:
                self._stop(process)
            if not running:
                break
        guest.set_aside(note)
        return len(self._held)

    def release(self, guest: Guest) -> int:
        """Let everything go on, commands before the shells that wait for them; how many processes that is."""
        shells = {task.pid for task in guest.tasks.running() if task.shell is not None}
        gone_on = 0
        for pid, started in sorted(self._held.items(), key=lambda item: item[0] in shells):
            process = processes.read_process(pid)
            if process is not None and process.started == started:
                processes.send_signal(pid, signal.SIGCONT)
                gone_on += 1
        self._held.clear()
        return gone_on

    def _stop(self, process: processes.Process | None) -> None:
        if process is not None:
            self._held[process.pid] = process.started
            processes.send_signal(process.pid, signal.SIGSTOP)

"""``environment.json`` kept true, and what no longer runs on another system rebuilt: both beside what people ask for.

A look at a dozen folders after a command says whether anything can have been installed; only then a program of its own
surveys them, once the terminals are quiet, and before the sandbox sleeps at the latest.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial

from . import state_file
from .packages import manifest, places
from .spawn import spawn
from .tasks import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .agent import Guest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packages")
_SLOW_MS = 150
"""What installs something takes longer than that."""
_QUIET_S = 1.5
_SLEEP_WAITS_S = 2.0
_TELLING = (("system", ""), ("glibc", "glibc "), ("node", "Node "), ("machine", ""))


class Environment:
    """Of one guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._base: dict[str, Any] | None = None
        self._pending = False
        """The base is another than the one the manifest was written on, and nobody has looked what that broke."""
        self._written: dict[str, Any] | None = None
        self._seen: tuple[int, ...] = ()
        self._suspect = False
        self._timer = False
        self._surveying = False
        self._rebuilding: Task | None = None
        self._report: dict[str, Any] | None = None
        self._when_done: list[Callable[[], None]] = []

    # Waking

    def wake(self, base: dict[str, Any]) -> list[str]:
        """Before anything runs; what a person should know. What takes longer comes later."""
        self._base = base
        notes = self._untold_report()
        try:
            self._written = manifest.load(self._guest.folder)
        except manifest.Damaged as damage:
            notes.append(f"{manifest.NAME} was not used: {damage}; it is written anew")
            self._suspect = True
        if self._written is None:
            self._suspect = self._suspect or os.path.isdir(os.path.join(self._guest.base["HOME"], ".local"))
        elif self._written["base"]["digest"] != base["digest"]:
            self._pending = True
            told = _differences(self._written["base"], base)
            if told and _has_packages(self._written):
                notes.append(
                    f"the system under this sandbox changed since: {told}; what you installed is being checked"
                )
            self._guest.loop.call_later(0.3, self._rebuild)
        self._seen = self._look()
        return notes

    def _untold_report(self) -> list[str]:
        try:
            self._report = manifest.load(self._guest.folder, manifest.REPORT)
        except manifest.Damaged:
            self._report = None
        notes = _sentences(self._report)
        self.told()
        return notes

    # What was installed

    def ended(self, milliseconds: float) -> None:
        """A command or a task is over."""
        self._suspect = self._suspect or milliseconds >= _SLOW_MS
        if self._base is not None and not self._timer and self._may_have_changed():
            self._timer = True
            self._guest.loop.call_later(_QUIET_S, self._check)

    def _check(self) -> None:
        self._timer = False
        if self._guest.sleeping is not None or self._surveying:
            return
        if any(terminal.current for terminal in self._guest.terminals.values()):
            self._timer = True
            self._guest.loop.call_later(_QUIET_S, self._check)
        elif self._may_have_changed():
            self._survey()

    def before_sleep(self, sleep: Callable[[], None]) -> None:
        """Call ``sleep`` once what was installed is written down, or that takes too long."""
        waiting = [sleep]

        def done() -> None:
            for each in waiting:
                waiting.clear()
                each()
                break

        if self._base is None or self._pending or not (self._surveying or self._may_have_changed()):
            done()
            return
        self._when_done.append(done)
        self._guest.loop.call_later(_SLEEP_WAITS_S, done)
        if not self._surveying:
            self._survey()

    def _may_have_changed(self) -> bool:
        return self._suspect or self._look() != self._seen

    def _look(self) -> tuple[int, ...]:
        found = [place["where"] for place in (self._written or {}).get("python", [])]
        shells = [terminal.state["cwd"] for terminal in self._guest.terminals.values() if terminal.state]
        return places.watched(self._guest.base["HOME"], self._guest.workspace, [*found, *sorted(set(shells))])

    def _survey(self) -> None:
        if self._pending:
            return
        command = [sys.executable, "-I", "-S", "-B", PROGRAM, "survey", self._guest.workspace]
        read_end, write_end = os.pipe()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            pid = spawn(command, self._guest.base, "/", stdin=null, stdout=write_end, stderr=null)
        except OSError:
            os.close(read_end)
            self._done()
            return
        finally:
            os.close(write_end)
            os.close(null)
        os.set_blocking(read_end, False)
        self._guest.tasks.aside.add(pid)
        self._surveying, self._suspect, self._seen = True, False, self._look()
        self._guest.loop.add_reader(read_end, partial(self._read, read_end, bytearray()))

    def _read(self, descriptor: int, said: bytearray) -> None:
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        said += data
        if data and len(said) <= manifest.MAX_BYTES:
            return
        self._guest.loop.remove_reader(descriptor)
        os.close(descriptor)
        self._surveying = False
        self._write(bytes(said))
        self._done()

    def _done(self) -> None:
        waiting, self._when_done = self._when_done, []
        for each in waiting:
            each()

    def _write(self, said: bytes) -> None:
        try:
            found = json.loads(said)
        except (ValueError, RecursionError):
            self._suspect = True  # it was killed, or ran out of memory: the next command brings another
            return
        rebuilt = (self._written or {}).get("rebuilt")
        body = {"version": manifest.VERSION, "base": self._base, **({"rebuilt": rebuilt} if rebuilt else {}), **found}
        if self._report is not None:
            body["rebuilt"] = {key: self._report.get(key, []) for key in ("done", "failed")}
        screening = self._guest.publisher.screening
        if screening is not None:
            body["not_kept"] = sorted({*body.get("not_kept", []), *screening.clean_lists(body)})
        there = os.path.exists(os.path.join(self._guest.folder, manifest.NAME))
        if (body == self._written and there) or (self._written is None and not _has_packages(body)):
            return
        data = state_file.encode(body)
        if len(data) > manifest.MAX_BYTES:
            return
        try:
            state_file.write(self._guest.folder, manifest.NAME, data)
        except OSError:
            self._suspect = True
            return
        self._written = body
        self._seen = self._look()

    # What another system broke

    def _rebuild(self) -> None:
        if self._guest.sleeping is not None or self._base is None:
            return
        command = [sys.executable, "-I", "-S", "-B", PROGRAM, "environment", "rebuild", self._guest.workspace]
        task = Task(self._guest.tasks.new_number(), command, "/", {}, "never")
        try:
            self._guest.tasks.start(task)
        except OSError:
            return  # the next wake finds the same, and tries again
        self._rebuilding = task

    def task_ended(self, task: Task) -> list[str]:
        """What a person should know, if it was the rebuilding."""
        self.ended(_SLOW_MS)
        if task is not self._rebuilding:
            return []
        self._rebuilding = None
        if task.exit_code not in (0, 1):
            return []
        self._pending = False
        self._suspect = True
        try:
            self._report = manifest.load(self._guest.folder, manifest.REPORT)
        except manifest.Damaged:
            self._report = None
        self.ended(_SLOW_MS)
        return _sentences(self._report)

    def told(self) -> None:
        """What the report says was told to somebody."""
        if self._report is not None:
            path = os.path.join(self._guest.folder, manifest.REPORT)
            if os.path.isfile(path):
                os.unlink(path)


def _has_packages(body: dict[str, Any]) -> bool:
    return any(body.get(key) for key in ("python", "npm", "apt", "uv", "cargo"))


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The facts that a person knows by name; empty where only packages of the system are others."""
    told = [
        f"{word}{_word(before.get(key))} → {_word(now.get(key))}"
        for key, word in _TELLING
        if _word(before.get(key)) != _word(now.get(key))
    ]
    pythons = (sorted(map(_word, dict(each.get("python") or {}).values())) for each in (before, now))
    old, new = (" and ".join(each) or "none" for each in pythons)
    return ", ".join([*told, *([f"Python {old} → {new}"] if old != new else [])])


def _word(fact: object) -> str:
    return str(fact or "none")[:100]


def _sentences(report: dict[str, Any] | None) -> list[str]:
    """Of a report that anybody inside may have written: so many sentences, and so long."""
    notes = []
    for key, word in (("done", "rebuilt"), ("failed", "not rebuilt")):
        said = report.get(key) if report else None
        for sentence in said[:20] if isinstance(said, list) else []:
            notes.append(f"{word}: {str(sentence)[:500]}")
    return notes

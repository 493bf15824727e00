"""Process state as it goes into the volume: secrets withheld, size bounded, written only when it changed."""

from __future__ import annotations

import os
from functools import partial

from . import crontab, seal, state_file
from .screening import Screening
from .scrollback import without_secrets
from .secret_filter import holds_secret, text_holds_secret, variable_holds_secret, words_hold_secret
from .tasks import NOT_KEPT, Task
from .terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_ITEM_BYTES = 32 << 10
_HISTORY_SHRUNK = 20
_BODY_BYTES = state_file.MAX_BYTES - 1024
"""What is left of the file beside its seal."""
_HIDDEN = "something whose name looks like a secret"
_TOUCHED_NOTE = "session_state.json was changed by something else; it was written anew"


class Publisher:
    """Writes ``session_state.json``. Remembers what it has told about, so that a note is given once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last: bytes | None = None
        self._looks: tuple[int, ...] = ()
        """How the file looked when it was written: what looks otherwise is somebody else's."""
        self._told: set[str] = set()
        self.screening: Screening | None = None
        self._life, self._key, self._number = "", os.urandom(32).hex(), 0
        self.digest: str | None = None

    def seal_with(self, life: str, key: str, number: int) -> None:
        """``number``: of the last state before this life."""
        self._life, self._key, self._number = life, key, number

    def publish(
        self,
        terminals: Iterable[Terminal],
        tasks: Iterable[Task],
        ended: Iterable[Task],
        next_task: int,
        timers: str = "",
    ) -> list[str]:
        """Write it; the notes for the person. ``digest`` is None when it could not be written."""
        notes: list[str] = []
        document: dict[str, Any] = {
            "version": state_file.VERSION,
            "crontab": crontab.kept(timers),
            "next_task": next_task,
            "terminals": {
                terminal.name: self._terminal(terminal, notes)
                for terminal in terminals
                if terminal.state is not None and self._may_be_named(terminal, notes)
            },
            "tasks": [self._task(task, notes) for task in tasks],
            "ended": [{**self._task(task, notes), "exit_code": task.exit_code} for task in ended],
        }
        if document["crontab"] != timers:
            self._withhold("a line of the crontab", notes)
        if self.screening is not None:
            for what in self.screening.clean(document):
                self._withhold(what, notes)
        body = self._within_bounds(document, notes)
        touched = self._last is not None and state_file.look(self._folder) != self._looks
        if touched:
            notes.append(_TOUCHED_NOTE)
        if body == self._last and not touched:
            return notes
        self._number += 1
        data = seal.sealed(body, self._key, self._life, self._number)
        try:
            # Whatever is killed, it stands; where power is lost, it goes as what the command wrote goes.
            state_file.write(self._folder, state_file.CURRENT, data, durable=False)
        except OSError as error:
            self._last = self.digest = None
            notes.append(f"terminal state was not saved: {error.strerror}")
            return notes
        self._last, self._looks, self.digest = body, state_file.look(self._folder), state_file.digest_of(data)
        return notes

    def _withhold(self, what: str, notes: list[str], reason: str = "") -> None:
        note = f"not kept: {what}{reason}"
        if note not in self._told:
            self._told.add(note)
            notes.append(note)

    def _may_be_named(self, terminal: Terminal, notes: list[str]) -> bool:
        if named := holds_secret(terminal.name):
            self._withhold("a terminal whose name looks like a secret", notes)
        return not named

    def _terminal(self, terminal: Terminal, notes: list[str]) -> dict[str, Any]:
        state = dict(terminal.state or {})
        not_kept: list[str] = []

        def keep(what: str, size: int, is_secret: Callable[[], bool]) -> bool:
            too_large = size > _ITEM_BYTES
            if too_large or is_secret():
                what = _HIDDEN if holds_secret(what) else what
                self._withhold(what, notes, " (too large)" if too_large else "")
                not_kept.append(what)
                return False
            return True

        state["variables"] = {
            name: variable
            for name, variable in state["variables"].items()
            if keep(name, _size(variable["value"]), partial(variable_holds_secret, name, variable["value"]))
        }
        state["functions"] = {
            name: function
            for name, function in state["functions"].items()
            if keep(f"function {name}", len(function["text"]), partial(text_holds_secret, function["text"]))
        }
        for key, word in (("aliases", "alias"), ("traps", "trap")):
            state[key] = {
                name: text
                for name, text in state[key].items()
                if keep(f"{word} {name}", len(text), partial(words_hold_secret, (text, f"{name}={text}")))
            }
        for key, words in (("positional", "positional parameters"), ("directories", "the directory stack")):
            kept = state.get(key, [])
            if kept and not keep(words, sum(map(len, kept)), partial(words_hold_secret, kept)):
                state[key] = []
        if not keep("the working directory", len(state["cwd"]), partial(text_holds_secret, state["cwd"])):
            state["cwd"] = ""
        completions = state.get("completions", [])
        size = sum(len(word) for words in completions for word in words)
        if completions and not keep("completions", size, partial(any, map(words_hold_secret, completions))):
            state["completions"] = []
        for key, words in (("hashed", "remembered programs"), ("descriptors", "names of open files")):
            found = state.get(key, {})
            together = " ".join(map(str, (*found, *found.values()) if isinstance(found, dict) else found))
            if found and not keep(words, len(together), partial(text_holds_secret, together)):
                state[key] = type(found)()
        history = [entry for entry in terminal.history if not text_holds_secret(entry)]
        if len(history) < len(terminal.history):
            self._withhold("a command in the history", notes)
        state["history"] = history
        shown = list(terminal.scrollback.lines)
        state["scrollback"] = without_secrets(shown, self._withheld(terminal))
        if len(state["scrollback"]) != len(shown) or state["scrollback"] != shown:
            self._withhold(f"what terminal {terminal.name} showed, in part", notes)
        state["open"] = terminal.open_program()
        if text_holds_secret(state["open"]):
            state["open"] = state["open"].split(" ")[0]
        state["not_kept"] = sorted(not_kept)
        return state

    @staticmethod
    def _withheld(terminal: Terminal) -> Iterator[str]:
        """Values that are secrets by the name of their variable, and may be told by nothing but themselves."""
        variables = terminal.state["variables"] if terminal.state else {}
        for name, variable in variables.items():
            value = variable["value"]
            for each in value.values() if isinstance(value, dict) else [value]:
                if each and variable_holds_secret(name, each):
                    yield from each.splitlines()

    def _task(self, task: Task, notes: list[str]) -> dict[str, Any]:
        record = task.record()
        del record["state"], record["exit_code"]
        too_large = sum(map(len, task.argv)) > _ITEM_BYTES
        if too_large or words_hold_secret(task.argv):
            self._withhold(f"arguments of task {task.number}", notes, " (too large)" if too_large else "")
            _drop_arguments(record)
        record["terminal"], record["open"] = task.terminal, task.open
        record["stopped"] = task.state == "stopped"
        if text_holds_secret(task.open):
            record["open"] = task.open.split(" ")[0]
        for key in ("cwd", "log"):
            if text_holds_secret(record[key]):
                self._withhold(f"{key} of task {task.number}", notes)
                record[key] = ""
        record["environment"] = {}
        for name, value in task.environment.items():
            if variable_holds_secret(name, value):
                self._withhold(f"{_HIDDEN if holds_secret(name) else name} of task {task.number}", notes)
            elif len(value) <= _ITEM_BYTES:
                record["environment"][name] = value
        return record

    def _within_bounds(self, document: dict[str, Any], notes: list[str]) -> bytes:
        """Drop history first, then the largest things, whether a terminal or a task holds them, until it fits."""
        data = state_file.encode(document)
        if len(data) <= _BODY_BYTES:
            return data
        for terminal in document["terminals"].values():
            terminal["history"] = terminal["history"][-_HISTORY_SHRUNK:]
            terminal["scrollback"] = terminal["scrollback"][-_HISTORY_SHRUNK:]
        data = state_file.encode(document)
        excess = len(data) - _BODY_BYTES
        droppable = sorted(_droppable(document), key=lambda item: item[0])
        while excess > 0 and droppable:
            size, what, drop = droppable.pop()
            drop()
            self._withhold(what, notes, " (too large)")
            excess -= size
            if excess <= 0:
                data = state_file.encode(document)
                excess = len(data) - _BODY_BYTES
        if len(data) > _BODY_BYTES:
            del document["tasks"][state_file.MAX_TASKS :]
            data = state_file.encode(document)
        return data


def _droppable(document: dict[str, Any]) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """What a state can do without: its size, its name, and how to drop it."""

    def of_terminal(place: dict[str, Any], name: str, not_kept: list[str]) -> Callable[[], None]:
        def drop() -> None:
            del place[name]
            not_kept.append(name)

        return drop

    for terminal in document["terminals"].values():
        for key in ("variables", "functions", "aliases", "traps"):
            for name, item in terminal[key].items():
                yield _size(item), name, of_terminal(terminal[key], name, terminal["not_kept"])
    for task in (*document["tasks"], *document["ended"]):
        yield sum(map(len, task["argv"])), f"arguments of task {task['task']}", partial(_drop_arguments, task)
        for name, value in task["environment"].items():
            yield len(value), f"{name} of task {task['task']}", partial(task["environment"].pop, name)


def _drop_arguments(record: dict[str, Any]) -> None:
    """What is left names the program; it cannot be started again from that."""
    record["argv"] = [os.path.basename(record["argv"][0])[:200], NOT_KEPT]
    record["policy"] = "never"


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(len(key) + _size(item) for key, item in value.items())
    return len(value) if isinstance(value, str) else 8

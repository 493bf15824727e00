"""Credentials that the host knows are kept out of what is written, without the guest ever knowing one.

Each text is shown to the host once, before it is first written; the host says which of them not to write. Where it does
not answer, nothing new is written.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .framing import Connection

    LeaveOut = Callable[[str], None]
    """Takes the name to note for it."""
    Item = tuple[list[str], str, str, LeaveOut]
    """Texts, the word for it, its name (itself one of the texts, or empty), and how to leave it out."""

_HIDDEN = "something whose name holds it"
_UNSURE = "something that could not be checked"
_WAIT_S = 3.0
_CHUNK = 200_000
_CLEAN_KEPT = 50_000
_WORDS = {"variables": "", "functions": "function ", "aliases": "alias ", "traps": "trap "}
_LINES = {"history": "a command in the history", "scrollback": "a line that was shown"}


class Screening:
    """What was found clean is remembered, by its hash: most of what is written was written before."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._number = 0
        self._clean: set[int] = set()
        self._answered = True

    def clean(self, state: dict[str, Any]) -> list[str]:
        """Take out of a process state what holds a credential; the names of it."""
        return self._leave_out(list(_of_state(state)))

    def clean_lists(self, body: dict[str, Any]) -> list[str]:
        """The same of ``environment.json``."""
        return self._leave_out(list(_of_lists(body)))

    def _leave_out(self, items: list[Item]) -> list[str]:
        held = self._held([text for texts, *_ in items for text in texts])
        hidden = _HIDDEN if self._answered else _UNSURE
        withheld = []
        for texts, word, name, leave_out in items:
            if not held.isdisjoint(texts):
                leave_out(hidden if name in held else name)
                withheld.append(word + (hidden if name in held else name))
        return withheld

    def _held(self, texts: list[str]) -> set[str]:
        new = [text for text in dict.fromkeys(texts) if len(text) > 3 and hash(text) not in self._clean]
        held: set[str] = set()
        while new:
            size, count = 0, 0
            while count < len(new) and (size < _CHUNK or not count):
                size += len(new[count])
                count += 1
            asked, new = new[:count], new[count:]
            places = self._ask(asked)
            held |= set(asked) if places is None else {asked[place] for place in places}
        if len(self._clean) > _CLEAN_KEPT:
            self._clean.clear()
        self._clean |= {hash(text) for text in texts if text not in held}
        return held

    def _ask(self, texts: list[str]) -> list[int] | None:
        self._number += 1
        event = {"event": "screen", "number": self._number, "texts": texts}
        counsel = self._connection.consult(event, self._number, _WAIT_S)
        places = counsel.get("held") if counsel else None
        self._answered = isinstance(places, list)
        if not isinstance(places, list):
            return None
        return [place for place in places if isinstance(place, int) and 0 <= place < len(texts)]


def _of_state(state: dict[str, Any]) -> Iterator[Item]:
    for name, terminal in list(state["terminals"].items()):
        yield [name], "terminal ", name, _remover(state["terminals"], name)
        yield from _of_terminal(name, terminal)
    for task in (*state["tasks"], *state["ended"]):
        title = f" of task {task['task']}"
        for name, value in list(task["environment"].items()):
            yield [name, value], "a variable" + title + ": ", name, _remover(task["environment"], name)
        yield list(task["argv"]), "arguments" + title, "", _argument_remover(task)
        for key in ("cwd", "log", "open", "terminal"):
            if isinstance(task.get(key), str):
                yield [task[key]], f"{key}{title}", "", _blanker(task, key)
    if isinstance(state.get("crontab"), str):
        yield from _of_text(state, "crontab", "a line of the crontab")


def _of_terminal(title: str, terminal: dict[str, Any]) -> Iterator[Item]:
    for key, value in list(terminal.items()):
        if key in _WORDS:
            for name, item in list(value.items()):
                remove = _remover(value, name, terminal["not_kept"], _WORDS[key])
                yield [name, *_strings(item)], _WORDS[key], name, remove
        elif key in _LINES:
            for line in list(dict.fromkeys(value)):
                yield [line], _LINES[key], "", _line_remover(value, line)
        elif isinstance(value, str):
            yield [value], f"{key} of terminal {title}", "", _blanker(terminal, key)
        elif isinstance(value, (list, dict)):
            yield list(_strings(value)), f"{key} of terminal {title}", "", _clearer(value)


def _of_text(place: dict[str, Any], key: str, what: str) -> Iterator[Item]:
    for line in dict.fromkeys(place[key].splitlines()):
        yield [line], what, "", _text_remover(place, key, line)


def _of_lists(body: dict[str, Any]) -> Iterator[Item]:
    """Every list is of things that can be left out one by one; what else holds a credential goes with what it is in."""
    for key, value in list(body.items()):
        if not isinstance(value, list):
            continue
        for item in list(value):
            parts = item.get("packages", []) if isinstance(item, dict) else []
            for part in list(parts):
                yield [part], "a package of Python", "", _line_remover(parts, part)
            own = {name: each for name, each in item.items() if name != "packages"} if parts else item
            yield list(_strings(own)), f"something of {key}", "", _line_remover(value, item)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _remover(place: dict[str, Any], name: str, not_kept: list[str] | None = None, word: str = "") -> LeaveOut:
    def remove(noted: str) -> None:
        place.pop(name, None)
        if not_kept is not None:
            not_kept.append(f"{word}{noted}")

    return remove


def _line_remover(lines: list[Any], line: Any) -> LeaveOut:
    def remove(_: str) -> None:
        lines[:] = [each for each in lines if each != line]

    return remove


def _text_remover(place: dict[str, Any], key: str, line: str) -> LeaveOut:
    def remove(_: str) -> None:
        place[key] = "".join(f"{each}\n" for each in place[key].splitlines() if each != line)

    return remove


def _clearer(value: list[Any] | dict[str, Any]) -> LeaveOut:
    return lambda _: value.clear()


def _blanker(place: dict[str, Any], key: str) -> LeaveOut:
    def blank(_: str) -> None:
        place[key] = ""

    return blank


def _argument_remover(task: dict[str, Any]) -> LeaveOut:
    """What is left names no program; it cannot be started again from that."""

    def remove(_: str) -> None:
        task["argv"], task["policy"] = ["[not kept]"], "never"

    return remove

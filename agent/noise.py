"""What a program's output says to a terminal and not to a reader: dropped once, when the result is recorded.

Escape sequences go, what a carriage return or a backspace wrote over goes (of a progress bar its last state stays), and
a line that comes again and again stands once with how often it came. Every line that differs stays as it was. Linear in
what is read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from agent import texts

REPEATED = 4
"""A line stands so often in a row; of more, it is said how many."""

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI (ECMA-48, 5.4)
    # OSC, DCS, SOS, PM, APC with their strings; one that never ends must not hide what follows.
    r"|[\]PX^_](?:[^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\))?"
    r"|[ -/]*[0-~])?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def without(text: str) -> str:
    """The same output without its noise."""
    return "\n".join(_once(as_shown(text)))


def as_shown(text: str) -> Iterator[str]:
    """Lines as a terminal shows them in the end, without colours."""
    for line in _ESCAPE.sub("", text).split("\n"):
        shown = line.rstrip("\r").rpartition("\r")[2]
        yield _CONTROL.sub("", _overstruck(shown) if "\b" in shown else shown)


def _overstruck(line: str) -> str:
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


def _once(lines: Iterable[str]) -> Iterator[str]:
    for line, same in itertools.groupby(lines):
        count = sum(1 for _ in same)
        note = texts.same_line(count - 1)
        # Never longer than what it stands for.
        if count <= REPEATED or len(note) >= (count - 1) * (len(line) + 1):
            yield from itertools.repeat(line, count)
        else:
            yield line
            yield note

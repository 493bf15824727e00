"""The last lines of a terminal, as text for people: nothing in them moves a cursor, and no secret is among them."""

from __future__ import annotations

import re
from collections import deque

from .output import decode
from .secret_filter import text_holds_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LINES = 200
LINE_CHARS = 400
CHARS = 16 << 10
TAKEN_BYTES = 32 << 10
"""Of what one command printed last."""
NOT_KEPT = "[not kept: it looks like a secret]"
_LONG_ENOUGH = 6
"""A withheld value that is shorter is in too many lines that say nothing of it."""

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI (ECMA-48, 5.4)
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC, with their strings
    r"|[ -/]*[0-~])?"
)
_BACKSPACE = re.compile(r"[^\x08]\x08")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY|PuTTY-User-Key-File")
_KEY_ENDS = re.compile(r"---- ?-?END [A-Z0-9 ]*PRIVATE KEY|^Private-MAC:")
_KEY_GOES_ON = re.compile(r"[> ]*(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,75}={1,2})\s*\Z")
"""A line of base64 after one that held a secret: the rest of a key whose first line was not shown, or is cut off."""
_KEY_CLOSES = (re.compile(r"[> ]*=[A-Za-z0-9+/]{4}\s*\Z"), re.compile(r"[> ]*[A-Za-z0-9+/]{1,75}={0,2}\s*\Z"))
"""What may stand before the line that says END: a checksum (RFC 4880, 6.1), before it a line of any length."""


def as_shown(text: str) -> list[str]:
    """Lines as a person saw them last: escape sequences gone, what a carriage return wrote over gone."""
    lines = []
    for line in _ESCAPE.sub("", text).split("\n"):
        shown = line.rstrip("\r").rpartition("\r")[2]
        while _BACKSPACE.search(shown):
            shown = _BACKSPACE.sub("", shown)
        lines.append(_CONTROL.sub("", shown.replace("\t", "    "))[:LINE_CHARS])
    return lines


def without_secrets(lines: Iterable[str], withheld: Iterable[str] = ()) -> list[str]:
    """The same lines, those replaced that hold a secret by its shape, by its name, or a value in ``withheld``."""
    values = [value for value in withheld if len(value) >= _LONG_ENOUGH]
    kept: list[str] = []
    in_key = after_one = False
    for line in lines:
        in_key = in_key or _KEY_BEGINS.search(line) is not None
        secret = in_key or text_holds_secret(line) or any(value in line for value in values)
        secret = secret or (after_one and _KEY_GOES_ON.match(line) is not None)
        after_one = secret
        if _KEY_ENDS.search(line):
            if not in_key:
                _take_back_key(kept)
            in_key = False
        if not secret:
            kept.append(line)
        elif not kept or kept[-1] != NOT_KEPT:
            kept.append(NOT_KEPT)
    return kept


def _take_back_key(kept: list[str]) -> None:
    """Drop the lines of a key whose beginning was not shown: only its end tells what they are."""
    for closing in _KEY_CLOSES:
        if kept and closing.match(kept[-1]):
            kept.pop()
    while kept and _KEY_GOES_ON.match(kept[-1]):
        kept.pop()


class Scrollback:
    """What a terminal showed last, a command with its output after it."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES)

    def add(self, command: str, output: bytes) -> None:
        first, *more = as_shown(command.strip("\n"))
        self.lines.extend([f"$ {first}", *(f"> {line}" for line in more)][:LINES])
        text = decode(output[-TAKEN_BYTES:])
        if text:
            self.lines.extend(as_shown(text.removesuffix("\n"))[-LINES:])
        self.fit()

    def fit(self) -> None:
        size = sum(map(len, self.lines))
        while size > CHARS:
            size -= len(self.lines.popleft())

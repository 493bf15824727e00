"""Reading what bash prints about itself: ``declare -p``, ``trap -p``, ``set +o``, ``shopt -p``.

Text is decoded with surrogateescape, so that values which are not UTF-8 come back byte for byte.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    Value = str | dict[str, str] | None

_STATEMENT = re.compile(r"declare -([A-Za-z-]+) ([A-Za-z_][A-Za-z0-9_]*)(=?)")
_NEXT_STATEMENT = re.compile(r"^declare -", re.MULTILINE)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BARE = re.compile(r"(?:[^\s'\"\\$()\]\[]|\\.|\$(?!'))+", re.DOTALL)
_BARE_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_DOUBLE_ESCAPE = re.compile(r'\\([$`"\\])')
_ANSI_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))", re.DOTALL
)
_JOB = re.compile(r"^\[[0-9]+\][ +-]  ", re.MULTILINE)
_JOB_ENDS = re.compile(r"(?: &)?(?:  \(wd: .*\))?\s*\Z")
_ANSI_LETTERS = {"a": 7, "b": 8, "e": 27, "E": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class Malformed(ValueError):
    """The text is not what bash prints."""


def _from_ansi(text: str) -> str:
    if "\\" not in text:
        return text
    result = bytearray()
    position = 0
    for match in _ANSI_ESCAPE.finditer(text):
        result += text[position : match.start()].encode("utf-8", "surrogateescape")
        octal, hexadecimal, short, long, control, other = match.groups()
        if octal:
            result.append(int(octal, 8) & 0xFF)
        elif hexadecimal:
            result.append(int(hexadecimal, 16))
        elif short or long:
            result += chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
        elif control:
            result.append(ord(control) & 0x1F)
        elif other in _ANSI_LETTERS:
            result.append(_ANSI_LETTERS[other])
        else:
            result += other.encode("utf-8", "surrogateescape")
        position = match.end()
    result += text[position:].encode("utf-8", "surrogateescape")
    return result.decode("utf-8", "surrogateescape")


_STATE_COLUMNS = 24
"""Of ``jobs``: what a job does at present, padded."""


def _escaped(escape: re.Match[str]) -> str:
    """In place of ``r"\1"``: for that the library would import what parses it."""
    return escape[1]


def read_word(text: str, start: int) -> tuple[str, int]:
    """One quoted word at ``start``; its value and where it ends. Raises Malformed."""
    parts: list[str] = []
    position = start
    while position < len(text):
        first = text[position]
        if first == '"':
            match, value = _DOUBLE.match(text, position), None
            value = _DOUBLE_ESCAPE.sub(_escaped, match[1]) if match else None
        elif first == "'":
            match = _SINGLE.match(text, position)
            value = match[1] if match else None
        elif first == "$" and text.startswith("$'", position):
            match = _ANSI.match(text, position)
            value = _from_ansi(match[1]) if match else None
        else:
            match = _BARE.match(text, position)
            if match is None:
                break
            value = _BARE_ESCAPE.sub(_escaped, match[0])
        if match is None or value is None:
            raise Malformed(text[position : position + 40])
        parts.append(value)
        position = match.end()
    return "".join(parts), position


def _read_array(text: str, start: int) -> tuple[dict[str, str], int]:
    elements: dict[str, str] = {}
    position = start + 1
    while True:
        while text[position : position + 1] == " ":
            position += 1
        if text[position : position + 1] == ")":
            return elements, position + 1
        if text[position : position + 1] != "[":
            raise Malformed(text[position : position + 40])
        key, position = _read_key(text, position + 1)
        elements[key], position = read_word(text, position)


def _read_key(text: str, start: int) -> tuple[str, int]:
    key, position = read_word(text, start)
    if not text.startswith("]=", position):
        # Bash prints keys such as ``a[b`` bare: they end at the first ``]=``.
        position = text.find("]=", start)
        if position < 0:
            raise Malformed(text[start : start + 40])
        key = text[start:position]
    return key, position + 2


def read_declarations(text: str) -> dict[str, tuple[str, Value]]:
    """``declare -p``: name to (flags, value); arrays are dictionaries, None is declared without a value.

    A statement that cannot be read is left out, and reading goes on at the next.
    """
    variables: dict[str, tuple[str, Value]] = {}
    position = 0
    while True:
        match = _STATEMENT.match(text, position)
        if match is None:
            following = _NEXT_STATEMENT.search(text, position + 1) if position < len(text) else None
            if following is None:
                return variables
            position = following.start()
            continue
        flags, name, assigned = match.group(1).replace("-", ""), match.group(2), match.group(3)
        position = match.end()
        value: Value = None
        try:
            if assigned and text[position : position + 1] == "(":
                value, position = _read_array(text, position)
            elif assigned:
                value, position = read_word(text, position)
        except Malformed:
            continue
        variables[name] = (flags, value)
        position += 1


def read_traps(text: str) -> dict[str, str]:
    """``trap -p``: signal to command; an empty command means ignored."""
    traps: dict[str, str] = {}
    position = 0
    while text.startswith("trap -- ", position):
        try:
            command, position = read_word(text, position + 8)
        except Malformed:
            break
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        traps[text[position:end].strip()] = command
        position = end + 1
    return traps


def read_words(text: str) -> list[str]:
    """Words as ``printf '%q '`` quotes them."""
    words: list[str] = []
    position = 0
    while position < len(text):
        try:
            word, end = read_word(text, position)
        except Malformed:
            break
        words.append(word)
        position = max(end, position) + 1
    return words


def read_switches(text: str, on: str) -> dict[str, bool]:
    """``set +o`` (``on`` is ``-o``) and ``shopt -p`` (``-s``): name to whether it is on."""
    switches: dict[str, bool] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3:
            switches[words[2]] = words[1] == on
    return switches


def read_statements(text: str, command: str) -> list[list[str]]:
    """The words after ``command`` of each statement that begins with it, as ``complete -p`` prints them."""
    statements: list[list[str]] = []
    position = 0
    while text.startswith(f"{command} ", position):
        position += len(command)
        words: list[str] = []
        try:
            while text[position : position + 1] == " ":
                word, position = read_word(text, position + 1)
                words.append(word)
        except Malformed:
            position = text.find("\n", position)
            if position < 0:
                break
        else:
            statements.append(words)
        position += 1
    return statements


def read_jobs(text: str, groups: str) -> dict[int, str]:
    """``jobs`` and ``jobs -p``: process group to what it runs, as bash says it."""
    entries = _JOB.split(text)[1:]
    leaders = [int(word) for word in groups.split() if word.isdigit()]
    if len(entries) != len(leaders):
        return {}
    said = (_JOB_ENDS.sub("", entry[_STATE_COLUMNS:]) for entry in entries)
    return dict(zip(leaders, said))  # noqa: B905 - strict= is 3.10

"""Reads, writes, edits, lists and searches files: a JSON request on standard input, a JSON answer on standard output.

Runs inside the sandbox with its rights: what a link points to is what the sandbox may see anyway. Everything is
bounded: bytes read, lines shown, files looked at, seconds spent.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
import re
import signal
import stat
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WORKSPACE = os.getcwd()
MOST_READ = 64 << 20
SHOWN_CHARACTERS = 100_000
LINE_CHARACTERS = 2_000
ENTRIES = 500
MATCHES = 200
SEARCHED_FILE = 8 << 20
SEARCHED_FILES = 50_000
SEARCH_SECONDS = 15
PEEKED = 8192
NEAR_LINES = 20_000
SKIPPED = {".git", "node_modules", "__pycache__", ".venv", ".nightporter"}


class Refused(Exception):
    """It was not done; the text says why and what to do."""


class OutOfTime(Exception):
    pass


def where(path: str) -> str:
    """A path as it was written, whole: relative to the workspace, ``~`` the home."""
    if "\0" in path:
        raise Refused("a path cannot hold a NUL character")
    return os.path.normpath(os.path.join(WORKSPACE, os.path.expanduser(path)))


def open_plain(path: str) -> int:
    """Raises Refused for what is no regular file; never waits for a FIFO."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(f"there is no file {path}{near_names(path)}") from None
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        os.close(descriptor)
        raise Refused(f"{path} is a folder; list it")
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise Refused(f"{path} is no regular file")
    return descriptor


def near_names(path: str) -> str:
    try:
        names = os.listdir(os.path.dirname(path) or "/")[:5000]
    except OSError:
        return ""
    near = difflib.get_close_matches(os.path.basename(path), names, 3, 0.6)
    return f"; there is {', '.join(near)}" if near else ""


def contents(path: str) -> bytes:
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(MOST_READ + 1)
    if len(data) > MOST_READ:
        raise Refused(f"{path} has more than {MOST_READ >> 20} MB; use the shell for a part of it")
    return data


def text_of(path: str) -> str:
    """The text of a file. Raises Refused for one that is none."""
    data = contents(path)
    if b"\0" in data[:PEEKED]:
        raise Refused(f"{path} is a binary file of {len(data):,} bytes; it was not shown")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path} is not UTF-8 (byte {error.start} of {len(data):,}); convert it with the shell first"
        ) from None


def cut(line: str) -> str:
    left_out = len(line) - LINE_CHARACTERS
    return line if left_out <= 0 else f"{line[:LINE_CHARACTERS]}[… {left_out:,} characters more]"


def read(given: dict[str, Any]) -> dict[str, Any]:
    path = where(given["path"])
    text = text_of(path)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(int(given.get("first", 1)), 1)
    last = min(int(given["last"]) if given.get("last") else len(lines), len(lines))
    if first > len(lines) and lines:
        raise Refused(f"{path} has only {len(lines)} lines")
    shown: list[str] = []
    used = 0
    for line in lines[first - 1 : last]:
        line = cut(line)
        used += len(line) + 1
        if used > SHOWN_CHARACTERS and shown:
            break
        shown.append(line)
    end = first + len(shown) - 1
    return {"path": path, "text": "\n".join(shown), "first": first if lines else 0, "last": end, "lines": len(lines)}


def put(path: str, data: bytes) -> None:
    """Write a file whole or not at all, with the mode it had."""
    path = os.path.realpath(path)
    mode = 0o644
    if os.path.lexists(path):
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path} is no regular file")
        mode = stat.S_IMODE(found.st_mode)
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".nightporter-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write(given: dict[str, Any]) -> dict[str, Any]:
    path = where(given["path"])
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder")
    there = os.path.lexists(path)
    data = given["content"].encode("utf-8")
    put(path, data)
    return {"path": path, "bytes": len(data), "replaced": there}


def edit(given: dict[str, Any]) -> dict[str, Any]:
    path, old, new = where(given["path"]), given["old"], given["new"]
    text = text_of(path)
    if old == new:
        raise Refused("old and new are the same")
    count = text.count(old)
    if count == 0:
        raise Refused(not_found(path, text, old))
    if count > 1 and not given.get("everywhere"):
        raise Refused(
            f"the text is in {path} {count} times (lines {', '.join(map(str, lines_of(text, old)))}); give more of "
            "what stands around the one you mean, or say everywhere"
        )
    at = text.count("\n", 0, text.index(old)) + 1
    put(path, text.replace(old, new).encode("utf-8"))
    return {"path": path, "count": count, "line": at}


def lines_of(text: str, old: str, most: int = 10) -> Iterator[int]:
    start = text.find(old)
    while start >= 0 and most > 0:
        yield text.count("\n", 0, start) + 1
        start = text.find(old, start + 1)
        most -= 1


def not_found(path: str, text: str, old: str) -> str:
    """Why an edit did not match, with what comes nearest."""
    said = [f"the text to be replaced is not in {path}"]
    if old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        said.append("it is there with other line ends (CRLF)")
    elif "".join(old.split()) in "".join(text.split()):
        said.append("it is there but for spaces or line ends")
    wanted = next((line for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")[:NEAR_LINES]
    matcher = difflib.SequenceMatcher(None, "", wanted.strip())

    def ratio_of(line: str, *, quick: bool) -> float:
        matcher.set_seq1(line.strip()[:LINE_CHARACTERS])
        return matcher.quick_ratio() if quick else matcher.ratio()

    scored = sorted(((ratio_of(line, quick=True), -n) for n, line in enumerate(lines)), reverse=True)[:50]
    near = sorted(((ratio_of(lines[-n], quick=False), n) for _, n in scored), reverse=True)
    shown = [f"{1 - n}: {cut(lines[-n])}" for ratio, n in near[:3] if ratio > 0.5]
    return "; ".join(said) + (". Nearest lines:\n" + "\n".join(shown) if shown else "; read the file again")


def entry(path: str, name: str) -> str:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return f"{name} -> {os.readlink(path)}"
    if stat.S_ISDIR(found.st_mode):
        return f"{name}/"
    return f"{name}  {found.st_size:,} bytes"


def list_folder(given: dict[str, Any]) -> dict[str, Any]:
    top = where(given.get("path") or ".")
    if not os.path.isdir(top):
        raise Refused(f"{top} is no folder{near_names(top)}")
    depth = min(max(int(given.get("depth", 1)), 1), 8)
    shown: list[str] = []
    more = 0
    for folder, folders, names in os.walk(top):
        below = os.path.relpath(folder, top)
        level = 0 if below == "." else below.count(os.sep) + 1
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(name for name in folders if name not in links)
        for name in sorted([*folders, *names, *links]):
            if len(shown) >= ENTRIES:
                more += 1
                continue
            path = os.path.join(folder, name)
            try:
                shown.append(entry(path, name if level == 0 else os.path.join(below, name)))
            except OSError:
                continue
        folders[:] = [] if level + 1 >= depth or more else [name for name in folders if name not in SKIPPED]
    return {"path": top, "entries": shown, "more": more}


def files_below(top: str) -> Iterator[str]:
    if os.path.isfile(top):
        yield top
        return
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            yield os.path.join(folder, name)


def wanted_by(pattern: str, path: str, top: str) -> bool:
    below = os.path.relpath(path, top)
    return fnmatch.fnmatch(os.path.basename(path), pattern) or fnmatch.fnmatch(below, pattern.replace("**/", "*"))


def search(given: dict[str, Any]) -> dict[str, Any]:
    top = where(given.get("path") or ".")
    if not os.path.exists(top):
        raise Refused(f"there is no {top}{near_names(top)}")
    pattern = given.get("pattern") or ""
    try:
        flags = re.IGNORECASE if given.get("ignore_case") else 0
        matches = re.compile(pattern if given.get("regex", True) else re.escape(pattern), flags).search
    except re.error as error:
        raise Refused(f"the pattern is no regular expression: {error}") from None
    found: list[str] = []
    looked = [0]
    why = ""

    def ring(number: int, frame: object) -> None:
        raise OutOfTime

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(SEARCH_SECONDS)
    try:
        for path in files_below(top):
            if given.get("glob") and not wanted_by(given["glob"], path, top):
                continue
            looked[0] += 1
            if looked[0] > SEARCHED_FILES:
                why = f"only the first {SEARCHED_FILES:,} files were looked at"
                break
            shown = os.path.relpath(path, WORKSPACE) if path.startswith(f"{WORKSPACE}/") else path
            if not pattern:
                found.append(shown)
            else:
                found += [f"{shown}:{number}: {line}" for number, line in matching_lines(path, matches, MATCHES)]
            if len(found) >= MATCHES:
                why = f"only the first {MATCHES} are shown"
                break
    except OutOfTime:
        why = f"it was cut off after {SEARCH_SECONDS} s; narrow it by path or glob"
    finally:
        signal.alarm(0)
    return {"path": top, "matches": found[:MATCHES], "cut": why, "files": looked[0]}


def matching_lines(path: str, matches: Any, most: int) -> Iterator[tuple[int, str]]:
    """Lines of a text file that match; nothing of what is binary, too large, or no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > SEARCHED_FILE:
            return
        data = file.read(SEARCHED_FILE)
    if b"\0" in data[:PEEKED]:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if matches(line):
            yield number, line if len(line) <= 300 else f"{line[:300]}…"
            most -= 1
            if most <= 0:
                return


OPERATIONS = {"read": read, "write": write, "edit": edit, "list": list_folder, "search": search}


def main() -> None:
    given = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    try:
        answer: dict[str, Any] = OPERATIONS[given["op"]](given)
    except Refused as refusal:
        answer = {"refused": str(refusal)}
    except OSError as error:
        answer = {"refused": f"{error.filename or given.get('path')}: {error.strerror}"}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()

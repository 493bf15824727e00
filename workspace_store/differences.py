"""What changed between two generations of a volume, as text for a person: names, and lines of small text files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from workspace_store.trees import Change, Entry
from workspace_store.volumes import OWN_FOLDER, Volume

MAX_FILE_BYTES = 64 << 10
MAX_CHARACTERS = 12_000
MAX_NAMES = 200
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


def changes(volume: Volume, before: int, after: int) -> list[Change]:
    """By path; without the agent's own folder, and without folders that only hold what changed. 0: the empty one."""
    found = volume.diff(before, after)
    return [change for change in found if not change.is_directory and not change.path.startswith(OWN_FOLDER)]


def between(volume: Volume, before: int, after: int) -> str:
    """The names of what changed, then lines; empty where nothing did. Raises GenerationMissing."""
    found = changes(volume, before, after)
    names = [f"{_SIGNS[change.kind]} {shown(change.path)}" for change in found[:MAX_NAMES]]
    if len(found) > MAX_NAMES:
        names.append(f"… and {len(found) - MAX_NAMES} more")
    text = "\n".join(names)
    for change in found[:MAX_NAMES]:
        part = "\n".join(_lines(volume, change, before, after))
        if part and len(text) + len(part) < MAX_CHARACTERS:
            text += f"\n\n{part}"
    return text


def shown(path: str) -> str:
    """A volume's path as it is called in the sandbox; control characters and what is not UTF-8 made visible."""
    inside = path.replace("home/", "~/", 1) if path.startswith("home/") else path.removeprefix("workspace/")
    text = inside.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _lines(volume: Volume, change: Change, before: int, after: int) -> Iterator[str]:
    old, new = _text(volume, change.before, before), _text(volume, change.after, after)
    if old is None or new is None or old == new:
        return
    name = shown(change.path)
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="", n=2):
        yield "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)


def _text(volume: Volume, entry: Entry | None, number: int) -> str | None:
    """A small text file's words, empty where there is none; None for anything else."""
    if entry is None:
        return ""
    if entry.kind != "f" or entry.size > MAX_FILE_BYTES:
        return None
    try:
        text = volume.read_file(entry.path, number, max_bytes=MAX_FILE_BYTES).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text

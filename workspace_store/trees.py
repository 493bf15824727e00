"""Directories of a snapshot as objects: what an entry is, how a tree is written down, listed and compared.

A tree object is one JSON array a line, by name: ``["f", name, mode, mtime_ns, size, content, xattrs?]``. Content of a
file: a list of chunk hashes (hex) and holes (their length in bytes), or ``{"list": hash}`` where that list is long;
of a link (``"l"``): its target; of a directory (``"d"``): the hash of its tree. Names that are not UTF-8 carry
surrogate escapes. Equal subtrees are one object, so an unchanged directory costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workspace_store.beneath import AnyPath, UnsafePath, components

Read = Callable[[bytes], bytes]
"""Hash (32 bytes) to the object's bytes; raises ObjectMissing, ObjectCorrupt."""
LONG_LIST = 32
"""Chunks a file may have before its list becomes an object of its own."""
MODE_BITS = 0o1777
"""What of a mode is kept: never setuid or setgid."""


@dataclass(frozen=True)
class Entry:
    """One file (``f``), symbolic link (``l``) or directory (``d``) of a generation."""

    path: str
    """Relative to the volume, ``workspace/…`` or ``home/…``; surrogateescape for what is not UTF-8."""
    kind: Literal["f", "l", "d"]
    mode: int
    mtime_ns: int
    size: int
    """Bytes; 0 for a directory."""
    content: Any
    xattrs: dict[str, str]
    """``user.*`` attributes, values in hex."""


@dataclass(frozen=True)
class Change:
    """One path that differs between two generations. ``changed`` may be mode or time alone."""

    path: str
    kind: Literal["added", "changed", "removed"]
    before: Entry | None
    after: Entry | None

    @property
    def is_directory(self) -> bool:
        return all(entry is None or entry.kind == "d" for entry in (self.before, self.after))


def encode(
    kind: str, name: str, mode: int, mtime_ns: int, size: int, content: Any, xattrs: dict[str, str] | None = None
) -> bytes:
    """One line of a tree."""
    row = [kind, name, mode & MODE_BITS, mtime_ns, size, content, *([xattrs] if xattrs else [])]
    return json.dumps(row, separators=(",", ":"), sort_keys=True).encode()


def decode(line: bytes, parent: str = "") -> Entry:
    kind, name, mode, mtime_ns, size, content, *rest = json.loads(line)
    path = f"{parent}/{name}" if parent else name
    return Entry(path, kind, mode, mtime_ns, size, content, rest[0] if rest else {})


def lines(read: Read, tree: bytes) -> list[bytes]:
    data = read(tree)
    return data.split(b"\n") if data else []


def children(read: Read, tree: bytes, parent: str = "") -> list[Entry]:
    """Entries of one directory, by name."""
    return [decode(line, parent) for line in lines(read, tree)]


def entries(read: Read, root: bytes) -> Iterator[Entry]:
    """All entries below a root tree, a directory before what is in it, by name within each."""
    pending = [iter(children(read, root))]
    while pending:
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
            continue
        yield entry
        if entry.kind == "d":
            pending.append(iter(children(read, bytes.fromhex(entry.content), entry.path)))


def empty(add: Callable[[bytes], bytes], names: Iterable[str], at_ns: int) -> bytes:
    """A root tree of empty directories."""
    nothing = add(b"").hex()
    return add(b"\n".join(encode("d", name, 0o700, at_ns, 0, nothing) for name in sorted(names)))


def count(read: Read, root: bytes) -> tuple[int, int]:
    """How many files are below a root tree, and the sum of their sizes."""
    sizes = [entry.size for entry in entries(read, root) if entry.kind == "f"]
    return len(sizes), sum(sizes)


def find(read: Read, root: bytes, path: AnyPath) -> Entry:
    """The entry at ``path``; the root itself for an empty one.

    Raises FileNotFoundError, UnsafePath where the path leaves the volume or passes a link.
    """
    entry = Entry("", "d", 0o755, 0, 0, root.hex(), {})
    for name in components(path):
        if entry.kind == "l":
            raise UnsafePath(f"{entry.path!r} is a symbolic link")
        below = children(read, bytes.fromhex(entry.content), entry.path) if entry.kind == "d" else []
        wanted = f"{entry.path}/{name}" if entry.path else name
        match = next((child for child in below if child.path == wanted), None)
        if match is None:
            raise FileNotFoundError(wanted)
        entry = match
    return entry


def graft(read: Read, add: Callable[[bytes], bytes], tree: bytes | None, parts: Sequence[str], entry: Entry) -> bytes:
    """``tree`` (None: an empty one) with ``entry`` at ``parts``, in place of what is there.

    Folders on the way are made. The new tree's hash. Only objects are written. Raises UnsafePath where a part of the
    way is no folder.
    """
    name, *rest = parts
    kept = {decode(line).path: line for line in lines(read, tree)} if tree else {}
    if not rest:
        kept[name] = encode(
            entry.kind, name, entry.mode, entry.mtime_ns, entry.size, entry.content, entry.xattrs or None
        )
    else:
        there = decode(kept[name]) if name in kept else Entry(name, "d", 0o755, entry.mtime_ns, 0, "", {})
        if there.kind != "d":
            raise UnsafePath(f"{name!r} is no folder now")
        below = bytes.fromhex(there.content) if there.content else None
        content = graft(read, add, below, rest, entry).hex()
        kept[name] = encode("d", name, there.mode, there.mtime_ns, 0, content, there.xattrs or None)
    return add(b"\n".join(kept[each] for each in sorted(kept)))


def content_of(read: Read, entry: Entry) -> Iterator[bytes | int]:
    """A file's content in order: bytes of a chunk, or the length of a hole. Holds one chunk at a time."""
    content = entry.content
    if isinstance(content, dict):
        content = json.loads(read(bytes.fromhex(content["list"])))
    for part in content:
        yield part if isinstance(part, int) else read(bytes.fromhex(part))


def listed(read: Read, digest: bytes) -> list[bytes]:
    """The chunks of a long list."""
    return [bytes.fromhex(part) for part in json.loads(read(digest)) if not isinstance(part, int)]


@dataclass
class Named:
    """What roots name, for verification and garbage collection.

    Trees, long lists and chunks are kept apart: a file may well hold the very bytes of a tree, and must not make that
    tree look visited.
    """

    trees: set[bytes] = field(default_factory=set)
    lists: set[bytes] = field(default_factory=set)
    chunks: set[bytes] = field(default_factory=set)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.chunks or digest in self.trees or digest in self.lists

    def add(self, read: Read, root: bytes) -> None:
        """Add all that a root tree names, itself included. Raises ObjectMissing, ObjectCorrupt."""
        pending = [root]
        while pending:
            tree = pending.pop()
            if tree in self.trees:
                continue
            self.trees.add(tree)
            for entry in children(read, tree):
                if entry.kind == "d":
                    pending.append(bytes.fromhex(entry.content))
                elif entry.kind == "f":
                    self._add_content(read, entry.content)

    def _add_content(self, read: Read, content: Any) -> None:
        if isinstance(content, dict):
            found = bytes.fromhex(content["list"])
            if found in self.lists:
                return
            self.lists.add(found)
            self.chunks.update(listed(read, found))
            return
        self.chunks.update(bytes.fromhex(part) for part in content if not isinstance(part, int))


def diff(read: Read, before: bytes | None, after: bytes | None) -> Iterator[Change]:
    """What differs between two root trees; None is an empty one. Reads only subtrees that differ.

    A directory is named only where it is added, removed, or its mode or attributes differ: not for its time.
    """
    pending: list[tuple[str, bytes | None, bytes | None]] = [("", before, after)]
    while pending:
        parent, old_tree, new_tree = pending.pop()
        if old_tree == new_tree:
            continue
        old_lines = lines(read, old_tree) if old_tree else []
        new_lines = lines(read, new_tree) if new_tree else []
        common = set(old_lines) & set(new_lines)
        old = {entry.path: entry for entry in (decode(line, parent) for line in old_lines if line not in common)}
        new = {entry.path: entry for entry in (decode(line, parent) for line in new_lines if line not in common)}
        for path in sorted(old.keys() | new.keys()):
            was, now = old.get(path), new.get(path)
            if not (was and now and _same_directory(was, now)):
                kind: Literal["added", "changed", "removed"] = (
                    "added" if was is None else "removed" if now is None else "changed"
                )
                yield Change(path, kind, was, now)
            pending.append((path, _tree(was), _tree(now)))


def _same_directory(was: Entry, now: Entry) -> bool:
    return was.kind == now.kind == "d" and (was.mode, was.xattrs) == (now.mode, now.xattrs)


def _tree(entry: Entry | None) -> bytes | None:
    return bytes.fromhex(entry.content) if entry and entry.kind == "d" else None

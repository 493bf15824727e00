"""Reading a live tree into objects, and laying a tree of objects out again.

Promises that a file that cannot be read, changes meanwhile or is no file never fails the whole: it is said in the
result. Must never follow a link or wait on what a sandbox left there; memory is bounded by the largest directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from blake3 import blake3

try:
    from fastcdc.fastcdc_cy import fastcdc_cy as cut
except ImportError:  # no wheel for this machine: the same cuts, slower
    from fastcdc.fastcdc_py import fastcdc_py as cut

from workspace_store import stat_index, trees
from workspace_store.beneath import Descent, UnsafePath, open_child
from workspace_store.stat_index import FIELDS, Record

SMALL_BYTES = 256 << 10
_CHUNK = (64 << 10, 256 << 10, 1 << 20)  # least, average, greatest
_WINDOW = 8 << 20
_TRIES = 3
_LISTED = 1000
_ROW_BYTES = FIELDS * 8
TOP = ("home", "workspace")
"""All of live/ that belongs to a generation."""


@dataclass(frozen=True)
class Skipped:
    """What a generation does not hold, and why (``socket``, ``fifo``, ``device``, ``unreadable: …``)."""

    path: str
    why: str


@dataclass
class Capture:
    """A live tree as objects. ``skipped`` names at most 1,000 of ``skipped_count``."""

    root: bytes = b""
    files: int = 0
    bytes: int = 0
    moving: bool = False
    """Something changed while it was read: files may be of slightly different moments."""
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    records: list[Record] = field(default_factory=list)


@dataclass
class _Directory:
    """A directory on the way: what is in it, and the trees of its subdirectories once they are known."""

    inode: int
    names: list[str]
    rows: array[int]
    waiting: list[str]
    subtrees: dict[str, bytes] = field(default_factory=dict)
    xattrs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of subdirectories that have any."""
    refused: int | None = None
    """The mode to give it back, where its owner had closed it."""


class Adds(Protocol):
    """What takes the objects of a walk."""

    def add(self, data: bytes | memoryview) -> bytes:
        """The object's BLAKE3."""
        ...


class Hashing:
    """Takes objects, and keeps nothing of them."""

    def add(self, data: bytes | memoryview) -> bytes:
        return blake3(data).digest()


class StoreFailed(Exception):
    """Writing an object failed: the cause is the store's OSError, not that of the file that is read."""


class _Gone(Exception):
    """The entry is not there any more, or cannot be read."""


class _Old:
    """The lines of a directory's last tree, to be used again for what did not change."""

    def __init__(self, known: Record | None, read: trees.Read, *, same_names: bool) -> None:
        self._rows = known.rows if known else b""
        self._lines = trees.lines(read, known.tree) if known else []
        names = os.fsdecode(known.names).split("\0") if known and known.names else []
        self._places = None if same_names else {name: place for place, name in enumerate(names)}

    def line(self, position: int, name: str, row: bytes, subtree: bytes | None) -> bytes | None:
        """None: the entry is new, or its ``row`` or ``subtree`` is another."""
        place = position if self._places is None else self._places.get(name, -1)
        if place < 0 or self._rows[place * _ROW_BYTES : place * _ROW_BYTES + _ROW_BYTES] != row:
            return None
        line = self._lines[place]
        return line if subtree is None or trees.decode(line).content == subtree.hex() else None


class Capturing:
    """One walk over a live tree. ``racy_from_ns``: see stat_index."""

    def __init__(self, read: trees.Read, writer: Adds, known: dict[int, Record], racy_from_ns: int) -> None:
        self._read = read
        self._writer = writer
        self._known = known
        self._racy_from_ns = racy_from_ns
        self._result = Capture()

    def run(self, live: int) -> Capture:
        """Read ``live`` (a directory descriptor). Raises StoreFailed, OSError; TreeMoved: try again."""
        with Descent(live) as descent:
            self._at = descent
            path = [self._list(TOP)]
            while True:
                directory = path[-1]
                if directory.waiting:
                    name = directory.waiting.pop()
                    if (below := self._enter(name)) is not None:
                        path.append(below)
                    continue
                tree = self._finish(directory)
                if directory.refused is not None:
                    os.fchmod(descent.fd, directory.refused)
                path.pop()
                if not path:
                    self._result.root = tree
                    return self._result
                xattrs = _xattrs(descent.fd)
                name = descent.up()
                path[-1].subtrees[name] = tree
                if xattrs:
                    path[-1].xattrs[name] = xattrs

    def _enter(self, name: str) -> _Directory | None:
        """None: it is gone, or was skipped. A directory its owner closed is still theirs: opened for the while."""
        refused = None
        try:
            try:
                self._at.down(name)
            except PermissionError:
                refused = self._at.force_down(name)
        except (UnsafePath, FileNotFoundError):
            self._result.moving = True
            return None
        except OSError as error:
            self._skip(name, f"unreadable: {error.strerror}")
            return None
        mode = stat.S_IMODE(os.fstat(self._at.fd).st_mode)
        if not mode & 0o100 and os.geteuid():
            with contextlib.suppress(PermissionError):
                os.fchmod(self._at.fd, mode | 0o700)
                refused = mode
        directory = self._list(None)
        directory.refused = refused
        return directory

    def _list(self, only: tuple[str, ...] | None) -> _Directory:
        fd, result = self._at.fd, self._result
        flat: list[int] = []  # the hot loop of a snapshot: nothing is called but stat
        names, waiting = [], []
        try:
            listed = sorted(os.listdir(fd))
        except OSError as error:
            self._skip("", f"unreadable: {error.strerror}")
            listed = []
        for name in listed:
            if only and name not in only:
                continue
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                result.moving = True
                continue
            mode, inode, _, _, _, _, size, *_ = status
            kind = mode & 0o170000
            if kind == 0o100000:
                result.files += 1
                result.bytes += size
            elif kind == 0o040000:
                waiting.append(name)
                size = 0
            elif kind != 0o120000:
                self._skip(name, _SPECIAL.get(kind, "device"))
                continue
            names.append(name)
            flat += (mode, size, status.st_mtime_ns, status.st_ctime_ns, inode & stat_index.INODE_MASK)
        try:
            rows = array("q", flat)
        except OverflowError:
            rows = array("q", map(stat_index.fitting, flat))
        return _Directory(os.fstat(fd).st_ino & stat_index.INODE_MASK, names, rows, waiting)

    def _finish(self, directory: _Directory) -> bytes:
        """The directory's tree object: the one of last time where nothing in it or below changed."""
        known = self._known.get(directory.inode)
        names = os.fsencode("\0".join(directory.names))
        subtrees = b"".join(directory.subtrees[name] for name in sorted(directory.subtrees))
        if known and known.rows == directory.rows.tobytes() and known.names == names and known.subtrees == subtrees:
            self._result.records.append(known)
            return known.tree
        old = _Old(known, self._read, same_names=known is not None and known.names == names)
        current = directory.rows.tobytes()
        lines, kept, rows = [], [], bytearray()
        for position, name in enumerate(directory.names):
            seen = current[position * _ROW_BYTES : position * _ROW_BYTES + _ROW_BYTES]
            subtree = directory.subtrees.get(name)
            line = old.line(position, name, seen, subtree)
            if line is None:
                row = array("q", seen)
                if subtree is None and stat.S_ISDIR(row[0]):
                    continue  # could not be entered, as said already
                try:
                    line, row = self._entry(name, row, subtree, directory.xattrs.get(name))
                except _Gone as gone:
                    if gone.args:
                        self._skip(name, str(gone))
                        self._result.files -= 1
                        self._result.bytes -= row[1]
                    else:
                        self._result.moving = True
                    continue
                seen = row.tobytes()
            lines.append(line)
            kept.append(name)
            rows += seen
        tree = self._writer.add(b"\n".join(lines))
        smudged = stat_index.smudged(array("q", bytes(rows)), self._racy_from_ns)
        kept_subtrees = b"".join(directory.subtrees[name] for name in kept if name in directory.subtrees)
        self._result.records.append(Record(directory.inode, tree, os.fsencode("\0".join(kept)), smudged, kept_subtrees))
        return tree

    def _entry(
        self, name: str, row: array[int], subtree: bytes | None, xattrs: dict[str, str] | None
    ) -> tuple[bytes, array[int]]:
        if subtree is not None:
            return trees.encode("d", name, row[0], row[2], 0, subtree.hex(), xattrs), row
        if stat.S_ISLNK(row[0]):
            try:
                target = os.readlink(name, dir_fd=self._at.fd)
            except OSError as error:
                raise _Gone from error
            return trees.encode("l", name, row[0], row[2], row[1], target), row
        return self._file_entry(name)

    def _file_entry(self, name: str) -> tuple[bytes, array[int]]:
        fd = self._open(name)
        try:
            before = os.fstat(fd)
            settled = False
            for _ in range(_TRIES):
                os.lseek(fd, 0, os.SEEK_SET)
                content, size = self.content(fd, before.st_size)
                after = os.fstat(fd)
                settled = stat_index.row(before) == stat_index.row(after)
                if settled:
                    break
                before = after
            row = array("q", stat_index.row(after))
            if not settled:
                self._result.moving = True
                row[3] = 0  # matches nothing: read again next time
            return trees.encode("f", name, after.st_mode, row[2], size, content, _xattrs(fd)), row
        except OSError as error:
            raise _Gone(f"unreadable: {error.strerror}") from error
        finally:
            os.close(fd)

    def _open(self, name: str) -> int:
        for attempt in range(_TRIES):
            try:
                return open_child(self._at.fd, name)
            except (UnsafePath, FileNotFoundError) as error:
                raise _Gone from error
            except BlockingIOError:  # a process in the sandbox holds a file lease; the open has asked for it
                time.sleep(0.05 * attempt)
            except PermissionError as error:
                return self._open_own(name, error)
            except OSError as error:
                raise _Gone(f"unreadable: {error.strerror}") from error
        raise _Gone("unreadable: leased")

    def _open_own(self, name: str, refused: PermissionError) -> int:
        """A file its owner made unreadable is still theirs: made readable for the moment of opening it."""
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._at.fd)
        path = f"/proc/self/fd/{handle}"
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                raise _Gone
            os.chmod(path, stat.S_IMODE(mode) | 0o400)
            try:
                return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            finally:
                os.chmod(path, stat.S_IMODE(mode))
        except OSError as error:
            raise _Gone(f"unreadable: {refused.strerror}") from error
        finally:
            os.close(handle)

    def content(self, fd: int, size: int) -> tuple[object, int]:
        """(content as trees says, bytes read), at most ``size`` bytes."""
        if size < SMALL_BYTES:
            data = b"".join(_exactly(fd, size))
            return [self._writer_add(data).hex()] if data else [], len(data)
        content: list[object] = []
        position = 0
        for start, end in _extents(fd, size):
            if start > position:
                content.append(start - position)
            position = start + self._chunks(fd, end - start, content)
        if position < size:
            content.append(size - position)
        if len(content) > trees.LONG_LIST:
            return {"list": self._writer_add(json.dumps(content, separators=(",", ":")).encode()).hex()}, size
        return content, size

    def _chunks(self, fd: int, length: int, content: list[object]) -> int:
        """Cut the next ``length`` bytes by content; how many there were."""
        rest, done = b"", 0
        while done < length:
            data = b"".join(_exactly(fd, min(_WINDOW, length - done)))
            done += len(data)
            last = done >= length or not data
            window = memoryview(rest + data)
            used = 0
            for chunk in cut(window, *_CHUNK) if window else ():
                # The end of a window cuts a chunk short: it waits for the next window.
                if not last and chunk.offset + _CHUNK[2] > len(window):
                    break
                used = chunk.offset + chunk.length
                content.append(self._writer_add(window[chunk.offset : used]).hex())
            rest = bytes(window[used:])
            if not data:
                break
        return done

    def _writer_add(self, data: bytes | memoryview) -> bytes:
        try:
            return self._writer.add(data)
        except OSError as error:
            raise StoreFailed from error

    def _skip(self, name: str, why: str) -> None:
        self._result.skipped_count += 1
        if len(self._result.skipped) < _LISTED:
            self._result.skipped.append(Skipped(self._at.path(name), why))


_SPECIAL = {0o140000: "socket", 0o010000: "fifo"}


def _exactly(fd: int, size: int) -> Iterator[bytes]:
    """Up to ``size`` bytes from where ``fd`` stands; fewer at the end of the file."""
    while size > 0 and (data := os.read(fd, min(size, _WINDOW))):
        size -= len(data)
        yield data


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what is no hole; ``fd`` stands at each start."""
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        if start >= size:
            return
        os.lseek(fd, start, os.SEEK_SET)
        yield start, end
        position = end


def _xattrs(fd: int) -> dict[str, str] | None:
    try:
        names = [name for name in os.listxattr(fd) if name.startswith("user.")]
        return {name: os.getxattr(fd, name).hex() for name in names} or None
    except OSError:  # a filesystem without them, or changed meanwhile
        return None

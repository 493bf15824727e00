"""What a snapshot saw of each directory, so that the next one reads only what changed.

Owns one disposable file: a cache that is ignored where it is damaged. Promises never to call a changed file
unchanged: rows are the size, times and inode the kernel reports, and a file that could have changed again within the
clock's granularity is written with ctime 0, which matches nothing (as git's index does).

A directory's record is keyed by its inode: names by order, five int64 a name (mode, size, mtime_ns, ctime_ns, inode),
the trees of its subdirectories, and its own tree object.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

_MAGIC = b"NPINDEX1"
_HEAD = struct.Struct("<Q32sIII")
FIELDS = 5
RACY_NS = 20_000_000
"""Kernel timestamps advance by the tick: 10 ms at the slowest; twice that."""
COARSE_NS = 2_000_000_000
"""Where times are whole seconds (small inodes, old or foreign filesystems); two, as on FAT."""
INODE_MASK = (1 << 63) - 1


@dataclass
class Record:
    """One directory as it was seen."""

    inode: int
    tree: bytes
    """BLAKE3 of its tree object, 32 bytes."""
    names: bytes
    """Joined by NUL, sorted as the tree's lines are; only what is in the tree."""
    rows: bytes
    subtrees: bytes
    """32 bytes for each subdirectory, by name."""

    def numbers(self) -> array[int]:
        numbers = array("q")
        numbers.frombytes(self.rows)
        return numbers


def fitting(time_ns: int) -> int:
    """A time as it fits a row: files may be dated beyond the year 2262, and archives write what they like."""
    return max(-INODE_MASK, min(time_ns, INODE_MASK))


def row(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What tells whether an entry changed. A directory's size says nothing."""
    mode = status.st_mode
    size = 0 if mode & 0o170000 == 0o040000 else status.st_size
    return mode, size, fitting(status.st_mtime_ns), status.st_ctime_ns, status.st_ino & INODE_MASK


def racy_from(now_ns: int) -> int:
    """From which ctime on a file may change again unseen; ``now_ns``: a time that filesystem has just stamped."""
    return now_ns - (RACY_NS if now_ns % 1_000_000_000 else COARSE_NS)


def smudged(rows: array[int], racy_from_ns: int) -> bytes:
    """``rows`` with ctime 0 wherever it is at or after ``racy_from_ns``."""
    ctimes = rows[3::FIELDS]
    if ctimes and max(ctimes) >= racy_from_ns:
        rows = array("q", rows)
        for position, ctime in enumerate(ctimes):
            if ctime >= racy_from_ns:
                rows[position * FIELDS + 3] = 0
    return rows.tobytes()


def load(path: Path) -> tuple[bytes, dict[int, Record]]:
    """(root tree, records by inode); (b"", {}) where there is no index that can be relied on."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b"", {}
    start = len(_MAGIC) + 32
    if data[: len(_MAGIC)] != _MAGIC or blake3(data[start:]).digest() != data[len(_MAGIC) : start]:
        return b"", {}
    root, position = data[start : start + 32], start + 32
    records = {}
    while position < len(data):
        inode, tree, names, rows, subtrees = _HEAD.unpack_from(data, position)
        a = position + _HEAD.size
        b, c, position = a + names, a + names + rows, a + names + rows + subtrees
        records[inode] = Record(inode, tree, data[a:b], data[b:c], data[c:position])
    return root, records


def save(path: Path, root: bytes, records: Iterable[Record]) -> None:
    """Replace the index. Not durable, and need not be: a torn one fails its digest. Raises OSError."""
    parts = [root]
    for r in records:
        parts += (_HEAD.pack(r.inode, r.tree, len(r.names), len(r.rows), len(r.subtrees)), r.names, r.rows, r.subtrees)
    body = b"".join(parts)
    temporary = path.with_name(f"{path.name}.part")
    temporary.write_bytes(_MAGIC + blake3(body).digest() + body)
    temporary.rename(path)

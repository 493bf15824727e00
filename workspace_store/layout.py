"""Laying a tree of objects out as files again, in a directory that no sandbox sees yet.

Restores content (holes as holes), modes without setuid and setgid, times, links and user attributes. Must never be
given a live directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from workspace_store import trees
from workspace_store.beneath import Descent, Owner
from workspace_store.packs import sync_folder
from workspace_store.stat_index import fitting
from workspace_store.trees import Entry

_EXCHANGE = 2  # renameat2(2), RENAME_EXCHANGE
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def lay_out(read: trees.Read, root: bytes, directory: int, owner: Owner | None) -> None:
    """Create all below a root tree in the empty ``directory``. Not durable: sync the filesystem afterwards.

    ``owner`` of everything, or None to leave it the caller's. Raises OSError, ObjectMissing, ObjectCorrupt.
    """
    with Descent(directory) as descent:
        pending: list[Iterator[Entry]] = [iter(trees.children(read, root))]
        inside: list[Entry] = []
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                if inside:
                    _dress(descent.fd, inside.pop(), owner)
                    descent.up()
            elif entry.kind == "d":
                os.mkdir(entry.path, 0o700, dir_fd=descent.fd)
                descent.down(entry.path)
                inside.append(entry)
                pending.append(iter(trees.children(read, bytes.fromhex(entry.content))))
            elif entry.kind == "l":
                _link(descent.fd, entry, owner)
            else:
                _file(read, descent.fd, entry, owner)


def _file(read: trees.Read, directory: int, entry: Entry, owner: Owner | None) -> None:
    fd = os.open(entry.path, _NEW, 0o600, dir_fd=directory)
    try:
        for part in trees.content_of(read, entry):
            if isinstance(part, int):
                os.lseek(fd, part, os.SEEK_CUR)
                continue
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view) :]
        os.ftruncate(fd, entry.size)
        _dress(fd, entry, owner)
    finally:
        os.close(fd)


def _link(directory: int, entry: Entry, owner: Owner | None) -> None:
    os.symlink(entry.content, entry.path, dir_fd=directory)
    if owner is not None:
        os.chown(entry.path, *owner, dir_fd=directory, follow_symlinks=False)
    os.utime(entry.path, ns=(fitting(entry.mtime_ns),) * 2, dir_fd=directory, follow_symlinks=False)


def _dress(fd: int, entry: Entry, owner: Owner | None) -> None:
    """Attributes, owner, mode and time, in the order in which none undoes another."""
    for name, value in entry.xattrs.items():
        with contextlib.suppress(OSError):  # a filesystem without them
            os.setxattr(fd, name, bytes.fromhex(value))
    if owner is not None:
        os.fchown(fd, *owner)
    os.fchmod(fd, entry.mode & trees.MODE_BITS)
    os.utime(fd, ns=(fitting(entry.mtime_ns),) * 2)


def swap(fresh: Path, live: Path, aside: Path) -> None:
    """Put directory ``fresh`` in the place of ``live``; the old one ends up at ``fresh`` or ``aside``.

    Atomic where the filesystem can exchange names; elsewhere ``live`` is missing for a moment, and finish_swap()
    puts that right after a crash.
    """
    if _libc.renameat2(_AT_FDCWD, os.fsencode(fresh), _AT_FDCWD, os.fsencode(live), _EXCHANGE) != 0:
        live.rename(aside)
        fresh.rename(live)
    sync_folder(live.parent)


def finish_swap(fresh: Path, live: Path) -> bool:
    """Complete a swap that a crash interrupted; False: there is nothing to complete it with."""
    if not live.is_dir() and fresh.is_dir():
        fresh.rename(live)
        sync_folder(live.parent)
    return live.is_dir()

"""How much disk a sandbox's tree takes: its files, and those it has deleted while something still holds them open.

The tree is hostile: nothing here follows a link, a folder closed to its owner is opened for the moment, and what moves
meanwhile is counted where it was seen. Calls block: run them in a thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workspace_store.beneath import Descent, UnsafePath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512
"""Of st_blocks, whatever the filesystem's own (stat(2))."""
_DELETED = " (deleted)"


@dataclass(frozen=True)
class DiskUsage:
    bytes: int
    files: int
    """Inodes: files, folders and links."""

    def over(self, limit: DiskUsage) -> bool:
        return self.bytes > limit.bytes or self.files > limit.files


NOTHING = DiskUsage(0, 0)


@dataclass(frozen=True)
class Filesystem:
    """What is used of a whole filesystem: a look at it costs microseconds."""

    used: DiskUsage
    free_bytes: int

    @staticmethod
    def of(path: Path) -> Filesystem:
        found = os.statvfs(path)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return Filesystem(DiskUsage(used, found.f_files - found.f_ffree), found.f_bavail * found.f_frsize)


def measure(trees: Iterable[Path], first: int | None) -> DiskUsage:
    """What ``trees`` take, with what ``first`` and the processes below it hold open of their filesystems.

    Raises TreeMoved, where folders are moved while it looks: then nothing is known.
    """
    count = _Count()
    for tree in trees:
        with contextlib.suppress(FileNotFoundError):
            top = os.open(tree, _FOLDER)
            try:
                count.walk(top)
            finally:
                os.close(top)
    for found in _deleted_but_open(descendants(first)) if first else ():
        if found.st_dev in count.devices:
            count.add(found, named=False)
    return DiskUsage(count.bytes, count.files)


class _Count:
    def __init__(self) -> None:
        self.bytes = 0
        self.files = 0
        self.devices: set[int] = set()
        self._seen: set[tuple[int, int]] = set()

    def add(self, found: os.stat_result, *, named: bool) -> None:
        if not named or (found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)):
            if (found.st_dev, found.st_ino) in self._seen:
                return
            self._seen.add((found.st_dev, found.st_ino))
        self.bytes += found.st_blocks * _BLOCK
        self.files += 1

    def walk(self, top: int) -> None:
        """A folder and all below it, one level at a time, with few descriptors whatever the depth."""
        status = os.fstat(top)
        self.devices.add(status.st_dev)
        self.add(status, named=True)
        with Descent(top) as descent:
            waiting: list[tuple[list[str], int | None]] = [(self._list(descent.fd), None)]
            while waiting:
                folders, closed = waiting[-1]
                if folders:
                    entered, mode = _enter(descent, folders.pop())
                    if entered:
                        waiting.append((self._list(descent.fd), mode))
                    continue
                waiting.pop()
                if closed is not None:
                    with contextlib.suppress(OSError):
                        os.fchmod(descent.fd, closed)
                if waiting:
                    descent.up()

    def _list(self, folder: int) -> list[str]:
        """Count what is in a folder; the folders among it."""
        folders = []
        try:
            names = os.listdir(folder)
        except OSError:
            return []
        for name in names:
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            self.add(found, named=True)
            if stat.S_ISDIR(found.st_mode):
                folders.append(name)
        return folders


def _enter(descent: Descent, name: str) -> tuple[bool, int | None]:
    """Whether we are in it now, and the mode to give it back: a folder that its owner closed hides nothing."""
    try:
        descent.down(name)
    except PermissionError:
        try:
            return True, descent.force_down(name)
        except OSError:
            return False, None
    except (UnsafePath, OSError):
        return False, None
    mode = stat.S_IMODE(os.fstat(descent.fd).st_mode)
    if mode & 0o500 != 0o500 and os.geteuid():
        with contextlib.suppress(OSError):
            os.fchmod(descent.fd, mode | 0o700)
            return True, mode
    return True, None


def descendants(first: int) -> list[int]:
    """``first`` and every process below it; in a PID namespace, whatever runs there ends up below its first one."""
    found, waiting = [first], [first]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    children = [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
                    waiting += children
                    found += children
    return found


def _deleted_but_open(pids: Iterable[int]) -> Iterator[os.stat_result]:
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{name}"
                with contextlib.suppress(OSError):
                    if os.readlink(path).endswith(_DELETED):
                        status = os.stat(path)
                        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                            yield status

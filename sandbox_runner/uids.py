"""Who a sandbox is on the host: one uid per principal, never root, never a person's.

A root caller gives each principal a uid of a range of its own, so that two sandboxes share nothing even where one
breaks out. Volumes then belong to that uid; handing them over walks trees in which the sandbox may have planted
anything, so nothing here follows a symbolic link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.sandbox import SandboxUnavailable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SPECIAL = stat.S_ISUID | stat.S_ISGID


# Below 2^31, above what distributions give to people, services and subordinate ids.
FIRST_RANGE = 700_000_000
RANGE_STEP = 65_537
"""One more than a range has: its last uid is for probing."""
RANGES = 20_000


@dataclass(frozen=True)
class HostUids:
    """The range of host uids for sandboxes of a root caller."""

    base: int = 200_000
    count: int = 65_536

    @classmethod
    def of(cls, home: Path) -> HostUids:
        """A range of this home's own: two installations on one host share no uid (as good as a hash can do)."""
        digest = hashlib.sha256(os.fsencode(os.path.realpath(home))).digest()
        return cls(FIRST_RANGE + int.from_bytes(digest[:4], "big") % RANGES * RANGE_STEP)

    def uid(self, number: int) -> int:
        """The uid of the principal with this small, stable number (from 0). Raises SandboxUnavailable outside it."""
        if not 0 <= number < self.count:
            raise SandboxUnavailable(f"principal number {number} is outside the range of {self.count} host uids")
        return self.base + number


def resolve(requested: int | None, caller: int | None = None) -> int | None:
    """The uid to drop to, or None where the caller stays who it is.

    Raises SandboxUnavailable where the sandbox would be root on the host, or somebody the caller cannot become.
    """
    caller = os.geteuid() if caller is None else caller
    if caller == 0:
        if not requested or requested < 1:
            raise SandboxUnavailable("a sandbox never runs as root on the host: pass the principal's host uid")
        return requested
    if requested is not None and requested != caller:
        raise SandboxUnavailable(f"only root can start a sandbox as uid {requested}; this process is uid {caller}")
    return None


def take_ownership(tree: Path, uid: int) -> int:
    """Give ``tree`` to ``uid`` (and the group of that number), for a root caller; the number of entries changed.

    The top is changed last, so that its ownership says whether the whole has been: a tree whose top is right already
    costs one look. Symbolic links are changed themselves, never what they point to; setuid and setgid bits go. A file
    with several names that did not belong to the tree's owner is left alone: another name may lie elsewhere.
    Nothing may run in the tree meanwhile. Raises OSError (ELOOP, ENOTDIR) if the top is no directory.
    """
    top = os.open(tree, _DIRECTORY)
    try:
        before = os.fstat(top)
        if (before.st_uid, before.st_gid) == (uid, uid):
            return 0
        changed = 0
        for folder, name, status in _walk(top):
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and status.st_uid not in (before.st_uid, uid):
                continue
            os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
            _strip(folder, name, status)
            changed += 1
        os.fchmod(top, stat.S_IMODE(before.st_mode) & ~_SPECIAL)
        os.fchown(top, uid, uid)
        return changed + 1
    finally:
        os.close(top)


def strip_special_bits(tree: Path) -> int:
    """Clear setuid and setgid bits of files and setgid bits of folders below ``tree``; how many were cleared.

    Mounts inside are ``nosuid``; this is for the host's side, where volumes may lie on a file system that is not.
    """
    top = os.open(tree, _DIRECTORY)
    try:
        return sum(_strip(folder, name, status) for folder, name, status in _walk(top))
    finally:
        os.close(top)


def _strip(folder: int, name: str, status: os.stat_result) -> bool:
    if not status.st_mode & _SPECIAL or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return False
    # Opened without reading and checked to be the same: fchmodat follows links, and a FIFO would block a plain open.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        now = os.fstat(fd)
        if stat.S_ISREG(now.st_mode) or stat.S_ISDIR(now.st_mode):
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(now.st_mode) & ~_SPECIAL)
    finally:
        os.close(fd)
    return True


def _walk(top: int) -> Iterator[tuple[int, str, os.stat_result]]:
    """(folder descriptor, name, status) of everything below, children before their folder.

    One descriptor is open at a time, however deep a sandbox has nested its folders; the way back up through ``..`` is
    checked to lead where it came from. Folders that the caller may not read are passed over.
    """
    folder = os.dup(top)
    stack = [_Level(os.listdir(folder), "", os.fstat(folder))]
    try:
        while True:
            level = stack[-1]
            if level.names:
                child = level.names.pop()
                found = os.stat(child, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    yield folder, child, found
                    continue
                try:
                    opened = os.open(child, _DIRECTORY, dir_fd=folder)
                except PermissionError:
                    yield folder, child, found
                    continue
                os.close(folder)
                folder = opened
                stack.append(_Level(os.listdir(folder), child, found))
                continue
            stack.pop()
            if not stack:
                return
            parent = os.open("..", _DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = parent
            if not os.path.samestat(os.fstat(folder), stack[-1].status):
                raise OSError(f"a folder moved while it was walked: {level.name!r}")
            yield folder, level.name, level.status
    finally:
        os.close(folder)


@dataclass
class _Level:
    names: list[str]
    name: str
    status: os.stat_result

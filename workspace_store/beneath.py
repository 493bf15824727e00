"""Host-side access to directories that a hostile sandbox writes to at the same time.

Promises that no symlink, FIFO, device or swapped directory leads the caller outside the tree or makes it wait.
Must never open an existing file for writing: files are made aside and renamed, so hard links are not written through.

Paths are relative, ``str`` with surrogateescape or ``bytes``; a tree is named by a directory descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Owner = tuple[int, int]
"""(uid, gid)."""
AnyPath = str | bytes

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENAT2 = 437  # the same number on every architecture, openat2(2)
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH, NO_SYMLINKS, NO_MAGICLINKS
_UNSAFE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENXIO, errno.ENODEV})
_HELD = 16  # levels of a descent that keep their descriptor

_libc = ctypes.CDLL(None, use_errno=True)


class UnsafePath(Exception):
    """The path leaves its tree, passes a link, or names something else than a regular file or directory."""


class TreeMoved(UnsafePath):
    """A directory was moved while the host was inside it; start again from the root."""


class NameTaken(Exception):
    """There is something of that name already."""


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class _Kernel:
    """Whether openat2 works here; None until it was tried."""

    openat2: bool | None = None


def components(path: AnyPath) -> list[str]:
    """``path`` as a list of names. Raises UnsafePath for an absolute path, ``..`` or a NUL."""
    text = os.fsdecode(path)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or "\0" in text:
        raise UnsafePath(f"{text!r} is not a path inside the volume")
    return parts


def open_directory(root: int, path: AnyPath = "") -> int:
    """A descriptor of directory ``path`` below ``root``. Raises UnsafePath, FileNotFoundError."""
    return _open(root, components(path), _DIRECTORY)


def open_regular(root: int, path: AnyPath) -> int:
    """A descriptor for reading the regular file ``path`` below ``root``; never waits.

    Raises UnsafePath, FileNotFoundError, PermissionError.
    """
    parts = components(path)
    if not parts:
        raise UnsafePath("a directory, not a file")
    return _regular(_open(root, parts, _FLAGS), parts[-1])


def read_regular(root: int, path: AnyPath, max_bytes: int) -> bytes:
    """The first ``max_bytes`` bytes of a regular file. Raises as open_regular does."""
    with os.fdopen(open_regular(root, path), "rb") as file:
        return file.read(max_bytes)


def make_directories(root: int, path: AnyPath, *, owner: Owner | None = None, mode: int = 0o755) -> int:
    """Create what is missing of ``path``; a descriptor of its last directory. Raises UnsafePath."""
    fd = os.open(".", _DIRECTORY, dir_fd=root)
    for name in components(path):
        try:
            made = False
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=fd)
                made = True
            below = _child(fd, name, _DIRECTORY)
        finally:
            os.close(fd)
        fd = below
        if made:
            _give(fd, owner, mode)
    return fd


def write_file(
    directory: int,
    name: str,
    data: bytes | Iterable[bytes],
    *,
    replace: bool = True,
    mode: int = 0o644,
    owner: Owner | None = None,
) -> None:
    """Create or replace one file of a directory, atomically and durably; whatever had the name is only unlinked.

    Raises NameTaken when ``replace`` is False and the name exists, UnsafePath for a name with a separator, OSError.
    """
    if components(name) != [name]:
        raise UnsafePath(f"{name!r} is not a name")
    temporary = f".nightporter-{secrets.token_hex(8)}"
    fd = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
    )
    try:
        with os.fdopen(fd, "wb") as file:
            for chunk in [data] if isinstance(data, bytes) else data:
                file.write(chunk)
            file.flush()
            _give(fd, owner, mode)
            os.fsync(fd)
        if replace:
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.fsync(directory)
    except FileExistsError as error:
        raise NameTaken(name) from error
    except IsADirectoryError as error:
        raise UnsafePath(f"{name!r} is a directory") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


class Descent:
    """One place in a tree that moves down by name and up again, never through a link.

    Holds at most 17 descriptors whatever the depth: the upper levels stay open, so that moving them away does not
    matter; deeper ones are left by ``..`` and their identity is checked.
    """

    def __init__(self, root: int) -> None:
        """``root``: a directory descriptor, which stays the caller's."""
        self.fd = os.open(".", _DIRECTORY, dir_fd=root)
        self.names: list[str] = []
        self._held: list[int] = []
        self._identities = [_identity(self.fd)]

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *exception: object) -> None:
        for fd in [*self._held, self.fd]:
            os.close(fd)

    def path(self, name: str = "") -> str:
        return "/".join([*self.names, name] if name else self.names)

    def down(self, name: str) -> None:
        """Into directory ``name``. Raises UnsafePath, FileNotFoundError, PermissionError; then nothing has moved."""
        fd = _child(self.fd, name, _DIRECTORY)
        if len(self._held) < _HELD:
            self._held.append(self.fd)
        else:
            os.close(self.fd)
        self.fd = fd
        self.names.append(name)
        self._identities.append(_identity(fd))

    def force_down(self, name: str) -> int:
        """As down, into a directory of our own that refuses us: opened up first. The mode it had.

        Raises PermissionError where it is not ours.
        """
        # O_PATH needs no permission on the directory, and chmod through it cannot be redirected by a link that takes
        # the name meanwhile.
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
        finally:
            os.close(fd)
        self.down(name)
        return mode

    def up(self) -> str:
        """Back to the directory we came from; the name we leave. Raises TreeMoved."""
        name = self.names.pop()
        self._identities.pop()
        if len(self.names) < len(self._held):
            parent = self._held.pop()
        else:
            parent = os.open("..", _DIRECTORY, dir_fd=self.fd)
            if _identity(parent) != self._identities[-1]:
                os.close(parent)
                raise TreeMoved(f"{self.path()!r} was moved")
        os.close(self.fd)
        self.fd = parent
        return name


class Found(NamedTuple):
    """One entry met by walk()."""

    path: str
    stat: os.stat_result


def walk(root: int) -> Iterator[Found]:
    """Every entry below ``root`` but itself, directories before what is in them, links never followed.

    What vanishes meanwhile is left out, and so are directories that cannot be read. Raises TreeMoved.
    """
    with Descent(root) as descent:
        pending = [sorted(os.listdir(descent.fd))[::-1]]
        while pending:
            if not pending[-1]:
                pending.pop()
                if pending:
                    descent.up()
                continue
            name = pending[-1].pop()
            try:
                found = Found(descent.path(name), os.stat(name, dir_fd=descent.fd, follow_symlinks=False))
            except FileNotFoundError:
                continue
            yield found
            if stat.S_ISDIR(found.stat.st_mode):
                with contextlib.suppress(UnsafePath, FileNotFoundError, PermissionError):
                    descent.down(name)
                    pending.append(sorted(os.listdir(descent.fd))[::-1])


def remove_tree(directory: int, name: str) -> None:
    """Remove ``name`` and all below it, links not followed; nothing happens where it does not exist.

    Destructive, not atomic. Directories without write permission are opened up first. Raises OSError, TreeMoved.
    """
    if not _unlink(directory, name):
        return
    with Descent(directory) as descent:
        _enter_to_remove(descent, name)
        pending = [os.listdir(descent.fd)]
        while pending:
            if not pending[-1]:
                pending.pop()
                os.rmdir(descent.up(), dir_fd=descent.fd)
                continue
            child = pending[-1].pop()
            if _unlink(descent.fd, child):
                _enter_to_remove(descent, child)
                pending.append(os.listdir(descent.fd))


def remove_path(path: Path) -> None:
    """As remove_tree, for a path whose parents are host-side only."""
    fd = os.open(path.parent, _DIRECTORY)
    try:
        remove_tree(fd, path.name)
    finally:
        os.close(fd)


def sync_filesystem(fd: int) -> None:
    """syncfs(2): everything written to the filesystem of ``fd`` is on the disk. Raises OSError."""
    if _libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "syncfs failed")


def _unlink(directory: int, name: str) -> bool:
    """Unlink what is not a directory; True: it is one."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return True
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    return False


def _enter_to_remove(descent: Descent, name: str) -> None:
    try:
        descent.down(name)
    except PermissionError:
        descent.force_down(name)
    if os.fstat(descent.fd).st_mode & 0o300 != 0o300:
        with contextlib.suppress(PermissionError):
            os.fchmod(descent.fd, 0o700)


def _give(fd: int, owner: Owner | None, mode: int) -> None:
    if owner is not None:
        os.fchown(fd, *owner)
    os.fchmod(fd, mode)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _regular(fd: int, name: str) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnsafePath(f"{name!r} is not a regular file")
    return fd


def open_child(directory: int, name: str) -> int:
    """As open_regular, for one name of an open directory (the quick way for a walk)."""
    return _regular(_child(directory, name, _FLAGS), name)


def _child(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in _UNSAFE:
            raise UnsafePath(f"{name!r} is a link, or not what was asked for") from error
        raise


def _open(root: int, parts: list[str], flags: int) -> int:
    if _Kernel.openat2 is not False and parts:
        fd = _openat2(root, "/".join(parts), flags)
        if fd is not None:
            return fd
    fd = os.open(".", _DIRECTORY, dir_fd=root)
    for position, name in enumerate(parts, 1):
        try:
            below = _child(fd, name, flags if position == len(parts) else _DIRECTORY)
        finally:
            os.close(fd)
        fd = below
    return fd


def _openat2(root: int, path: str, flags: int) -> int | None:
    """None: walk it name by name instead (no openat2 here, a path too long, or renames that do not stop)."""
    how = _OpenHow(flags, 0, _RESOLVE)
    for _ in range(8):
        fd: int = _libc.syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if fd >= 0:
            _Kernel.openat2 = True
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    if code in (errno.ENOSYS, errno.EPERM, errno.E2BIG):
        _Kernel.openat2 = False  # an old kernel, or a seccomp filter that does not know the call
        return None
    if code in (errno.EAGAIN, errno.EINTR, errno.ENAMETOOLONG):
        return None
    if code in _UNSAFE:
        raise UnsafePath(f"{path!r} passes a link, or is not what was asked for")
    raise OSError(code, os.strerror(code), path)

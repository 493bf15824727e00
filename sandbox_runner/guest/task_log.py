"""The log of a background task: bounded on disk by keeping one file before the current one."""

from __future__ import annotations

import contextlib
import os

HALF_BYTES = 5 << 20


class TaskLog:
    """Appends to ``path``; past 5 MiB the file becomes ``path.1``. A full disk loses output, never the guest."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._size = 0
        self._open()

    def write(self, data: bytes) -> None:
        if self._fd < 0 or self._size > HALF_BYTES:
            self._rotate()
        try:
            self._size += os.write(self._fd, data[-HALF_BYTES:])
        except OSError:
            return

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _rotate(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            os.replace(self.path, self.path + ".1")
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self._fd = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
        except OSError:
            self._fd, self._size = -1, 0


def tail(path: str, size: int) -> bytes:
    """The last ``size`` bytes of a log, across its rotation. Regular files only."""
    data = b""
    for name in (path, path + ".1"):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            length = os.fstat(descriptor).st_size
            wanted = size - len(data)
            data = os.pread(descriptor, wanted, max(0, length - wanted)) + data
        except OSError:
            continue
        finally:
            os.close(descriptor)
        if len(data) >= size:
            break
    return data

"""Alive or dead: each service process holds a ``flock`` on a file of its own under its home.

A free lock is a dead process, at once and across containers that share the home; process ids prove nothing there (the
boot id is the same). Of a process with another home only the end of its right tells: an id names its home.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

STAND_BY_SECONDS = 0.2
"""Between two looks for a post that another process fills."""

HOME_DIGITS = 8
LIFE_DIGITS = 12


class Life:
    """This process's own lock, held until it ends, however it ends."""

    def __init__(self, directory: Path, role: str, host: str) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = f"{role}-{host}-{_named_home(directory)}{uuid4().hex[:LIFE_DIGITS]}"
        self._path = directory / f"{self.id}.lock"
        # Held before it can be seen under its name: a file that exists unlocked is a dead process.
        hidden = directory / f".{self.id}"
        self._descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())
        os.rename(hidden, self._path)

    @property
    def descriptor(self) -> int:
        """Whoever has it open holds the lock."""
        return self._descriptor

    def end(self) -> None:
        """Give the lock back (a clean stop)."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def host_of(identifier: str, role: str) -> str:
    """The host that a process of this role named when it began to live."""
    return identifier.removeprefix(f"{role}-").rpartition("-")[0]


class Post:
    """A place that one process at a time may fill, in a role of a host; others stand by until it is free."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(directory / f"{name}.post", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        """Whether it is ours now; it is until this process ends."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def hold(self, stopping: asyncio.Event, stand_by: Callable[[], None]) -> bool:
        """Take it, or wait for it, which ``stand_by`` is told once; False: told to stop meanwhile."""
        if self.take():
            return True
        stand_by()
        while not self.take():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STAND_BY_SECONDS):
                    await stopping.wait()
            if stopping.is_set():
                return False
        return True

    def leave(self) -> None:
        """Give it to whoever stands by (a clean stop)."""
        os.close(self._descriptor)


def home_name(directory: Path) -> str:
    """What tells this home from others, the same in every container that mounts it; empty: nothing has lived here."""
    try:
        return (directory / "home").read_text()
    except FileNotFoundError:
        return ""


def _named_home(directory: Path) -> str:
    """The same, named now where it has no name yet: whoever comes first names it for all."""
    while not (name := home_name(directory)):
        fresh = directory / f".home-{uuid4().hex}"
        fresh.write_text(uuid4().hex[:HOME_DIGITS])
        with contextlib.suppress(FileExistsError):
            os.link(fresh, directory / "home")
        fresh.unlink()
    return name


def is_of(home: str, identifier: str) -> bool:
    """An id without a home is one of ours, from before ids named it."""
    digits = identifier.rpartition("-")[2]
    return len(digits) != HOME_DIGITS + LIFE_DIGITS or digits.startswith(home)


def is_dead(directory: Path, identifier: str, *, expired: bool = False) -> bool:
    """Whether the process of this id has ended: its lock is free or its file gone.

    One of another home holds its lock where nobody sees it from here: dead when the right it held has ``expired``.
    """
    if not is_of(home_name(directory), identifier):
        return expired
    try:
        descriptor = os.open(directory / f"{identifier}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def process_of(directory: Path, identifier: str) -> int | None:
    """The process id that a life gave, in its own namespace; None: it has ended."""
    try:
        return int((directory / f"{identifier}.lock").read_text())
    except (FileNotFoundError, ValueError):
        return None


def alive(directory: Path, role: str) -> list[str]:
    """Ids of the living processes of a role; what dead ones left is removed."""
    living = []
    for path in directory.glob(f"{role}-*.lock"):
        if is_dead(directory, path.stem):
            path.unlink(missing_ok=True)
        else:
            living.append(path.stem)
    return sorted(living)


class ServiceBroken(Exception):
    """A part of a service ended that must not end: the process does, and is started again."""


def stopping_on_signals() -> asyncio.Event:
    """Set when this process is told to stop, by SIGTERM or SIGINT; for the main thread's loop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


async def until(stopping: asyncio.Event, parts: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until a service is told to stop. Raises ServiceBroken as soon as one of its ``parts`` has ended before."""
    told = asyncio.ensure_future(stopping.wait())
    done, _ = await asyncio.wait({told, *parts}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not stopping.is_set():
        part = done.pop()
        error = None if part.cancelled() else part.exception()
        raise ServiceBroken(f"{part!r} ended") from error

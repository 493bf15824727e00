"""The home folder: made private at first start, and locked so that only one ``up`` runs from it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from nightporter import texts
from nightporter.errors import ConfigurationError
from router.redis import run_folder

LEAVER, LEAVER_TITLE = "house-of-runner", "runner-supervisor"
"""The role of the life that a runner alone holds here, and its process's title; `runner drain` looks for both."""


def make_home(home: Path) -> None:
    """Make the home and its run folder, mode 0700; what exists keeps its mode."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_folder(home).mkdir(mode=0o700, exist_ok=True)
        if not os.access(home, os.W_OK | os.X_OK) or not os.access(run_folder(home), os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ConfigurationError(texts.home_unwritable(home, error.strerror or str(error))) from error


def lock_home(home: Path) -> int:
    """Take the lock of ``up``; the descriptor holds it until it is closed, at the latest by the end of the process."""
    path = run_folder(home) / "up.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise ConfigurationError(texts.already_up(home, holder)) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def is_up(home: Path) -> int | None:
    """The process id of the ``up`` that runs from this home, or None; 0 when it runs but is not named yet."""
    try:
        descriptor = os.open(run_folder(home) / "up.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(descriptor, 32) or b"0")
    finally:
        os.close(descriptor)
    return None


def write_listening(home: Path, addresses: dict[str, str]) -> None:
    """Record where this home really listens: with port 0 the settings do not say it."""
    path = run_folder(home) / "listening.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(addresses), "utf-8")
    draft.replace(path)


def read_listening(home: Path) -> dict[str, str]:
    """What ``write_listening`` recorded last; empty when nothing did."""
    try:
        read = json.loads((run_folder(home) / "listening.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}

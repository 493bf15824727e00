"""How every process reaches Redis: the ``redis_url``, or the embedded Valkey's socket in ``<home>/run``.

A unix socket's path has room for 107 bytes, and a home may be longer: then the folder is opened and the socket
reached through ``/proc/self/fd``. Nothing here starts a server, and nobody may rely on what Redis holds.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported when needed: a command that only looks for the run folder should not wait for it
    import redis
    import redis.asyncio

SOCKET_NAME = "valkey.sock"
LONGEST_SOCKET_PATH = 107


def run_folder(home: Path) -> Path:
    """Where sockets, locks and process ids of this home are; emptied by nobody, worth nothing after a reboot."""
    return home / "run"


def socket_path(home: Path) -> str:
    """A path to the embedded Valkey's socket that fits into a socket address, valid in this process and its forks."""
    path = str(run_folder(home) / SOCKET_NAME)
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    return f"/proc/self/fd/{_folder_descriptor(str(run_folder(home)))}/{SOCKET_NAME}"


@functools.cache
def _folder_descriptor(folder: str) -> int:
    return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def redis_client(redis_url: str, home: Path, **options: Any) -> redis.Redis:
    """A client with bytes in and out, as RQ needs it; it connects at its first command.

    ``redis_url`` empty means the embedded Valkey.
    """
    import redis

    if redis_url:
        return redis.Redis.from_url(redis_url, **options)
    return redis.Redis(unix_socket_path=socket_path(home), **options)


def async_redis_client(redis_url: str, home: Path, **options: Any) -> redis.asyncio.Redis:
    """The same for coroutines."""
    import redis.asyncio

    if redis_url:
        return redis.asyncio.Redis.from_url(redis_url, **options)
    return redis.asyncio.Redis(unix_socket_path=socket_path(home), **options)

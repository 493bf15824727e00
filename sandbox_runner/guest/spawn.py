"""Starting processes without ``subprocess`` (12 ms to import, and its helper pipe needs descriptors to spare)."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios

from .limits import Pair, set_limits

ROWS, COLUMNS = 50, 200
_DEFAULT_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGQUIT")
)

_oom_adjustment: int | None = None


def prepare_oom_adjustment() -> None:
    """Make children likelier to be killed for memory than the guest.

    Opened early: once the guest is non-dumpable its own /proc files belong to root.
    """
    global _oom_adjustment
    try:
        _oom_adjustment = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        _adjust(200)
        _adjust(0)
    except OSError:
        _oom_adjustment = None


def _adjust(score: int) -> None:
    if _oom_adjustment is not None:
        try:
            os.pwrite(_oom_adjustment, str(score).encode(), 0)
        except OSError:
            return


def open_terminal() -> tuple[int, int, list[object]]:
    """A PTY: (master, slave, its settings). No echo, output as printed, wide enough that nothing is wrapped."""
    master, slave = os.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.ONLCR
    settings[3] &= ~(termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL)
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    size = b"".join(each.to_bytes(2, sys.byteorder) for each in (ROWS, COLUMNS, 0, 0))
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    os.set_blocking(master, False)
    return master, slave, settings


def spawn(
    argv: list[str],
    environment: dict[str, str],
    cwd: str,
    *,
    stdin: int,
    stdout: int,
    stderr: int | None = None,
    controlling_terminal: bool = False,
    limits: dict[int, Pair] | None = None,
    umask: int | None = None,
) -> int:
    """Fork and execute ``argv`` in a session of its own; the process id.

    ``stdout`` is also stderr where there is none of its own. ``limits`` are resource limits. Every other descriptor of
    the guest is close-on-exec. Raises OSError when no process can be made; a program that cannot run ends with 126 or
    127.
    """
    _adjust(200)
    try:
        pid = os.fork()
    finally:
        _adjust(0)
    if pid:
        return pid
    code = 126
    try:
        os.setsid()
        if controlling_terminal:
            fcntl.ioctl(stdout, termios.TIOCSCTTY, 0)
        for target, source in ((0, stdin), (1, stdout), (2, stdout if stderr is None else stderr)):
            os.dup2(source, target)
        signal.set_wakeup_fd(-1)
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if umask is not None:
            os.umask(umask)
        if limits:
            set_limits(limits)
        os.chdir(cwd)
        os.execvpe(argv[0], argv, environment)
    except FileNotFoundError as error:
        code = 127
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode("utf-8", "replace"))
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def exit_code_of(status: int) -> int:
    """As a shell says it: 128 + signal for a killed process."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

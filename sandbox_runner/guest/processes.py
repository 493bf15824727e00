"""What runs in the sandbox, read from /proc.

As PID 1 every process counts; elsewhere (tests on a host) only the guest's own descendants.
"""

from __future__ import annotations

import os
import re
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_FLAGS = re.compile(rb"flags:\s*([0-7]+)")


class Process:
    __slots__ = ("group", "parent", "pid", "session", "started", "state", "threads")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.threads = int(fields[17])
        self.started = int(fields[19])
        """Clock ticks after boot: with the pid it names a process for good."""


def read_process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return Process(pid, file.read(4096).rpartition(b")")[2].split())
    except (OSError, IndexError, ValueError):
        return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += map(int, file.read(1 << 20).split())
    except (OSError, ValueError):
        return found
    return found


def has_children(pid: int) -> bool:
    return bool(_children(pid))


def scan() -> dict[int, Process]:
    """Every live process of the sandbox but the guest; zombies are not alive."""
    own = os.getpid()
    if own == 1:
        pids: Iterable[int] = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    else:
        pids, waiting = [], [own]
        while waiting:
            children = _children(waiting.pop())
            waiting += children
            pids += children
    found: dict[int, Process] = {}
    for pid in pids:
        process = read_process(pid) if pid != own else None
        if process is not None and process.state not in "ZX":
            found[pid] = process
    return found


def tree(root: int, processes: dict[int, Process]) -> list[int]:
    """``root`` and its descendants, with the rest of the sessions that it leads."""
    members = {root}
    grown = True
    while grown:
        grown = False
        for process in processes.values():
            if process.pid not in members and (process.parent in members or process.session in members):
                members.add(process.pid)
                grown = True
    return [pid for pid in members if pid in processes]


def _read(pid: int, name: str, limit: int) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read(limit)
    except OSError:
        return b""


def arguments(pid: int) -> list[str]:
    text = _read(pid, "cmdline", 32 << 10).decode("utf-8", "surrogateescape")
    return text.rstrip("\0").split("\0") if text else []


def environment(pid: int) -> dict[str, str]:
    text = _read(pid, "environ", 256 << 10).decode("utf-8", "surrogateescape")
    return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)


def working_directory(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def open_file(pid: int, descriptor: int) -> str:
    """What a process has open there, by name; empty for nothing."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""


def kept_open(pid: int, known: str) -> list[str]:
    """What a shell has opened for good beside its terminal, each in words; nothing below the folder ``known``."""
    found = []
    try:
        numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError):
        return []
    for number in numbers:
        target = open_file(pid, number)
        usual = (
            not target or target.startswith(("/dev/pts/", "/dev/tty", known)) or (number < 3 and target == "/dev/null")
        )
        if not usual and not _closes_on_exec(pid, number):
            kind = target.partition(":")[0]
            what = f"a {kind}" if kind in ("pipe", "socket") else "a file of none" if kind == "anon_inode" else target
            found.append(f"{number} ({what})"[:400])
    return found[:64]


def _closes_on_exec(pid: int, number: int) -> bool:
    """The shell's own, such as what it puts aside while a command is redirected."""
    flags = _FLAGS.search(_read(pid, f"fdinfo/{number}", 1 << 10))
    return flags is None or bool(int(flags[1], 8) & os.O_CLOEXEC)


def reads_terminal(pid: int) -> bool:
    """Whether it has a terminal open to read from: nobody's standard input is one here, so it was opened for that."""
    try:
        numbers = [int(name) for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    names = [open_file(pid, number) for number in numbers if number not in (1, 2)]
    return any(map(_is_terminal, names))


def _is_terminal(name: str) -> bool:
    return name == "/dev/tty" or name.startswith("/dev/pts/")


def waits_for_typing(pid: int) -> bool:
    """Whether it sleeps in a read of its standard input, and that is the terminal."""
    process = read_process(pid)
    if process is None or process.state != "S" or not _is_terminal(open_file(pid, 0)):
        return False
    try:
        with open(f"/proc/{pid}/syscall", "rb", buffering=0) as file:
            words = file.read(4096).split()
    except OSError:  # not told here
        return True
    return len(words) > 1 and words[1] == b"0x0"


def true_directory(pid: int, said: str) -> str:
    """The working directory of a process that calls it ``said``: by its present name, should that be another one."""
    try:
        if os.path.samestat(os.stat(said), os.stat(f"/proc/{pid}/cwd")):
            return said
    except OSError:
        pass
    found = working_directory(pid)
    return found if os.path.isdir(found) else said


def output_file(pid: int) -> str:
    """Where its standard output goes, when that is a regular file; else empty."""
    try:
        path = os.readlink(f"/proc/{pid}/fd/1")
        return path if path.startswith("/") and os.path.isfile(path) else ""
    except OSError:
        return ""


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return


def kill_everything() -> None:
    """End every process but the guest, needing no new one."""
    if os.getpid() == 1:
        for _ in range(3):
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                return
        return
    # Stop before killing: what is stopped starts nothing, so the second pass can catch up with a fork bomb.
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL, signal.SIGKILL):
        for pid in scan():
            send_signal(pid, number)

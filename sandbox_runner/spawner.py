"""A small process that starts sandboxes for the sandbox manager; run as a script, never imported by it.

Between fork and exec a root caller must enter a private mount namespace, join cgroups, set limits and drop to the
sandbox's uid. Python code may not run there in a manager that has threads, and a fresh interpreter per wake would cost
12 ms. This process has one thread and no secrets, starts with an empty environment, and forks safely in about 1 ms.

It promises that no sandbox outlives the manager. When the manager is gone or closes the control socket, it kills what
it started and ends. ``--die-with-parent`` alone would not do: a bubblewrap killed just after its clone leaves a child
that waits for it for ever. As a subreaper this process inherits such a child, and kills it. It is a file of its own
without imports from the package because it runs as ``python -I -S -B``.

Messages are JSON, one per SOCK_SEQPACKET packet. In: ``{"id", "exe", "argv", "uid", "stage", "cgroups", "rlimits",
"oom_score_adj", "spare"}`` with file descriptors: standard error, then those that become 3, 4, … Out: ``{"id", "pid"}``
with a pidfd, or ``{"id", "error"}``; later ``{"id", "exited": code}``, negative for a signal.

``{"id", "wait": true, "cgroups"}`` forks a child that joins its groups and waits: a later request whose ``spare`` is
that id becomes it. Joining a group may take 10 ms (the kernel waits for every processor), which no wake should.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any, NoReturn

STAGE = "/run/nightporter"
"""Where a dropped uid finds what lies below directories it may not enter; in a private mount namespace."""

_MAX_MESSAGE = 1 << 16
_MAX_FDS = 64

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _die_with_parent(number: int, parent: int) -> None:
    """Have ``number`` sent when the parent's thread ends; leave at once if the parent is gone already."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(0)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encode = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(_libc.mount(encode[0], encode[1], encode[2], ctypes.c_ulong(flags), encode[3]), f"cannot mount {target}")


def _stage(sources: list[list[str]]) -> None:
    """Bind each ``[host path, name]`` at ``STAGE/name`` in a mount namespace of its own.

    Sources are opened before the stage may cover their paths (but in the new namespace: none binds from another), and
    without following a link in their last part.
    """
    os.makedirs(STAGE, mode=0o755, exist_ok=True)
    _check(_libc.unshare(_CLONE_NEWNS), "cannot make a private mount namespace")
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    opened = [(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC), name) for path, name in sources]
    _mount("tmpfs", STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=64k")
    for fd, name in opened:
        target = os.path.join(STAGE, name)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
        _mount(f"/proc/self/fd/{fd}", target, None, _MS_BIND | _MS_REC)
        os.close(fd)


def _write(path: str, content: bytes) -> None:
    # Not open(): its text layer would import a codec in every child.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, content)
    os.close(fd)


def _drop(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (uid, uid, uid):
        raise OSError(f"could not become uid {uid}")


def _place(fds: list[int]) -> None:
    """Make ``fds`` 2, 3, 4, …, 0 and 1 the null device, and close everything else."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    top = 3 + max([null, *fds, len(fds) + 2])
    moved: list[int] = []
    for fd in [null, null, *fds]:
        os.dup2(fd, top + len(moved), inheritable=False)
        moved.append(top + len(moved))
    for target, fd in enumerate(moved):
        os.dup2(fd, target, inheritable=True)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= len(moved):
            try:
                os.close(int(name))
            except OSError:  # the descriptor of the listing itself
                continue


def _begin(parent: int) -> None:
    _die_with_parent(signal.SIGKILL, parent)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait(cgroups: list[str], told: socket.socket, parent: int) -> NoReturn:
    """In a child forked ahead: join the groups, and become what is told."""
    try:
        _begin(parent)
        for path in cgroups:
            _write(path, b"0")
        data, fds, _, _ = socket.recv_fds(told, _MAX_MESSAGE, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
    except BaseException:
        os._exit(126)
    if not data:
        os._exit(0)
    _become({**json.loads(data), "cgroups": []}, fds, parent)


def _become(request: dict[str, Any], fds: list[int], parent: int) -> NoReturn:
    """In the forked child: become bubblewrap. Whatever fails is said on the sandbox's standard error."""
    try:
        _begin(parent)
        os.dup2(fds[0], 2, inheritable=True)
        os.chdir("/")
        os.umask(0o022)
        if request["stage"]:
            _stage(request["stage"])
        for path in request["cgroups"]:
            _write(path, b"0")
        _write("/proc/self/oom_score_adj", str(request["oom_score_adj"]).encode())
        _place(fds)
        for kind, value in request["rlimits"]:
            _, hard = resource.getrlimit(kind)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        if request["uid"] is not None:
            _drop(request["uid"])
            _die_with_parent(signal.SIGKILL, parent)  # a change of uid clears it
        os.execve(request["exe"], request["argv"], {})
    except BaseException as error:
        os.write(2, f"spawner: {error}\n".encode(errors="replace"))
    os._exit(126)


class Spawner:
    """The loop: requests in, children out, their ends reported."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.children: dict[int, tuple[int, str]] = {}
        """pidfd → pid and sandbox id."""
        self.spares: dict[str, tuple[int, socket.socket]] = {}
        """Id → pidfd of a child that waits, and where it is told what to become."""

    def run(self) -> None:
        while True:
            for fd, _ in self.poll.poll():
                if fd != self.control.fileno():
                    self.reap(fd)
                elif not self.receive():
                    self.end()
                    return

    def receive(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self.control, _MAX_MESSAGE, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return False
        request = json.loads(data)
        try:
            if request.get("wait"):
                self.fork_ahead(request)
            elif not self.use_spare(request, data, fds):
                self.fork(request, fds)
        except OSError as error:
            self.send({"id": request["id"], "error": str(error)})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def fork(self, request: dict[str, Any], fds: list[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(request, fds, parent)
        self.send({"id": request["id"], "pid": pid}, [self.watch(pid, request["id"])])

    def fork_ahead(self, request: dict[str, Any]) -> None:
        parent = os.getpid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                ours.close()
                _wait(request["cgroups"], theirs, parent)
        self.spares[request["id"]] = self.watch(pid, request["id"]), ours

    def use_spare(self, request: dict[str, Any], data: bytes, fds: list[int]) -> bool:
        """Have a waiting child become what is asked for; False: there is none."""
        pidfd, told = self.spares.pop(request["spare"], (-1, None))
        if told is None:
            return False
        with told:
            try:
                socket.send_fds(told, [data], fds)
            except OSError:  # it has just ended
                return False
        pid, _ = self.children[pidfd]
        self.children[pidfd] = pid, request["id"]
        self.send({"id": request["id"], "pid": pid}, [pidfd])
        return True

    def watch(self, pid: int, identifier: str) -> int:
        pidfd = os.pidfd_open(pid)
        self.children[pidfd] = (pid, identifier)
        self.poll.register(pidfd, select.POLLIN)
        return pidfd

    def reap(self, pidfd: int) -> None:
        pid, sandbox = self.children.pop(pidfd)
        self.poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self.end_orphans()
        if sandbox in self.spares:
            self.spares.pop(sandbox)[1].close()
            return
        self.send({"id": sandbox, "exited": os.waitstatus_to_exitcode(status)})

    def end_orphans(self) -> None:
        """Kill children that came to us because their bubblewrap died."""
        ours = {pid for pid, _ in self.children.values()}
        for pid in _children() - ours:
            os.kill(pid, signal.SIGKILL)  # a child that nobody else waits for: its pid cannot be another's
            os.waitpid(pid, 0)

    def end(self) -> None:
        """Kill everything that was started; bubblewraps first, so that none of them starts anything more."""
        for pidfd, (pid, _) in self.children.items():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.children.clear()
        while _children():
            self.end_orphans()

    def send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        socket.send_fds(self.control, [json.dumps(message).encode()], fds or [])


def _children() -> set[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
            return set(map(int, children.read().split()))
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return {int(name) for name in os.listdir("/proc") if name.isdigit() and _parent_of(name) == os.getpid()}


def _parent_of(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def main() -> None:
    """``spawner.py CONTROL-FD MANAGER-PID ROLE``"""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    manager, own = int(sys.argv[2]), os.getpid()
    spawner = Spawner(control)

    def parent_thread_ended(_signal: int, _frame: object) -> None:
        # The kernel tells of the end of the *thread* that started us; the manager may well live on.
        if os.getppid() != manager and os.getpid() == own:
            spawner.end()
            os._exit(0)

    signal.signal(signal.SIGUSR1, parent_thread_ended)
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
    _die_with_parent(signal.SIGUSR1, manager)
    try:
        spawner.run()
    except (BrokenPipeError, ConnectionResetError):  # the manager is gone
        spawner.end()


if __name__ == "__main__":
    main()

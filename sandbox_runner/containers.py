"""The docker and podman backends: a container of this machine's own system, by the engine's command line.

Promises what the engine and its runtime promise: with ``runsc`` or ``kata`` a kernel of its own, with ``runc`` or
``crun`` namespaces, no capability and the engine's system call filter. The guest talks over the container's standard
input and output: when the manager dies, input ends, and with it the guest and all in its container.
https://docs.docker.com/reference/cli/docker/container/run/, https://docs.podman.io/en/latest/markdown/podman-run.1.html
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import resource
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from agent.sandbox import SandboxError, SandboxLimits, SandboxUnavailable
from sandbox_runner import probing, uids
from sandbox_runner.backend import Launch, Probe, RunningSandbox, Usage
from sandbox_runner.bubblewrap_sandbox import Tail
from sandbox_runner.container_layout import Layout, environment

START_SECONDS = 60.0
ASK_SECONDS = 30.0
STOP_SECONDS = 20.0
LABEL = "nightporter.run"
PODMAN_PROCESSES = 4096
"""Of one user; what a sandbox may have is bounded by its control group."""


@dataclass(frozen=True)
class ContainerEngine:
    """``command``: the engine's program, with options that come before any word. ``runtime``: empty for its own."""

    name: str
    command: tuple[str, ...]
    runtime: str = ""

    @property
    def own_kernel(self) -> bool:
        return any(word in self.runtime for word in ("runsc", "kata", "gvisor"))

    def run(
        self, layout: Layout, launch: Launch, *, container: str, label: str, uid: int, code: str | None = None
    ) -> list[str]:
        """The whole command that runs a sandbox. Raises ValueError."""
        interpreter, *arguments = layout.command(launch, code)
        options = [
            *self.command, "run", "--rm", "--interactive", "--name", container, "--label", f"{LABEL}={label}",
            "--pull", "never", "--log-driver", "none", *(("--runtime", self.runtime) if self.runtime else ()),
            *self._isolation(uid), *_limits(launch.limits),
            *(f"--env={name}={value}" for name, value in environment(launch.limits.environment).items()),
        ]  # fmt: skip
        for bind in layout.binds(launch):
            # Never recursive: what the host mounts below is not shown.
            more = "" if bind.writable else ",readonly"
            bound = "bind-propagation=rprivate"
            options.append(f"--mount=type=bind,source={bind.source},target={bind.target},{bound}{more}")
        return [*options, "--workdir", "/workspace", "--entrypoint", interpreter, layout.image_name(), *arguments]

    def _isolation(self, uid: int) -> list[str]:
        return [
            "--network", "none", "--ipc", "private", "--hostname", "nightporter", "--read-only",
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", f"{uid}:{uid}",
            *(("--userns", "keep-id") if self.name == "podman" and os.geteuid() else ()),
            *(_podman() if self.name == "podman" else ()),
        ]  # fmt: skip


def _podman() -> tuple[str, ...]:
    """Podman passes on proxies of the host, and raises a limit that not even every root may raise."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = PODMAN_PROCESSES if most == resource.RLIM_INFINITY else min(most, PODMAN_PROCESSES)
    return "--http-proxy=false", f"--ulimit=nproc={processes}:{processes}"


def _limits(limits: SandboxLimits) -> list[str]:
    memory, temporary = limits.memory_mb << 20, max(limits.memory_mb // 4, 16) << 20
    size = limits.disk_mb << 20
    return [
        f"--memory={memory}", f"--memory-swap={memory}", f"--pids-limit={limits.processes}", f"--cpus={limits.cpus:g}",
        f"--shm-size={temporary}", f"--ulimit=fsize={size}:{size}", "--ulimit=core=0:0", "--ulimit=nofile=1024:4096",
        f"--tmpfs=/tmp:rw,nosuid,nodev,exec,mode=1777,size={temporary}",
    ]  # fmt: skip


@dataclass
class ContainerSandbox:
    """See ``backend.RunningSandbox``."""

    id: str
    pid: int
    socket: socket.socket
    backend: ContainerBackend
    container: str
    client: asyncio.subprocess.Process
    tail: Tail
    _stopping: asyncio.Task[None] | None = None

    async def wait(self) -> str:
        code = await self.client.wait()
        if self._stopping is not None:
            return "it was stopped"
        said = self.diagnostics().strip().rpartition("\n")[2]
        return f"its container ended with code {code}" + (f": {said}" if said else "")

    async def stop(self) -> None:
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        await self.backend.remove(self.container)
        self.socket.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.client.wait()
        except TimeoutError:
            self.client.kill()
            await self.client.wait()
        self.tail.close()
        self.backend.forget(self)

    def usage(self) -> Usage:
        return Usage(None, None)

    def oom_kills(self) -> int:
        return 0

    async def freeze(self) -> bool:
        return (await self.backend.ask(self.backend.PAUSE, self.container))[0] == 0

    async def thaw(self) -> None:
        await self.backend.ask(self.backend.UNPAUSE, self.container)

    def diagnostics(self) -> str:
        return self.tail.text()


@dataclass
class ContainerBackend:
    """Starts containers for one sandbox manager. ``run_dir`` is the manager's own: it names what is ours."""

    PAUSE: ClassVar[str] = "pause"
    UNPAUSE: ClassVar[str] = "unpause"

    engine: ContainerEngine
    run_dir: Path
    host_uids: uids.HostUids
    _layout: Layout | None = None
    _prepared: bool = False
    _sandboxes: dict[str, ContainerSandbox] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def image(self) -> str:
        return self.layout.image_name()

    @property
    def label(self) -> str:
        return hashlib.sha256(os.fsencode(self.run_dir.resolve())).hexdigest()[:16]

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = Layout.of_this_machine()
        return self._layout

    def reap(self) -> list[str]:
        """Remove containers that an earlier manager of this run directory left; their names. Blocking."""
        if not self._was_used():
            return []
        listing = [*self.engine.command, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={self.label}"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            found = subprocess.run(listing, capture_output=True, text=True, timeout=ASK_SECONDS).stdout.split()
            if found:
                remove = [*self.engine.command, "rm", "--force", *found]
                subprocess.run(remove, capture_output=True, timeout=ASK_SECONDS)
            return found
        return []

    def _was_used(self) -> bool:
        """Whether there can be anything of ours: asking an engine for nothing takes long."""
        return (self.run_dir / f"used-{self.name}").exists() and shutil.which(self.engine.command[0]) is not None

    async def probe(self) -> Probe:
        remedy = f"Install and start {self.name}, or set sandbox.backend to another."
        if shutil.which(self.engine.command[0]) is None:
            return Probe(False, f"{self.engine.command[0]} is not installed.", remedy)
        root = os.geteuid() == 0
        uid = self.host_uids.base + self.host_uids.count if root else None
        self.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix="probe-", dir=self.run_dir))
        try:
            problem = await self._try(folder, uid)
        except (SandboxUnavailable, SandboxError) as error:
            problem = str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        with_ = f" with {self.engine.runtime}" if self.engine.runtime else ""
        if problem:
            return Probe(False, f"{self.name}{with_}: {problem}", remedy)
        return Probe(True, f"{self.name}{with_} works here.", "", *_claims(self.engine, root))

    async def _try(self, folder: Path, uid: int | None) -> str:
        sandbox = await self._start(probing.launch(folder, uid), code=probing.CODE)
        try:
            return await probing.verdict(
                sandbox, uid=os.geteuid() if uid is None else uid, own_kernel=self.engine.own_kernel
            )
        finally:
            await sandbox.stop()

    async def warm(self, guest: Path) -> None:
        """There is nothing that could be done ahead."""

    async def start(self, launch: Launch) -> RunningSandbox:
        return await self._start(launch)

    async def close(self) -> None:
        await asyncio.gather(*(sandbox.stop() for sandbox in list(self._sandboxes.values())))

    async def _start(self, launch: Launch, code: str | None = None) -> ContainerSandbox:
        uid = uids.resolve(launch.host_uid)
        if launch.sandbox_id in self._sandboxes:
            raise SandboxUnavailable(f"sandbox {launch.sandbox_id} is running already")
        await self._prepare()
        (self.run_dir / f"used-{self.name}").touch()
        container = f"nightporter-{self.label}-{launch.sandbox_id}"
        try:
            command = self._command(launch, container, os.geteuid() if uid is None else uid, code)
        except ValueError as error:
            raise SandboxUnavailable(str(error)) from error
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        tail = Tail()
        client: asyncio.subprocess.Process | None = None
        try:
            with contextlib.ExitStack() as theirs_to_close:
                theirs_to_close.callback(theirs.close)
                errors = tail.open(theirs_to_close)
                client = await asyncio.create_subprocess_exec(
                    *command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=errors, env=_client_environment(),
                    cwd=self.run_dir,  # Podman's monitor leaves a file `oom` where it was started
                )  # fmt: skip
            pid = await self._first_process(container, client, tail, quick=code is not None)
        except BaseException:
            ours.close()
            await asyncio.shield(self._give_up(container, client, tail))
            raise
        sandbox = ContainerSandbox(launch.sandbox_id, pid, ours, self, container, client, tail)
        self._sandboxes[launch.sandbox_id] = sandbox
        return sandbox

    async def _give_up(self, container: str, client: asyncio.subprocess.Process | None, tail: Tail) -> None:
        with contextlib.suppress(SandboxError):
            await self.remove(container)
        if client is not None and client.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                client.kill()
            await client.wait()
        tail.close()

    async def _first_process(
        self, container: str, client: asyncio.subprocess.Process, tail: Tail, *, quick: bool
    ) -> int:
        """The host's pid of the container's first process (0 where the engine keeps it elsewhere)."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if (pid := await self._pid(container)) is not None:
                return pid
            if client.returncode is not None:
                if quick and client.returncode == 0:
                    return 0
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await tail.ended()
                said = tail.text().strip() or f"it ended with code {client.returncode}"
                raise SandboxUnavailable(f"{self.name} could not start a sandbox: {said}")
            await asyncio.sleep(0.02)
        raise SandboxUnavailable(f"{self.name} did not start a sandbox within {START_SECONDS:.0f} s")

    def _command(self, launch: Launch, container: str, uid: int, code: str | None) -> list[str]:
        """What runs a sandbox. Raises ValueError."""
        return self.engine.run(self.layout, launch, container=container, label=self.label, uid=uid, code=code)

    async def _pid(self, container: str) -> int | None:
        """The host's pid of a running container's first process; None: it does not run (yet)."""
        code, said = await self.ask("inspect", "--format", "{{.State.Running}} {{.State.Pid}}", container)
        words = said.split()
        return int(words[1]) if code == 0 and len(words) == 2 and words[0] == "true" and words[1].isdigit() else None

    async def _prepare(self) -> None:
        """Have the image: made here, of this machine's own links and folders."""
        if self._prepared:
            return
        image = self.layout.image_name()
        if (await self.ask("image", "inspect", image))[0] != 0:
            code, said = await self.ask("import", "-", image, given=self.layout.image())
            if code != 0:
                raise SandboxUnavailable(f"{self.name} does not take an image: {said.strip()[-500:]}")
        self._prepared = True

    async def ask(self, *words: str, given: bytes | None = None) -> tuple[int, str]:
        """Exit code and output of one of the engine's commands. Raises SandboxUnavailable where it does not answer."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.engine.command, *words, stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_client_environment(),
            )  # fmt: skip
        except OSError as error:
            raise SandboxUnavailable(f"{self.engine.command[0]} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(ASK_SECONDS):
                said, complaint = await process.communicate(given)
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise SandboxUnavailable(f"{self.name} does not answer within {ASK_SECONDS:.0f} s") from error
        code = process.returncode or 0
        # Podman also warns of what went well.
        return code, (said if code == 0 else said + complaint).decode("utf-8", "replace")

    async def remove(self, container: str) -> None:
        """Kill and remove a container, and all in it. Raises SandboxError where it stays."""
        code, said = await self.ask("rm", "--force", container)
        if code != 0 and (await self.ask("inspect", container))[0] == 0:
            raise SandboxError(f"container {container} does not end: {said.strip()[-300:]}")

    def forget(self, sandbox: ContainerSandbox) -> None:
        self._sandboxes.pop(sandbox.id, None)


def _client_environment() -> dict[str, str]:
    """Of the engine's client, which runs on the host: where to find its daemon and its own settings."""
    kept = (
        "PATH",
        "HOME",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "CONTAINER_HOST",
        "DBUS_SESSION_BUS_ADDRESS",
    )
    return {name: os.environ[name] for name in kept if name in os.environ}


def _claims(engine: ContainerEngine, root: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(promises, cannot)."""
    promises = [
        "own process, mount, network, IPC and host name namespaces, no capabilities, a read-only system",
        "memory, processes, processor time and file size are bounded by the engine",
        "what takes more disk than its share is paused within a second",
    ]
    if engine.own_kernel:
        unverified = f"be vouched for: nobody has tested {engine.name} with {engine.runtime} (unverified)"
        return (*promises, "a kernel of its own"), (unverified,)
    if root:
        promises.append("each principal is a host user of its own")
    return tuple(promises), ("hold against a flaw in the host's kernel, which it shares",)

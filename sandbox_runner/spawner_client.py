"""The manager's side of the spawner: start it when first needed, ask it for children, hear of their ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.sandbox import SandboxUnavailable

_SCRIPT = Path(__file__).with_name("spawner.py")
_ROLE = "nightporter: spawner"
_MAX_MESSAGE = 1 << 16
_END_TIMEOUT = 5.0


@dataclass(frozen=True)
class SpawnRequest:
    sandbox_id: str
    exe: str
    argv: Sequence[str]
    fds: Sequence[int]
    """Standard error, then what becomes 3, 4, …; still the caller's to close."""
    uid: int | None
    stage: Sequence[tuple[str, str]]
    cgroups: Sequence[str]
    rlimits: Sequence[tuple[int, int]]
    oom_score_adj: int
    spare: str = ""
    """A child that waits in these very cgroups (``SpawnerClient.fork_ahead``), if there is one."""


@dataclass
class Child:
    """A child of the spawner; ``pidfd`` is the owner's to close."""

    pid: int
    pidfd: int
    exited: asyncio.Future[int | None]
    """Exit code, negative for a signal, None if the spawner itself went."""

    def kill(self) -> None:
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class SpawnerClient:
    """One spawner process at a time, bound to one event loop."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._spawning: dict[str, asyncio.Future[Child]] = {}
        self._running: dict[str, asyncio.Future[int | None]] = {}

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def spawn(self, request: SpawnRequest) -> Child:
        """Raises SandboxUnavailable where the spawner cannot fork or is gone."""
        control = self._started()
        if request.sandbox_id in self._spawning or request.sandbox_id in self._running:
            raise SandboxUnavailable(f"sandbox {request.sandbox_id} is running already")
        answer: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._spawning[request.sandbox_id] = answer
        message = {
            "id": request.sandbox_id,
            "exe": request.exe,
            "argv": list(request.argv),
            "uid": request.uid,
            "stage": [list(pair) for pair in request.stage],
            "cgroups": list(request.cgroups),
            "rlimits": [list(pair) for pair in request.rlimits],
            "oom_score_adj": request.oom_score_adj,
            "spare": request.spare,
        }
        try:
            await _send(control, json.dumps(message).encode(), request.fds)
        except BaseException as error:
            self._spawning.pop(request.sandbox_id, None)
            if isinstance(error, OSError):
                raise SandboxUnavailable(f"cannot ask the spawner: {error}") from error
            raise
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await _abandon(answer)
            raise

    async def fork_ahead(self, identifier: str, cgroups: Sequence[str]) -> None:
        """Have a child join ``cgroups`` and wait for a request that names it. Raises SandboxUnavailable."""
        message = {"id": identifier, "wait": True, "cgroups": list(cgroups)}
        try:
            await _send(self._started(), json.dumps(message).encode(), ())
        except OSError as error:
            raise SandboxUnavailable(f"cannot ask the spawner: {error}") from error

    async def close(self) -> None:
        """End the spawner, and with it whatever it started."""
        self._lost()

    def _started(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        if self._control is not None and self._loop is loop:
            return self._control
        if self._control is not None:
            self._lost()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            base = getattr(sys, "_base_executable", None) or sys.executable
            self._process = subprocess.Popen(
                [base, "-I", "-S", "-B", str(_SCRIPT), str(theirs.fileno()), str(os.getpid()), _ROLE],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # a Ctrl-C is the manager's to act on
            )
        ours.setblocking(False)
        loop.add_reader(ours, self._read)
        self._control, self._loop = ours, loop
        return ours

    def _read(self) -> None:
        if self._control is None:
            return
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _MAX_MESSAGE, 4, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._lost()
            return
        self._heard(json.loads(data), fds)

    def _heard(self, message: dict[str, Any], fds: list[int]) -> None:
        sandbox = message["id"]
        if "exited" in message:
            _settle(self._running.pop(sandbox), message["exited"])
            return
        answer = self._spawning.pop(sandbox, None)
        if answer is None:  # it could not fork ahead: the next start forks
            return
        if "error" in message:
            if not answer.done():
                answer.set_exception(SandboxUnavailable(f"cannot start a process: {message['error']}"))
            return
        exited: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._running[sandbox] = exited
        answer.set_result(Child(message["pid"], fds[0], exited))

    def _lost(self) -> None:
        """The spawner is gone or must go; its children die with it."""
        if self._control is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._control)
            self._control.close()
        if self._process is not None:
            # It ends by itself, at the end of its control socket, after everything that it started.
            try:
                self._process.wait(_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control = self._process = self._loop = None
        for answer in self._spawning.values():
            if not answer.done():
                answer.set_exception(SandboxUnavailable("the spawner of sandboxes ended; try again"))
        for exited in self._running.values():
            _settle(exited, None)
        self._spawning.clear()
        self._running.clear()


def _settle(future: asyncio.Future[int | None], value: int | None) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(value)


async def _abandon(answer: asyncio.Future[Child]) -> None:
    """Whoever asked has been cancelled: nobody else will ever stop that child."""
    with contextlib.suppress(SandboxUnavailable):
        child = await asyncio.shield(answer)
        child.kill()
        await asyncio.shield(child.exited)
        os.close(child.pidfd)


async def _send(control: socket.socket, message: bytes, fds: Sequence[int]) -> None:
    while True:
        try:
            socket.send_fds(control, [message], list(fds))
            return
        except BlockingIOError:
            await asyncio.sleep(0.002)

"""A sandbox that bubblewrap runs: watched by descriptors of its processes, ended as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable

from agent.sandbox import SandboxError
from sandbox_runner.backend import Usage
from sandbox_runner.cgroups import SandboxCgroup
from sandbox_runner.spawner_client import Child

_STOP_TIMEOUT = 10.0
_FREEZE_TIMEOUT = 0.5


class Tail:
    """Reads a pipe to its end and keeps the last ``limit`` bytes; whoever writes never waits for long."""

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._fd: int | None = None
        self._ended = asyncio.get_running_loop().create_future()

    def open(self, writer_owner: contextlib.ExitStack) -> int:
        """Make the pipe; the writing end, which ``writer_owner`` closes."""
        self._fd, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        writer_owner.callback(os.close, writer)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return writer

    async def ended(self) -> None:
        await asyncio.shield(self._ended)

    def text(self) -> str:
        self._read()
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        if self._fd is not None:
            self._read()
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if not self._ended.done():
            self._ended.set_result(None)

    def _read(self) -> None:
        if self._fd is None:
            return
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        self._kept += data
        del self._kept[: -self._limit]
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
            self._ended.set_result(None)


class BubblewrapSandbox:
    """See ``backend.RunningSandbox``. Whoever started it calls ``stop``, also after it has ended by itself."""

    def __init__(
        self,
        sandbox_id: str,
        pid: int,
        pidfd: int,
        connection: socket.socket,
        child: Child,
        group: SandboxCgroup | None,
        tail: Tail,
        forget: Callable[[BubblewrapSandbox], None],
    ) -> None:
        self.id = sandbox_id
        self.pid = pid
        self.socket = connection
        self._pidfd = pidfd
        self._child = child
        self._group = group
        self._tail = tail
        self._forget = forget
        self._stopping: asyncio.Task[None] | None = None
        self._oom_kills = 0

    async def wait(self) -> str:
        code = await asyncio.shield(self._child.exited)
        if self._stopping is not None:
            return "it was stopped"
        if kills := self.oom_kills():
            return f"it reached its memory limit ({kills} processes killed)"
        said = self.diagnostics().strip().rpartition("\n")[2]
        how = "the spawner ended" if code is None else f"its first process ended with code {code}"
        return f"{how}: {said}" if said else how

    async def stop(self) -> None:
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    def usage(self) -> Usage:
        if self._group is None:
            return Usage(None, None)
        return Usage(self._group.memory_bytes(), self._group.process_count())

    def oom_kills(self) -> int:
        if self._group is not None:
            self._oom_kills = max(self._oom_kills, self._group.oom_kills())
        return self._oom_kills

    async def freeze(self) -> bool:
        if self._group is None or not self._group.freeze():
            return False
        for _ in range(int(_FREEZE_TIMEOUT / 0.002)):
            if self._group.is_frozen():
                return True
            await asyncio.sleep(0.002)
        self._group.thaw()
        return False

    async def thaw(self) -> None:
        if self._group is not None:
            self._group.thaw()

    def diagnostics(self) -> str:
        return self._tail.text()

    async def _stop(self) -> None:
        if self._group is not None:
            # A frozen process does not die, and a throttled one dies slowly.
            self._group.thaw()
            self._group.lift_cpu()
        # The end of PID 1 is the end of its namespace: the kernel kills the rest and reports it only then
        # (pid_namespaces(7)). Bubblewrap then ends by itself and reaps it.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        gone = await until_ended(self._pidfd, _STOP_TIMEOUT)
        if not await until_ended(self._child.pidfd, 1.0):
            self._child.kill()
            gone = await until_ended(self._child.pidfd, 1.0) and gone
        await self._child.exited
        self.oom_kills()
        self._tail.close()
        self.socket.close()
        if self._group is not None:
            gone = await _removed(self._group) and gone
        if not gone:
            # The record stays, so that the next manager tries again.
            raise SandboxError(f"sandbox {self.id} does not end; its volume must not be used")
        os.close(self._pidfd)
        os.close(self._child.pidfd)
        self._forget(self)


async def _removed(group: SandboxCgroup) -> bool:
    """A group may be busy for a moment after its last process has gone."""
    for _ in range(500):
        if group.remove():
            return True
        if group.pids():
            group.kill(timeout=0)
        await asyncio.sleep(0.001)
    return False


async def until_ended(pidfd: int, seconds: float) -> bool:
    """Whether the process has ended within ``seconds``: a pidfd is readable from then on."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    own = os.dup(pidfd)

    def readable() -> None:
        loop.remove_reader(own)
        ended.set_result(None)

    loop.add_reader(own, readable)
    try:
        async with asyncio.timeout(seconds):
            await ended
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(own)
        os.close(own)
    return True

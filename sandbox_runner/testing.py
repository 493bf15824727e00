"""For tests: sandboxes with a stand-in for the guest agent that runs one shell command at a time."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.sandbox import SandboxLimits
from sandbox_runner.backend import Backend, Launch, RunningSandbox
from sandbox_runner.uids import HostUids, take_ownership

STAND_IN = """
import fcntl, os, sys
reads = int(sys.argv[sys.argv.index("--fd") + 1])
writes = int(sys.argv[sys.argv.index("--out") + 1]) if "--out" in sys.argv else reads
reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (reads, writes))
os.set_inheritable(int(sys.argv[sys.argv.index("--fd") + 1]), False)
null = os.open("/dev/null", os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 1)
def send(data):
    while data:
        data = data[os.write(writes, data):]
send(b"ready\\0")
received = b""
while data := os.read(reads, 65536):
    received += data
    while b"\\0" in received:
        command, received = received.split(b"\\0", 1)
        output = os.open("/tmp/.output", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            os.dup2(output, 1); os.dup2(output, 2)
            os.execv("/bin/bash", ["bash", "-c", command.decode()])
        while os.wait()[0] != pid:
            pass
        # No more than is sent: a background process may go on writing.
        text = os.pread(output, 1 << 20, 0)
        os.close(output)
        send(text.replace(b"\\0", b"\\n") + b"\\0")
"""

LIMITS = SandboxLimits(memory_mb=256, processes=64, disk_mb=64)
_numbers = itertools.count(1)
# Test processes side by side must not count each other's processes.
TEST_UIDS = HostUids.of(Path(f"/tests/{os.getpid()}"))


@dataclass
class Shell:
    """A sandbox and its stand-in guest."""

    sandbox: RunningSandbox
    workspace: Path
    home: Path
    host_uid: int

    async def run(self, command: str, seconds: float = 30) -> str:
        """Output and errors of ``command`` in bash, without the last newline. ConnectionError: the sandbox ended."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            await loop.sock_sendall(self.sandbox.socket, command.encode() + b"\0")
            return await self._answer()

    async def python(self, code: str, seconds: float = 30) -> str:
        """Output and errors of a Python program."""
        await self.run("cat > /tmp/program.py <<'NIGHTPORTER'\n" + code + "\nNIGHTPORTER")
        return await self.run("python3 /tmp/program.py", seconds)

    async def _answer(self) -> str:
        loop, data = asyncio.get_running_loop(), b""
        while not data.endswith(b"\0"):
            more = await loop.sock_recv(self.sandbox.socket, 65536)
            if not more:
                raise ConnectionError(f"the sandbox ended: {self.sandbox.diagnostics()}")
            data += more
        return data[:-1].decode(errors="replace").rstrip("\n")


def own_uid(number: int = 1) -> int | None:
    """The host uid for a test's principal: None for an ordinary user."""
    return TEST_UIDS.uid(number) if os.geteuid() == 0 else None


def volume(folder: Path, uid: int | None) -> tuple[Path, Path]:
    """(workspace, home) of a new volume in ``folder``."""
    paths = (folder / "workspace", folder / "home")
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
        if uid is not None:
            take_ownership(path, uid)
    return paths


@asynccontextmanager
async def shell(
    backend: Backend, folder: Path, *, limits: SandboxLimits = LIMITS, number: int = 1, **changes: Any
) -> AsyncIterator[Shell]:
    """A running sandbox on the volume in ``folder``; ``changes`` are fields of the ``Launch``."""
    uid = own_uid(number)
    workspace, home = volume(folder, uid)
    guest = folder / "stand-in"
    guest.mkdir(exist_ok=True)
    (guest / "__main__.py").write_text(STAND_IN)
    launch = Launch(f"test-{os.getpid()}-{next(_numbers)}", workspace, home, guest, limits, uid)
    sandbox = await backend.start(replace(launch, **changes))
    try:
        started = Shell(sandbox, workspace, home, os.geteuid() if uid is None else uid)
        async with asyncio.timeout(20):
            await started._answer()
        yield started
    finally:
        await sandbox.stop()

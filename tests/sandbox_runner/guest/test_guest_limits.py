"""A sandbox that can start no more processes: told, emptied, and usable again.

The bombs run only as a user of their own under RLIMIT_NPROC, so that the host never feels them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_runner.guest_connection import GUEST_FOLDER, GuestConnection, guest_arguments

USER = 61_234
PROCESSES = 60
PYTHON = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not os.path.exists(PYTHON), reason="needs root, to give the bomb a user of its own"
)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def processes_of_the_user() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == USER:
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.fixture
async def small() -> AsyncIterator[GuestConnection]:
    """A guest whose user may have 60 processes."""
    if processes_of_the_user():
        pytest.skip(f"user {USER} has processes that are not ours")
    folder = Path(tempfile.mkdtemp(prefix="nightporter-limits-"))
    shutil.copytree(GUEST_FOLDER, folder / "guest")
    (folder / "home").mkdir()
    os.chmod(folder, 0o755)
    os.chown(folder / "home", USER, USER)
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        guest_arguments(PYTHON, theirs.fileno(), folder=str(folder / "guest"), processes=PROCESSES),
        pass_fds=[theirs.fileno()],
        preexec_fn=limited,
        cwd="/",
        env={"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
    )
    theirs.close()
    connection = await GuestConnection.over(ours)
    await connection.restore()
    yield connection
    await connection.close()
    process.wait(10)
    async with asyncio.timeout(20):
        while left := processes_of_the_user():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)
    shutil.rmtree(folder)


async def says_the_limit(connection: GuestConnection, command: str) -> None:
    await connection.run("before", "kept=yes; cd /usr", timeout=10)
    first = await connection.run("bomb", command, timeout=30)
    second = await connection.run("next", "echo $kept $PWD; \\: fine", timeout=30)
    third = await connection.run("third", "echo usable", timeout=30)
    notes = first.notes + second.notes
    assert any("process limit reached" in note for note in notes), (first, second)
    assert (third.status, third.output) == ("exited", "usable\n")
    if second.status == "exited":
        assert second.output == "yes /usr\n"


async def test_a_fork_bomb_is_answered_and_the_next_command_works(small: GuestConnection) -> None:
    await says_the_limit(small, ":(){ :|:& };:")


@pytest.mark.slow
async def test_a_fork_bomb_in_the_foreground_too(small: GuestConnection) -> None:
    await says_the_limit(small, "bomb() { bomb | bomb; }; bomb")


@pytest.mark.slow
async def test_many_sleeping_children_are_the_same(small: GuestConnection) -> None:
    await says_the_limit(small, "for i in $(seq 200); do sleep 1000 & done; wait")

"""What a probe asks a real sandbox, and what may be promised after its answer."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from sandbox_runner import uids
from sandbox_runner.backend import Launch, RunningSandbox
from sandbox_runner.cgroups import CgroupParents

_TIMEOUT = 10.0
_MAX_ANSWER = 4096

CODE = """
import json, os, socket, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def writable(folder):
    try:
        with open(folder + "/.probe", "w"): pass
        os.unlink(folder + "/.probe")
        return True
    except OSError:
        return False
answer = {
    "pid": os.getpid(), "uid": os.getuid(), "seccomp": status["Seccomp"].strip(),
    "capabilities": sorted({status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "workspace": writable("/workspace"), "home": writable(os.environ["HOME"]), "system": writable("/usr"),
    "environment": sorted(os.environ),
}
os.write(int(sys.argv[1]), json.dumps(answer).encode())
"""

_EXPECTED = {
    "pid": 1,
    "uid": 1000,
    "seccomp": "2",
    "capabilities": ["0000000000000000"],
    "no_new_privileges": "1",
    "interfaces": ["lo"],
    "workspace": True,
    "home": True,
    "system": False,
}


def launch(folder: Path, uid: int | None) -> Launch:
    """What a probe starts: with empty volumes below ``folder``, of host uid ``uid`` where there is one."""
    workspace, home, guest = (folder / name for name in ("workspace", "home", "guest"))
    for path in (workspace, home, guest):
        path.mkdir()
        if uid is not None:
            uids.take_ownership(path, uid)
    return Launch(f"probe-{os.getpid()}", workspace, home, guest, host_uid=uid)


async def verdict(sandbox: RunningSandbox, *, uid: int = 1000, own_kernel: bool = False) -> str:
    """What is wrong with the sandbox that runs ``CODE`` as ``uid``; empty: it is as it must be.

    ``own_kernel``: system calls are filtered by a kernel of its own, not by seccomp inside.
    """
    loop, data = asyncio.get_running_loop(), b""
    try:
        async with asyncio.timeout(_TIMEOUT):
            while len(data) < _MAX_ANSWER and (more := await loop.sock_recv(sandbox.socket, _MAX_ANSWER)):
                data += more
    except TimeoutError:
        return "the sandbox did not answer."
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        return f"Python does not run in the sandbox: {await sandbox.wait()}"
    expected = {**_EXPECTED, "uid": uid}
    if own_kernel:
        expected = {key: value for key, value in expected.items() if key not in ("seccomp", "no_new_privileges")}
    wrong = [f"{key} is {answer.get(key)!r}" for key, value in expected.items() if answer.get(key) != value]
    return f"the sandbox is not as strict as it must be: {', '.join(wrong)}" if wrong else ""


def claims(cgroups: CgroupParents | None, root: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(promises, cannot) on this machine."""
    controllers = cgroups.controllers if cgroups is not None else frozenset()
    promises = [
        "own user, process, mount, network, IPC, host name and control group namespaces",
        "no capabilities, a system call filter, a read-only system",
        "no network and nothing of the host's environment",
        "file size and number of processes are bounded",
        "nothing outlives it",
    ]
    if root:
        promises.append("each principal is a host user of its own")
    promises.append("what takes more disk than its share is paused within a second (no filesystem quota is needed)")
    cannot = ["hold against a flaw in the host's kernel, which it shares"]
    bounded = {
        "memory": ("total memory is bounded", "bound total memory (each process is)"),
        "cpu": ("processor time is bounded", "bound processor time"),
        "freezer": ("can be frozen", ""),
    }
    if cgroups is not None and cgroups.version == 2:
        controllers |= {"freezer"}
    for controller, (promise, lack) in bounded.items():
        if controller in controllers:
            promises.append(promise)
        elif lack:
            cannot.append(lack)
    return tuple(promises), tuple(cannot)

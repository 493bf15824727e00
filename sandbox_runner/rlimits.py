"""Limits that hold everywhere, also where no control group is ours. See getrlimit(2)."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence

from agent.sandbox import SandboxLimits
from sandbox_runner.cgroups import BUBBLEWRAP_PROCESSES


def rlimits(limits: SandboxLimits, *, own_uid: bool, memory_cgroup: bool) -> Sequence[tuple[int, int]]:
    """(resource, bound) to set before bubblewrap starts.

    ``own_uid``: nothing but this sandbox runs as its uid, so that the number of processes can be bounded by uid.
    """
    bounds = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 4096),
        (resource.RLIMIT_FSIZE, limits.disk_mb << 20),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_MEMLOCK, 8 << 20),
    ]
    if own_uid:
        bounds.append((resource.RLIMIT_NPROC, limits.processes + BUBBLEWRAP_PROCESSES))
    if not memory_cgroup:
        # Of each process. RLIMIT_AS would refuse programs that reserve much and use little (V8, Go, the JVM).
        bounds.append((resource.RLIMIT_DATA, limits.memory_mb << 20))
    return bounds


def limit_processes_inside(pid: int, limits: SandboxLimits) -> None:
    """Bound the number of processes of a sandbox that shares its caller's uid.

    Set from outside once PID 1 is in its user namespace: since Linux 5.14 processes are counted per uid *and* user
    namespace, so that the caller's other processes do not count. ``bubblewrap`` itself must not have this limit, since
    what a namespace's creator has bounds the uid in all of the host.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        resource.prlimit(pid, resource.RLIMIT_NPROC, (limits.processes, limits.processes))

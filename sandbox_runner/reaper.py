"""What a killed manager may have left behind: found by written records and control groups, never by process name.

Each sandbox has a record under the run directory while it exists, written before anything of it does. A manager that
starts (and holds its lock, so that no other is alive on this run directory) calls ``reap`` before it starts any.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sandbox_runner.cgroups import CgroupParents, SandboxCgroup

SPARE = "spare-"
"""How the names of groups begin in which no sandbox has run yet."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    start_ticks: int
    """Since boot: field 22 of proc(5)'s ``/proc/PID/stat``."""


@dataclass(frozen=True)
class Record:
    sandbox_id: str
    boot_id: str
    processes: tuple[Process, ...] = ()
    cgroup_version: int = 0
    cgroup_folders: Mapping[str, str] = field(default_factory=dict)
    """Controller → folder: a later manager may itself be in another group, and would look elsewhere."""

    @property
    def group(self) -> SandboxCgroup | None:
        if not self.cgroup_folders:
            return None
        return SandboxCgroup(self.cgroup_version, {key: Path(path) for key, path in self.cgroup_folders.items()})


class Records:
    """The records of running sandboxes, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def intend(self, sandbox_id: str, group: SandboxCgroup | None = None) -> Record:
        version = group.version if group is not None else 0
        folders = {key: str(path) for key, path in group.folders.items()} if group is not None else {}
        record = Record(sandbox_id, _boot_id(), (), version, folders)
        self._write(record)
        return record

    def started(self, record: Record, *pids: int) -> Record:
        record = replace(record, processes=tuple(filter(None, map(identify, pids))))
        self._write(record)
        return record

    def forget(self, sandbox_id: str) -> None:
        self._path(sandbox_id).unlink(missing_ok=True)

    def all(self) -> list[Record]:
        found = []
        for path in sorted(self.folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                raw = json.loads(path.read_text())
                processes = tuple(Process(int(each["pid"]), int(each["start_ticks"])) for each in raw["processes"])
                folders = {str(key): str(folder) for key, folder in raw["cgroup_folders"].items()}
                version = int(raw["cgroup_version"])
                found.append(Record(str(raw["sandbox_id"]), str(raw["boot_id"]), processes, version, folders))
        return found

    def _path(self, sandbox_id: str) -> Path:
        return self.folder / f"{sandbox_id}.json"

    def _write(self, record: Record) -> None:
        # Not synced: a record matters only until the machine stops.
        partial = self._path(record.sandbox_id).with_suffix(".partial")
        partial.write_text(json.dumps(asdict(record)))
        partial.replace(self._path(record.sandbox_id))


def identify(pid: int) -> Process | None:
    """None: there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold spaces and parentheses of its own.
    return Process(pid, int(stat.rpartition(")")[2].split()[19]))


def reap(records: Records, cgroups: CgroupParents | None, timeout: float = 5.0) -> list[str]:
    """Kill and remove what earlier managers left; ids of the sandboxes that were. Blocking; call it before any start.

    Raises OSError if something cannot be removed: the volumes of these sandboxes must not be used then.
    """
    left = {record.sandbox_id: record for record in records.all()}
    names = cgroups.names() if cgroups is not None else set()
    for record in left.values():
        if record.boot_id == _boot_id():
            for process in record.processes:
                _end(process, timeout)
            if record.group is not None:
                _empty(record.sandbox_id, record.group, timeout)
                _remove_folders_of_another_group(record.group, cgroups)
    if cgroups is not None:
        for name in names:
            _empty(name, cgroups.named(name), timeout)
    for sandbox_id in left:
        records.forget(sandbox_id)
    return sorted({*left, *(name for name in names if not name.startswith(SPARE))})


def _empty(sandbox_id: str, group: SandboxCgroup, timeout: float) -> None:
    until = time.monotonic() + timeout
    while not (group.kill(timeout) and group.remove()):
        if time.monotonic() > until:
            raise OSError(f"cannot empty the control group of sandbox {sandbox_id}")
        time.sleep(0.002)


def _remove_folders_of_another_group(group: SandboxCgroup, cgroups: CgroupParents | None) -> None:
    ours = set(cgroups.parents.values()) if cgroups is not None else set()
    for parent in {path.parent for path in group.paths} - ours:
        with contextlib.suppress(OSError):  # refused while in use
            parent.rmdir()


def _end(process: Process, timeout: float) -> None:
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if identify(process.pid) != process:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(timeout * 1000):
            raise OSError(f"process {process.pid} of an earlier sandbox does not end")
    finally:
        os.close(pidfd)


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()

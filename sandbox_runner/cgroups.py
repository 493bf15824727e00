"""Control groups of sandboxes: memory, processes, CPU, freezing, and killing whatever is left.

Version 2 where controllers are delegated to us, version 1 where its hierarchies are writable (also in the hybrid
layout), otherwise none: then only rlimits hold, and the backend says so. Nothing outside our own folder is changed,
with one exception: enabling controllers for children (``cgroup.subtree_control``) where that is ours to do.
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/,
https://systemd.io/CGROUP_DELEGATION/
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.sandbox import SandboxLimits

_PERIOD_US = 100_000
BUBBLEWRAP_PROCESSES = 2
"""Of bubblewrap's own, beside what a sandbox may have."""
_V1_CONTROLLERS = ("memory", "pids", "cpu", "freezer")
_V2_CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True)
class SandboxCgroup:
    """The group of one sandbox: one folder in version 2, one per controller in version 1."""

    version: int
    folders: Mapping[str, Path]
    """Controller → folder; in version 2 all the same one."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self.folders.values()))

    @property
    def procs(self) -> tuple[str, ...]:
        """Files that a process writes ``0`` to, to join."""
        return tuple(str(path / "cgroup.procs") for path in self.paths)

    def apply(self, limits: SandboxLimits) -> None:
        memory = limits.memory_mb << 20
        quota = max(1000, int(limits.cpus * _PERIOD_US))
        if self.version == 2:
            self._set("memory", "memory.max", memory)
            self._set("memory", "memory.swap.max", 0, required=False)
            self._set("pids", "pids.max", limits.processes + BUBBLEWRAP_PROCESSES)
            self._set("cpu", "cpu.max", f"{quota} {_PERIOD_US}")
        else:
            self._set("memory", "memory.limit_in_bytes", memory)
            self._set("memory", "memory.memsw.limit_in_bytes", memory, required=False)
            self._set("pids", "pids.max", limits.processes + BUBBLEWRAP_PROCESSES)
            self._set("cpu", "cpu.cfs_period_us", _PERIOD_US)
            self._set("cpu", "cpu.cfs_quota_us", quota)

    def lift_cpu(self) -> None:
        """Let what dies in here die at full speed: a throttled group also exits slowly."""
        if self.version == 2:
            self._set("cpu", "cpu.max", "max", required=False)
        else:
            self._set("cpu", "cpu.cfs_quota_us", -1, required=False)

    def freeze(self) -> bool:
        """Ask for everything in the group to stop; it has when ``is_frozen``. False: this machine cannot."""
        if self.version == 2:
            return self._set("pids", "cgroup.freeze", 1, required=False)
        return self._set("freezer", "freezer.state", "FROZEN", required=False)

    def is_frozen(self) -> bool:
        if self.version == 2:
            return self._field("pids", "cgroup.events", "frozen") == 1
        return self._read("freezer", "freezer.state") == "FROZEN"

    def thaw(self) -> None:
        if self.version == 2:
            self._set("pids", "cgroup.freeze", 0, required=False)
        else:
            self._set("freezer", "freezer.state", "THAWED", required=False)

    def memory_bytes(self) -> int | None:
        return _number(self._read("memory", "memory.current" if self.version == 2 else "memory.usage_in_bytes"))

    def process_count(self) -> int | None:
        return _number(self._read("pids", "pids.current"))

    def oom_kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return self._field("memory", name, "oom_kill") or 0

    def pids(self) -> set[int]:
        found: set[int] = set()
        for path in self.paths:
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (path / "cgroup.procs").read_text().split())
        return found - {0}

    def kill(self, timeout: float = 5.0, pause: Callable[[float], None] = time.sleep) -> bool:
        """Kill every process in the group, and wait; whether it is empty. The caller must not be in it."""
        self.thaw()
        self.lift_cpu()
        until = time.monotonic() + timeout
        while pids := self.pids():
            if self.version != 2 or not self._set("pids", "cgroup.kill", 1, required=False):
                for pid in pids:
                    _kill_member(pid, self.pids)
            if time.monotonic() > until:
                return False
            pause(0.002)
        return True

    def remove(self) -> bool:
        """Remove the folders; whether they are gone. Fails while a process is in them, or just has been."""
        for path in self.paths:
            try:
                path.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True

    def _set(self, controller: str, name: str, value: int | str, required: bool = True) -> bool:
        folder = self.folders.get(controller)
        if folder is None:
            return False
        try:
            # Never created: a missing file is a feature that this kernel does not have.
            fd = os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, str(value).encode())
            finally:
                os.close(fd)
        except OSError:
            if required:
                raise
            return False
        return True

    def _read(self, controller: str, name: str) -> str | None:
        folder = self.folders.get(controller)
        if folder is None:
            return None
        try:
            return (folder / name).read_text().strip()
        except OSError:
            return None

    def _field(self, controller: str, name: str, key: str) -> int | None:
        for line in (self._read(controller, name) or "").splitlines():
            if line.startswith(key + " "):
                return _number(line[len(key) + 1 :])
        return None


@dataclass(frozen=True)
class CgroupParents:
    """Where groups of sandboxes are made."""

    version: int
    parents: Mapping[str, Path]

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(self.parents)

    def create(self, name: str) -> SandboxCgroup:
        """Raises OSError; then nothing is left."""
        group = self.named(name)
        try:
            for path in group.paths:
                path.mkdir(mode=0o755, parents=True)
        except OSError:
            group.remove()
            raise
        return group

    def named(self, name: str) -> SandboxCgroup:
        return SandboxCgroup(self.version, {key: parent / name for key, parent in self.parents.items()})

    def remove(self) -> None:
        """Remove our folders, where no sandbox is left in them."""
        for parent in set(self.parents.values()):
            with contextlib.suppress(OSError):
                parent.rmdir()

    def names(self) -> set[str]:
        """Of the groups that exist."""
        found: set[str] = set()
        for parent in set(self.parents.values()):
            with contextlib.suppress(OSError):
                found.update(entry.name for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False))
        return found


def discover(name: str, proc: Path = Path("/proc/self")) -> CgroupParents | None:
    """Make a folder ``name`` for our groups where this process may, and see which controllers it has.

    None: no hierarchy is writable here.
    """
    own = _own_groups(proc)
    version_2 = _version_2(own, name)
    # In the hybrid layout controllers that version 1 has taken are missing from version 2.
    version_1 = _version_1(own, name)
    best = max((version_2, version_1), key=lambda parents: len(parents or {}) if parents else 0)
    if not best:
        return None
    return CgroupParents(2 if best is version_2 else 1, best)


def _version_1(own: Mapping[str, tuple[Path, Path]], name: str) -> dict[str, Path]:
    parents = {}
    for controller in _V1_CONTROLLERS:
        if controller not in own:
            continue
        folder = own[controller][1] / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder / "cgroup.procs", os.W_OK):
            parents[controller] = folder
    return parents


def _version_2(own: Mapping[str, tuple[Path, Path]], name: str) -> dict[str, Path]:
    if "" not in own:
        return {}
    mount, group = own[""]
    # A group with processes in it gives no controllers to children, the root excepted. Our own is tried first, then
    # (for root) the top, as container engines with the cgroupfs driver do.
    for parent in dict.fromkeys((group, mount)):
        offered = _words(parent / "cgroup.controllers")
        wanted = [controller for controller in _V2_CONTROLLERS if controller in offered]
        if not wanted:
            continue
        if not _enable(parent, wanted) and not (_is_delegated(parent) and _vacate(parent) and _enable(parent, wanted)):
            continue
        folder = parent / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if _enable(folder, wanted):
            return dict.fromkeys(wanted, folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
    return {}


def _enable(group: Path, controllers: list[str]) -> bool:
    control = group / "cgroup.subtree_control"
    if set(controllers) <= _words(control):
        return True
    try:
        control.write_text(" ".join(f"+{controller}" for controller in controllers))
    except OSError:
        return False
    return True


def _is_delegated(group: Path) -> bool:
    """Whether systemd has handed this group over to us (``Delegate=yes``), processes and all."""
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(group, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _vacate(group: Path) -> bool:
    """Move the processes of our own delegated group into a leaf of it; whether none is left."""
    leaf = group / "nightporter-host"
    try:
        leaf.mkdir(exist_ok=True)
        for _ in range(10):
            pids = (group / "cgroup.procs").read_text().split()
            if not pids:
                return True
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
    except OSError:
        return False
    return False


def _words(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except OSError:
        return set()


def _own_groups(proc: Path) -> dict[str, tuple[Path, Path]]:
    """Controller (``""``: version 2) → its mount point and this process's group below it. See cgroups(7)."""
    mounts: dict[str, tuple[Path, str]] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, separator, rest = line.partition(" - ")
        if not separator:
            continue
        kind, _, options = rest.split(" ", 2)
        root, mount = fields.split(" ")[3:5]
        if kind == "cgroup2":
            mounts[""] = (Path(mount), root)
        elif kind == "cgroup":
            for controller in options.split(","):
                mounts[controller] = (Path(mount), root)
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts:
                mount_point, root = mounts[controller]
                inside = os.path.relpath(path, root) if path.startswith(root) else "."
                own[controller] = (mount_point, mount_point / inside)
    return own


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _kill_member(pid: int, members: Callable[[], set[int]]) -> None:
    """Kill ``pid`` if it still is a member once it cannot be mistaken for another (a pid may be used again)."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if pid in members():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)

"""What a container of any engine sees: this machine's system, read-only, around a volume, as bubblewrap's sandboxes do.

The image holds nothing but empty folders, links and a few public files, so that it comes from no registry; the system
itself is bound into it. Functions without side effects.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sandbox_runner import bubblewrap_args as inside
from sandbox_runner.backend import Launch
from sandbox_runner.host_python import BIN, GUEST_NAME, INSIDE, HostPython

MOUNT_POINTS = (
    "proc", "sys", "dev", "tmp", "run/nightporter", "var", "workspace", "home/porter", "opt/nightporter/guest",
    INSIDE.strip("/"), BIN.strip("/"), "etc",
)  # fmt: skip
_EPOCH = 0
_BAD_IN_MOUNTS = (",", ":", '"', "\n")


@dataclass(frozen=True)
class Bind:
    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Layout:
    """The host's system as containers show it, read once."""

    system: inside.HostSystem
    python: HostPython

    @classmethod
    def of_this_machine(cls) -> Layout:
        return cls(inside.HostSystem.read(), HostPython.running())

    @property
    def interpreter(self) -> str:
        return f"{BIN}/{GUEST_NAME}"

    def image(self) -> bytes:
        """The image's root as a tar: the same bytes each time."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name in sorted({part for path in self._folders() for part in _with_parents(path)}):
                folder = _entry(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755)
                tar.addfile(folder)
            for path, text in (*inside.FILES.items(), *self.system.apt, *inside.PROGRAMS.items()):
                entry = _entry(path, tarfile.REGTYPE, 0o755 if path in inside.PROGRAMS else 0o644)
                entry.size = len(text.encode())
                tar.addfile(entry, io.BytesIO(text.encode()))
            for bind in self._etc_files():
                tar.addfile(_entry(bind, tarfile.REGTYPE, 0o644))
            for target, path in self._links():
                link = _entry(path, tarfile.SYMTYPE, 0o777)
                link.linkname = target
                tar.addfile(link)
        return data.getvalue()

    def image_name(self) -> str:
        return f"nightporter-base:{sha256(self.image()).hexdigest()[:16]}"

    def binds(self, launch: Launch) -> list[Bind]:
        """Raises ValueError for a path that no engine's option can hold."""
        found = [Bind(path, path) for path in (*self.system.folders, *self.system.etc)]
        if self.python.prefix is not None:
            found += [Bind(f"{self.python.prefix}/{part}", f"{INSIDE}/{part}") for part in self.python.parts]
        found.append(Bind(str(launch.guest), inside.GUEST))
        found.append(Bind(str(launch.workspace), inside.WORKSPACE, writable=True))
        for folder, name in launch.merged:
            found.append(Bind(str(folder), f"{inside.WORKSPACE}/merged/{name}", writable=True))
        found.append(Bind(str(launch.home), inside.HOME, writable=True))
        if launch.egress_socket is not None:
            found.append(Bind(str(launch.egress_socket), inside.EGRESS_SOCKET))
        if launch.trust_bundle is not None:
            found.append(Bind(str(launch.trust_bundle), inside.TRUST_BUNDLE))
            if self.system.has_bundle:
                found.append(Bind(str(launch.trust_bundle), inside.SYSTEM_BUNDLE))
        for bind in found:
            if any(character in bind.source for character in _BAD_IN_MOUNTS):
                raise ValueError(f"a container cannot be given {bind.source!r}: move it to a path without , and :")
        return found

    def command(self, launch: Launch, code: str | None = None) -> list[str]:
        """What runs as the first process: the guest on its standard input and output, or the probe's ``code``."""
        python = [self.interpreter, "-I", "-S", "-B"]
        if code is not None:
            return [*python, "-c", code, "1"]
        return [*python, inside.GUEST, "--fd", "0", "--out", "1", "--processes", str(launch.limits.processes)]

    def _folders(self) -> list[str]:
        folders = [*MOUNT_POINTS, *(path.strip("/") for path in self.system.folders)]
        folders += [path.strip("/") for path in self.system.etc if Path(path).is_dir()]
        files = [path for path, _ in self.system.apt] + self._system_files()
        folders += [str(Path(path).parent).strip("/") for path in files]
        if self.python.prefix is not None:
            for part in self.python.parts:
                folders.append(f"{INSIDE}/{part}".strip("/") if (self.python.prefix / part).is_dir() else "")
                folders.append(str(Path(f"{INSIDE}/{part}").parent).strip("/"))
        return [folder for folder in folders if folder]

    def _system_files(self) -> list[str]:
        return [path for path in self.system.etc if not Path(path).is_dir()]

    def _etc_files(self) -> list[str]:
        files = self._system_files()
        if self.python.prefix is not None:
            parts = [part for part in self.python.parts if not (self.python.prefix / part).is_dir()]
            files += [f"{INSIDE}/{part}" for part in parts]
        return files

    def _links(self) -> list[tuple[str, str]]:
        links = [*self.system.links, ("/tmp", "/var/tmp"), ("/run", "/var/run")]
        python = self.python
        if python.prefix is not None:
            links += [(target, f"{INSIDE}/{name}") for target, name in python.links]
            if inside._may_be_named_inside(python.prefix):
                links.append((INSIDE, str(python.prefix)))
        return [*links, *((python.executable_inside, f"{BIN}/{name}") for name in ("python3", GUEST_NAME))]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables of a sandbox; nothing of the host's."""
    args = inside._environment(extra)
    return {args[place + 1]: args[place + 2] for place, word in enumerate(args) if word == "--setenv"}


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.strip("/"))
    entry.type, entry.mode, entry.mtime = kind, mode, _EPOCH
    return entry

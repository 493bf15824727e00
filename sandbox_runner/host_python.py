"""Which Python the guest agent runs on: this very interpreter, seen inside without the rest of the host.

An interpreter below ``/usr`` is inside already. Any other (pyenv, uv, conda) is bound read-only: its binary, its
libraries, its headers, nothing else of its prefix.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

INSIDE = "/opt/nightporter/python"
BIN = "/opt/nightporter/bin"
"""The last folder of PATH inside: ``python3`` exists there whatever the host has."""

GUEST_NAME = "nightporter: guest"
"""The guest agent's argv[0]. A link of this name in ``BIN`` lets Python find its own prefix from it."""


@dataclass(frozen=True)
class HostPython:
    executable: Path
    prefix: Path | None
    """None: below ``/usr``, there is nothing to bind."""
    parts: tuple[str, ...] = ()
    """What of ``prefix`` is bound, relative to it."""
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links of ``prefix`` to make again: (target, name)."""

    @property
    def executable_inside(self) -> str:
        if self.prefix is None:
            return str(self.executable)
        return f"{INSIDE}/{self.executable.relative_to(self.prefix)}"

    @classmethod
    def running(cls) -> HostPython:
        base = getattr(sys, "_base_executable", None) or sys.executable
        return cls.at(Path(os.path.realpath(base)), Path(os.path.realpath(sys.base_prefix)))

    @classmethod
    def at(cls, executable: Path, prefix: Path) -> HostPython:
        if prefix == Path("/usr") or Path("/usr") in prefix.parents:
            return cls(executable, None)
        if prefix not in executable.parents:
            executable = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        parts, links = [str(executable.relative_to(prefix))], []
        for name in ("lib", "lib64", "include"):
            path = prefix / name
            if path.is_symlink():
                links.append((os.readlink(path), name))
            elif path.is_dir():
                parts.append(name)
        return cls(executable, prefix, tuple(parts), tuple(links))

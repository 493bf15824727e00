"""Room for the cache of an object store: what sleeps longest goes from this disk when there is more than was allowed.

Never what is in use, nor what is not in the store and committed: a volume goes only when its live files are just those
of its committed generation there, or another host has had it since. Blobs are in the store before anything names them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import structlog

from workspace_store import beneath
from workspace_store.blobs import DirectoryBlobs
from workspace_store.packs import VolumeError
from workspace_store.stored_volumes import StoredVolumes

log = structlog.get_logger()

FRESH_SECONDS = 600.0
"""A blob this new may be on its way into the store."""
ENOUGH = 0.9
"""How much of what is allowed may be left, so that not every new file makes one go."""
_GONE = ".evicted-"


@dataclass
class CacheRoom:
    """``most_bytes`` for volumes and blobs together. ``committed``: the generation that the database names, of one."""

    volumes: StoredVolumes
    blobs: Path
    most_bytes: int
    committed: Callable[[UUID], int]
    forgotten: Callable[[], Collection[UUID]]
    """Whom this installation was told to forget: what is here of them goes, whatever room there is."""
    excess: int = 0
    """Bytes that have to go, as it was found last."""
    _sizes: dict[Path, tuple[object, int]] = field(default_factory=dict)

    def too_much(self, now: float) -> list[Cached]:
        """What could go, used longest ago first, of which so much has to that ``excess`` is got; empty: there is room.

        Blocks. Raises OSError.
        """
        self._finish()
        self._erase_forgotten()
        found = sorted([*self._volumes(), *self._blobs(now)], key=lambda one: one.used)
        total = sum(one.bytes for one in found)
        self.excess = total - int(self.most_bytes * ENOUGH)
        return found if total > self.most_bytes else []

    def remove(self, one: Cached) -> bool:
        """Whether it may go, and is gone. Nobody in this process has it open. Blocks. Raises OSError."""
        if one.volume is None:
            return self._remove_blob(one)
        try:
            with self.volumes.open(one.volume) as volume, volume.resting(self.committed(one.volume)) as may_go:
                if may_go:
                    # In one step, and before anybody else could open it: what is half removed is no volume.
                    aside = self.volumes.root / f"{_GONE}{secrets.token_hex(8)}"
                    one.path.rename(aside)
                    beneath.remove_path(aside)
                return may_go
        except VolumeError as error:
            log.warning("a volume stays in the cache", principal=str(one.volume), reason=str(error))
            return False

    @staticmethod
    def _remove_blob(one: Cached) -> bool:
        with contextlib.suppress(FileNotFoundError):
            if one.path.stat().st_mtime != one.used:
                return False  # used since it was looked at, or on its way into the store once more
            one.path.unlink()
        return True

    def _erase_forgotten(self) -> None:
        kept = DirectoryBlobs(self.blobs)
        for owner in self.forgotten():
            if (here := self.volumes.root / str(owner)).is_dir():
                beneath.remove_path(here)
            kept.erase(owner)

    def _finish(self) -> None:
        for left in self.volumes.root.glob(f"{_GONE}*"):
            beneath.remove_path(left)

    def _volumes(self) -> Iterator[Cached]:
        for path in self.volumes.root.iterdir():
            with contextlib.suppress(ValueError, OSError):
                owner, used = UUID(path.name), path / "snapshots" / "used"
                # Who was only looked at has never been claimed here.
                seen = used if used.exists() else path / "marker.json"
                yield Cached(path, self._size(path), seen.stat().st_mtime, owner)

    def _size(self, path: Path) -> int:
        """Measured again only after a wake or a snapshot: what sleeps stays as it is, and there may be much of it."""
        state = [(path / part).stat().st_mtime_ns for part in ("snapshots", "snapshots/packs")]
        known, size = self._sizes.get(path, (None, 0))
        if known != state:
            size = _size(path)
            self._sizes[path] = state, size
        return size

    def _blobs(self, now: float) -> Iterator[Cached]:
        for folder, _, names in os.walk(self.blobs):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):
                    found = path.stat()
                    if found.st_mtime < now - FRESH_SECONDS:
                        yield Cached(path, found.st_size, found.st_mtime, None)


@dataclass(frozen=True)
class Cached:
    """``volume``: None for a blob. ``used``: Unix seconds."""

    path: Path
    bytes: int
    used: float
    volume: UUID | None


def _size(path: Path) -> int:
    """What a folder takes on the disk; links are not followed."""
    total = 0
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total

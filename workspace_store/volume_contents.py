"""What is in a principal's volume, now and in each of its generations: looked at, never changed.

(A swap of ``live`` that a crash cut off is finished when it is opened.) See ``volumes`` for what lies where. Must never
follow what a sandbox left in ``live``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from uuid import UUID

from workspace_store import layout, live, manifests, markers, trees
from workspace_store.beneath import AnyPath, Owner, UnsafePath
from workspace_store.live import FileTooLarge
from workspace_store.manifests import Generation, Verified
from workspace_store.markers import Marker, VolumeDamaged
from workspace_store.packs import PackStore, naming_full_disk
from workspace_store.trees import Change, Entry


class VolumeContents:
    """A volume as it is for whoever writes nothing. Close it when done."""

    def __init__(self, path: Path, principal: UUID) -> None:
        """Raises VolumeDamaged where the directory is not a whole volume of that principal."""
        self.path = path
        self.principal = principal
        self._snapshots = path / "snapshots"
        self._generations = self._snapshots / "generations"
        self._restoring = self._snapshots / "restoring"
        if self.marker().principal != str(principal):
            raise VolumeDamaged(f"{path} belongs to another principal")
        if not layout.finish_swap(self._restoring / "live", path / "live"):
            raise VolumeDamaged(f"{path} has no live directory; restore a generation")
        self._store = self._open_packs()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    def _open_packs(self) -> PackStore:
        return PackStore(self._snapshots / "packs")

    def follow(self, generation: int, digest: str | None = None) -> None:
        """Have ``live`` as the committed generation of that number (0: none yet), unless what is newer was made here.

        ``digest``: of its manifest, to take for granted what was here of it. Nothing to do where ``live`` is the
        storage itself. Raises VolumeError where it cannot be had.
        """

    def refresh(self) -> None:
        """Know of generations that were made elsewhere meanwhile. Raises VolumeError."""

    def bring(self, number: int) -> None:
        """Have all objects of a generation at hand before they are read one by one. Raises as ``verify``."""

    @property
    def workspace(self) -> Path:
        """To be given to a sandbox; hostile from then on."""
        return self.path / "live" / "workspace"

    @property
    def home(self) -> Path:
        return self.path / "live" / "home"

    def marker(self) -> Marker:
        """Raises VolumeDamaged."""
        return markers.read(self.path)

    def live_id(self) -> str:
        """UUID of the live directory: another one after every restore."""
        return (self.path / "live" / "id").read_text()

    def generations(self) -> list[Generation]:
        """Ascending. Raises ManifestCorrupt."""
        return [self.manifest(number) for number in sorted(self.numbers())]

    def numbers(self) -> set[int]:
        """Of the generations that are there."""
        return set(manifests.numbers(self._generations))

    @property
    def stored_bytes(self) -> int:
        """What the objects of all generations take on the disk."""
        self._store.refresh()
        return self._store.stored_bytes

    def generation_exists(self, number: int) -> bool:
        return manifests.exists(self._generations, number)

    def manifest(self, number: int) -> Generation:
        """Raises GenerationMissing, ManifestCorrupt."""
        return manifests.load(self._generations, number)

    def entries(self, number: int) -> Iterator[Entry]:
        """Everything in a generation, a directory before what is in it."""
        return trees.entries(self._store.read, self._root(number))

    def diff(self, before: int, after: int) -> list[Change]:
        """By path; 0 is the empty generation. Raises GenerationMissing."""
        roots = [self._root(number) if number else None for number in (before, after)]
        return sorted(trees.diff(self._store.read, *roots), key=lambda change: change.path)

    def ls(self, path: AnyPath, number: int) -> list[Entry]:
        """A directory's entries in a generation, or the one entry of a file.

        Raises FileNotFoundError, UnsafePath, GenerationMissing.
        """
        entry = trees.find(self._store.read, self._root(number), path)
        if entry.kind != "d":
            return [entry]
        return trees.children(self._store.read, bytes.fromhex(entry.content), entry.path)

    def folder(self, path: AnyPath, most: int = 1000) -> list[str]:
        """Names in a folder as it is now in ``live``, at most so many. Raises OSError, UnsafePath."""
        with self._live() as live_fd:
            return live.folder(live_fd, path, most)

    def read_file(self, path: AnyPath, number: int | None = None, *, max_bytes: int = 16 << 20) -> bytes:
        """A file of a generation; None: as it is now in ``live``.

        Raises FileNotFoundError, UnsafePath (a link, a directory, a path out of the volume), FileTooLarge.
        """
        if number is None:
            with self._live() as live_fd:
                return live.read_file(live_fd, path, max_bytes, self._owner())
        entry = trees.find(self._store.read, self._root(number), path)
        if entry.kind != "f":
            raise UnsafePath(f"{entry.path!r} is not a regular file")
        if entry.size > max_bytes:
            raise FileTooLarge(f"{entry.path!r} has {entry.size} bytes, more than {max_bytes}")
        parts = trees.content_of(self._store.read, entry)
        data = b"".join(bytes(part) if isinstance(part, int) else part for part in parts)
        return data.ljust(entry.size, b"\0")

    def content(self, entry: Entry) -> Iterator[bytes | int]:
        """A file's content in order: bytes, or the length of a hole."""
        return trees.content_of(self._store.read, entry)

    def lay_out(self, number: int, folder: Path) -> None:
        """Copy a generation into the empty ``folder``, as its sandbox's owner has it. Not durable.

        Raises GenerationMissing, ObjectMissing, ObjectCorrupt, VolumeFull.
        """
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with naming_full_disk():
                self._store.refresh()
                self.bring(number)
                layout.lay_out(self._store.read, self._root(number), fd, self._owner())
        finally:
            os.close(fd)

    def verify(self, number: int) -> Verified:
        """Read all of a generation. Raises GenerationMissing, ManifestCorrupt, ObjectMissing, ObjectCorrupt."""
        self.bring(number)
        named = trees.Named()
        named.add(self._store.read, self._root(number))
        every = named.trees | named.lists | named.chunks
        return Verified(len(every), sum(len(self._store.read(digest)) for digest in every))

    # Inside

    @contextlib.contextmanager
    def _live(self) -> Iterator[int]:
        fd = os.open(self.path / "live", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)

    def _owner(self) -> Owner | None:
        """Of the files we create in live; None where we are not root and may not give them away."""
        if os.geteuid() != 0:
            return None
        status = os.lstat(self.workspace)
        return status.st_uid, status.st_gid

    def _root(self, number: int) -> bytes:
        return bytes.fromhex(self.manifest(number).root)

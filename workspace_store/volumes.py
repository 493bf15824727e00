"""A principal's volume in a directory: the live files, and the generations that were snapshotted of them.

``<root>/<principal>/`` holds ``live/workspace`` and ``live/home`` (all that a sandbox is ever given), ``marker.json``
and ``snapshots/``. Promises that a generation is on the disk, whole, before the marker names it, and that a crash at
any moment leaves every published one intact. Must never follow what a sandbox left in ``live``. Calls block: run
them in a thread. One process at a time writes to a volume (a ``flock``; the tenancy sees to it across hosts).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

from workspace_store import beneath, layout, live, manifests, markers, stat_index, trees
from workspace_store.beneath import AnyPath, Owner, UnsafePath
from workspace_store.manifests import Generation, Pruned
from workspace_store.markers import Marker
from workspace_store.packs import (
    PackWriter,
    naming_full_disk,
    sync_folder,
    write_durably,
    write_together,
)
from workspace_store.snapshots import TOP, Adds, Capture
from workspace_store.stat_index import Record
from workspace_store.volume_contents import VolumeContents
from workspace_store.volume_rights import WriteRight

OWN_FOLDER = "home/.nightporter/"
_MANY_PACKS = 200


class Volumes:
    """Volumes below one directory, local or on a shared mount.

    ``clock`` gives Unix seconds. ``root`` is created when missing.
    """

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self._clock = clock
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def open(self, principal: UUID, *, owner: Owner | None = None) -> Volume:
        """The principal's volume, created (durably, atomically) when missing; ``owner`` of its new live directories.

        Raises VolumeDamaged, VolumeFull.
        """
        path = self.root / str(principal)
        if not path.exists():
            with naming_full_disk():
                self._create(path, principal, owner)
        return self._volume(path, principal)

    def _volume(self, path: Path, principal: UUID) -> Volume:
        return Volume(path, principal, self._clock)

    def _identity(self, principal: UUID) -> str:
        """The UUID of a volume that is made here now."""
        return str(uuid4())

    def erase(self, principal: UUID) -> bool:
        """Destroy a volume with all its generations; whether there was one. Nobody may have it open."""
        path = self.root / str(principal)
        if not path.is_dir():
            return False
        shutil.rmtree(path)
        return True

    follows: ClassVar[bool] = False
    """Whether ``live`` may be behind what is committed: then ``Volume.follow`` comes before it is looked at."""

    def exists(self, principal: UUID) -> bool:
        return (self.root / str(principal)).is_dir()

    def _create(self, path: Path, principal: UUID, owner: Owner | None) -> None:
        fresh = self.root / f".new-{principal}-{secrets.token_hex(4)}"
        for name in ("", "live", "snapshots", "snapshots/packs", "snapshots/generations"):
            (fresh / name).mkdir(mode=0o700)
        for name in TOP:
            (fresh / "live" / name).mkdir(mode=0o700)
            if owner is not None:
                os.chown(fresh / "live" / name, *owner)
        write_durably(fresh / "live" / "id", str(uuid4()).encode())
        markers.write(fresh, Marker(markers.FORMAT, self._identity(principal), str(principal), 0, ""))
        try:
            fresh.rename(path)
        except OSError:  # someone else was first: theirs is the volume
            beneath.remove_path(fresh)
            if not path.is_dir():
                raise
        sync_folder(self.root)


class Volume(VolumeContents):
    """One principal's files and their generations. Close it when done."""

    def __init__(self, path: Path, principal: UUID, clock: Callable[[], float] = time.time) -> None:
        """Raises VolumeDamaged where the directory is not a whole volume of that principal."""
        super().__init__(path, principal)
        self._clock = clock
        self._right = WriteRight(path, self._snapshots)

    def claim(self, right: str) -> None:
        """Write here from now on, and let nobody else who claimed it before: their next write is VolumeTaken.

        ``right`` names a tenancy. It is compared where the files are, so that a manager that slept through the loss of
        its tenancy publishes nothing, whatever it believes.
        """
        with self._locked():
            self._right.claim(right)

    # Snapshots

    def snapshot(self, parent: int, *, turn: str | None = None, note: str = "", moving: bool = False) -> Generation:
        """Publish ``live`` as generation ``parent + 1``, atomically and durably, over one of that number.

        All that was in ``live`` is on the disk too. ``parent`` 0: the first. ``moving``: the caller knows that tasks
        run meanwhile. Raises GenerationMissing (of the parent), VolumeFull, VolumeBusy, VolumeUnsteady; the
        generations published before stay as they are.
        """
        started = time.perf_counter()
        with self._locked():
            before = self._root(parent) if parent else None
            index = self._snapshots / "index"
            with self._store.writer() as writer:
                capture = self._capture(writer)
            changed, visible = self._count_changes(before, capture.root)
            generation = self._publish(
                Generation(
                    **self._origin(parent + 1, parent, turn, note),
                    root=capture.root.hex(),
                    files=capture.files,
                    bytes=capture.bytes,
                    changed=changed,
                    visible=visible,
                    moving=moving or capture.moving,
                    skipped=tuple(capture.skipped),
                    skipped_count=capture.skipped_count,
                    new_bytes=writer.new_bytes,
                ),
                started,
            )
            with contextlib.suppress(OSError):  # a cache: the next snapshot reads everything instead
                stat_index.save(index, capture.root, capture.records)
            self._tidy()
        return generation

    def hand_in(self, generation: Generation) -> None:
        """Put a generation where every host finds it, before anything names it committed. Where volumes are in a
        directory that all share, it is there. Raises VolumeTaken where the right to the volume has gone to another,
        StoreUnavailable.
        """

    def restore(
        self,
        number: int,
        *,
        as_generation: int,
        path: AnyPath | None = None,
        root: str | None = None,
        turn: str | None = None,
        note: str = "",
    ) -> Generation:
        """Make ``live`` equal to generation ``number`` (0: nothing in it) and publish that as ``as_generation``.

        With ``root`` (hex), equal to a tree of objects that ``add_objects`` made; with ``path``, equal to generation
        ``as_generation - 1`` but for what ``number`` has there. Destructive for what is in ``live``; the sandbox must
        be asleep. ``live`` is swapped as a whole, so a crash leaves the old or the
        new, never a mixture; run again it does the same. Files belong to the owner of ``live/workspace`` where we may
        give them away. Raises GenerationMissing, ObjectMissing, ObjectCorrupt, FileNotFoundError and UnsafePath (of
        ``path``), VolumeFull (``live`` is untouched), VolumeBusy.
        """
        started = time.perf_counter()
        with self._locked():
            with naming_full_disk(), self._store.writer() as writer:
                target = bytes.fromhex(root) if root else self._root_to_restore(writer, number, as_generation, path)
            self._take_up(target)
            with naming_full_disk():
                self._swap_in(target, self._store.read)
            latest = self.marker().generation
            before = self._root(latest) if latest and self.generation_exists(latest) else None
            changed, visible = self._count_changes(before, target)
            whole = path is None and root is None
            source = self.manifest(number) if number and whole else None
            files, size = (source.files, source.bytes) if source else trees.count(self._store.read, target)
            generation = self._publish(
                Generation(
                    **self._origin(as_generation, as_generation - 1, turn, note),
                    root=target.hex(),
                    files=files,
                    bytes=size,
                    changed=changed,
                    visible=visible,
                    moving=source.moving if source else False,
                    skipped=source.skipped if source else (),
                    skipped_count=source.skipped_count if source else 0,
                    restored_from=number if whole else None,
                ),
                started,
            )
            beneath.remove_path(self._restoring)
        return generation

    def part(self) -> None:
        """Go on in a copy of ``live`` under the same id: whoever still has the old one open writes where nobody reads.

        For a volume that was another host's, which may be paused and come back. A crash leaves the old or the new.
        Raises VolumeFull, VolumeBusy, VolumeUnsteady.
        """
        with self._locked(), naming_full_disk():
            with self._store.writer() as writer:
                root = self._capture(writer).root
            self._swap_in(root, self._store.read, self.live_id())
            beneath.remove_path(self._restoring)

    def add_objects(self, make: Callable[[PackWriter, trees.Read], str]) -> str:
        """What ``make`` returns, once the objects that it wrote are there. Nothing names them yet: the next ``prune``
        drops what no generation took up."""
        with self._locked(), naming_full_disk(), self._store.writer() as writer:
            return make(writer, self._store.read)

    # Attachments

    def put_file(self, directory: AnyPath, name: str, data: bytes) -> str:
        """Write an attachment into a directory of ``live`` (``workspace/inbox``), created when missing; its path.

        Atomic, durable, never over another file: the name is made safe, and numbered where it is taken by other
        content; the same content under the same name is left alone. Raises VolumeFull; UnsafePath where the directory
        passes a link; VolumeTaken.
        """
        self._right.check()
        with self._live() as live_fd, naming_full_disk():
            return live.put_file(live_fd, directory, name, data, self._owner())

    def make_folder(self, path: AnyPath) -> None:
        """A directory of ``live``, created when missing. Raises UnsafePath where a link or a file is in the way."""
        with self._live() as live_fd, naming_full_disk():
            os.close(beneath.make_directories(live_fd, path, owner=self._owner()))

    # Dropping

    def discard_after(self, number: int) -> list[int]:
        """Drop generations newer than the database's ``number`` (a crash came between), and point the marker at it.

        Destructive for them; ``live`` is untouched. The dropped numbers. Raises GenerationMissing.
        """
        with self._locked():
            digest = self.manifest(number).digest if number else ""
            dropped = sorted(other for other in self.numbers() if other > number)
            if dropped or self.marker().generation != number:
                markers.write(self.path, replace(self.marker(), generation=number, digest=digest))
            manifests.remove(self._generations, dropped)
        return dropped

    def prune(self, keep: Iterable[int]) -> Pruned:
        """Drop generations that are not in ``keep`` (the marker's always stays) and what only they named; join packs.

        Destructive for them; nothing a kept one names is touched, also not by a crash. Raises ObjectMissing or
        ObjectCorrupt, with nothing removed, where a kept one is damaged.
        """
        with self._locked():
            kept = {*keep, self.marker().generation}
            dropped = sorted(self.numbers() - kept)
            named = trees.Named()
            for number in sorted(self.numbers() & kept):
                self._bring_trees(number)
                named.add(self._store.read, self._root(number))
            index = self._snapshots / "index"
            known, _ = stat_index.load(index)
            if known and known not in named.trees:
                index.unlink()  # it speaks of trees that may go now
            return Pruned(tuple(dropped), self._drop(dropped, named))

    # Inside

    def _tidy(self) -> None:
        """After a snapshot: many packs that hold little become few."""
        if len(self._store) > _MANY_PACKS:
            self._store.sweep(lambda _: True)

    def _bring_trees(self, number: int) -> None:
        """Have the trees of a generation at hand, where they are not."""

    def _take_up(self, root: bytes) -> None:
        """Before a tree is laid out and named: have all of it, to stay. Raises ObjectMissing, ObjectCorrupt."""

    def _index(self) -> tuple[bytes, dict[int, Record]]:
        """The last walk over ``live``, where what it speaks of is still kept."""
        root, known = stat_index.load(self._snapshots / "index")
        return (root, known) if root and self._store.keeps(root) else (b"", {})

    def _drop(self, dropped: list[int], named: trees.Named) -> int:
        manifests.remove(self._generations, dropped)
        return self._store.sweep(named.__contains__)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the volume; what a killed writer left is cleared first. Raises VolumeBusy, VolumeTaken."""
        with self._right.locked():
            layout.finish_swap(self._restoring / "live", self.path / "live")
            beneath.remove_path(self._restoring)
            self._store.drop_unfinished()
            self._store.refresh()
            yield

    def _capture(self, writer: Adds) -> Capture:
        _, known = self._index()
        now_ns = self._filesystem_time_ns()
        with self._live() as live_fd:
            return live.capture(live_fd, self._store.read, writer, known, now_ns)

    def _filesystem_time_ns(self) -> int:
        """By the clock that stamps files here, which is another host's on a shared mount."""
        path = self._snapshots / "clock"
        path.write_bytes(b".")
        return path.stat().st_mtime_ns

    def _publish(self, generation: Generation, started: float) -> Generation:
        generation = replace(generation, duration_ms=round((time.perf_counter() - started) * 1000, 3))
        with naming_full_disk():
            generation, manifest, said = manifests.written(self._generations, generation)
            marker = replace(self.marker(), generation=generation.number, digest=generation.digest)
            write_together(dict(((manifest, said), markers.file_of(self.path, marker))))
        return generation

    def _swap_in(self, root: bytes, read: trees.Read, identifier: str | None = None) -> None:
        fresh = self._restoring / "live"
        self._restoring.mkdir(mode=0o700)
        fresh.mkdir(mode=0o700)
        try:
            fd = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                layout.lay_out(read, root, fd, self._owner())
                (fresh / "id").write_text(identifier or str(uuid4()))
                beneath.sync_filesystem(fd)
            finally:
                os.close(fd)
            layout.swap(fresh, self.path / "live", self._restoring / "old")
        except BaseException:
            beneath.remove_path(self._restoring)
            raise

    def _root_to_restore(self, writer: PackWriter, number: int, as_generation: int, path: AnyPath | None) -> bytes:
        if path is not None:
            parts = beneath.components(path)
            entry = trees.find(self._store.read, self._root(number), path)
            if not parts or parts[0] not in TOP:
                raise UnsafePath(f"{os.fsdecode(path)!r} is not below {' or '.join(TOP)}")
            return trees.graft(self._store.read, writer.add, self._root(as_generation - 1), parts, entry)
        if number:
            return self._root(number)
        return trees.empty(writer.add, TOP, time.time_ns())

    def _count_changes(self, before: bytes | None, after: bytes) -> tuple[int, int]:
        """Files and links that differ, and those of them outside the agent's own folder."""
        paths = [change.path for change in trees.diff(self._store.read, before, after) if not change.is_directory]
        return len(paths), sum(not path.startswith(OWN_FOLDER) for path in paths)

    def _origin(self, number: int, parent: int, turn: str | None, note: str) -> dict[str, Any]:
        return {
            "number": number,
            "parent": parent,
            "volume": self.marker().volume,
            "principal": str(self.principal),
            "turn": turn,
            "note": note,
            "created_at": self._clock(),
        }

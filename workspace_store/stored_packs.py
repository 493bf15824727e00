"""The packs of a volume in an object store, and those of their objects that are kept on this disk.

A pack in the store has the name it was made under, which nobody else ever uses, and is never changed. Promises that an
object is checked by its hash when it is fetched and each time it is read, and that nothing is fetched which is here.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import structlog

from workspace_store import heads, trees
from workspace_store.bucket import Bucket
from workspace_store.packs import (
    CACHE,
    ObjectCorrupt,
    ObjectMissing,
    Pack,
    PackIndex,
    PackStore,
    Row,
    TailTooShort,
    unpacked,
)

_TAIL_BYTES = 64 << 10
_BATCH_BYTES = 8 << 20
_READ_BYTES = 32 << 20
_AT_ONCE = 8
_TREES_AT_ONCE = 4000
_MANY_CACHED = 16

log = structlog.get_logger()

T = TypeVar("T")
R = TypeVar("R")


class StoredPacks(PackStore):
    """The packs that a head names, beside those on the disk: its own, and ``cache-`` packs of what was fetched.

    ``kept``: the packs that the head of the volume names now, with their sizes.
    """

    def __init__(self, folder: Path, bucket: Bucket, principal: UUID, kept: Mapping[str, int]) -> None:
        self._bucket = bucket
        self._place = f"{heads.place(principal)}/packs"
        self._indexes = folder.parent / "indexes"
        self._indexes.mkdir(mode=0o700, exist_ok=True)
        self.kept = dict(kept)
        self._far: dict[str, PackIndex] = {}
        self._recent: OrderedDict[bytes, bytes] = OrderedDict()
        super().__init__(folder)

    # What is there

    def refresh(self) -> None:
        """As said there; a damaged pack that could be had again is no more."""
        while True:
            try:
                super().refresh()
            except ObjectCorrupt as error:
                damaged = [
                    path
                    for path in self.folder.glob("*.pack")
                    if (path.name in self.kept or path.name.startswith(CACHE)) and not _is_whole(path)
                ]
                if not damaged:
                    raise
                log.warning("removed damaged packs from the cache", folder=str(self.folder), reason=str(error))
                for path in damaged:
                    path.unlink(missing_ok=True)
            else:
                return

    def follow(self, kept: Mapping[str, int]) -> None:
        """From now on these packs are in the store."""
        self.kept = dict(kept)
        self._far = {name: index for name, index in self._far.items() if name in kept}

    def unstored(self) -> list[Path]:
        """Packs made here that are not in the store."""
        return [pack.path for name, pack in self._packs.items() if name not in self.kept and not name.startswith(CACHE)]

    def keeps(self, wanted: bytes, ignoring: Collection[str] = ()) -> bool:
        """Whether it is in the store, or about to be; what is only in the cache may be gone there."""
        found = self._find(wanted, [*ignoring, *(name for name in self._packs if name.startswith(CACHE))])
        return found is not None or self._find_far(wanted, ignoring) is not None

    def read(self, wanted: bytes) -> bytes:
        here = self._find(wanted)
        if here is not None:
            try:
                return super().read(wanted)
            except (ObjectCorrupt, OSError):
                if here[0].name not in self.kept and self._find_far(wanted) is None:
                    raise
        if wanted in self._recent:
            self._recent.move_to_end(wanted)
            return self._recent[wanted]
        # On this disk it is damaged, or not there: the store has it whole.
        name, row = (here[0].name, here[1]) if here and here[0].name in self.kept else self._far_place(wanted)
        data = unpacked(self._sound(name, row, self._frames(name, [row])[0]), row, name)
        self._recent[wanted] = data
        while len(self._recent) > 1 and sum(map(len, self._recent.values())) > _READ_BYTES:
            self._recent.popitem(last=False)
        return data

    # From the store

    def fetch(self, wanted: Iterable[bytes]) -> None:
        """Have these objects on the disk. Raises ObjectMissing, ObjectCorrupt, StoreUnavailable, VolumeFull."""
        places: dict[str, list[Row]] = {}
        for digest in set(wanted):
            if not self.has(digest):
                name, row = self._far_place(digest)
                places.setdefault(name, []).append(row)
        if not places:
            return
        batches = [(name, batch) for name, rows in places.items() for batch in _batches(rows)]
        with self.writer(cache=True) as writer:
            for name, rows, frames in self._in_threads(self._batch, batches):
                for row, frame in zip(rows, frames, strict=True):
                    writer.copy(row.hash, self._sound(name, row, frame), row.raw)

    def bring(self, root: bytes, *, contents: bool) -> None:
        """Have all trees below a root on the disk, and the contents of files too. Raises as ``fetch``."""
        pending, seen = [root], {root}
        while pending:
            level, pending = pending[:_TREES_AT_ONCE], pending[_TREES_AT_ONCE:]
            self.fetch(level)
            lists: list[bytes] = []
            chunks: list[bytes] = []
            for tree in level:
                for entry in trees.children(self.read, tree):
                    if entry.kind == "d" and (below := bytes.fromhex(entry.content)) not in seen:
                        seen.add(below)
                        pending.append(below)
                    elif entry.kind == "f" and isinstance(entry.content, dict):
                        lists.append(bytes.fromhex(entry.content["list"]))
                    elif entry.kind == "f":
                        chunks += (bytes.fromhex(part) for part in entry.content if not isinstance(part, int))
            self.fetch(lists)
            if contents:
                for listed in lists:
                    chunks += trees.listed(self.read, listed)
                self.fetch(chunks)

    def adopt(self, name: str) -> None:
        """Take a pack of another place in the store for one that was made here. Raises ObjectMissing, ObjectCorrupt."""
        part = self.folder / f"{secrets.token_hex(12)}.part"
        if not self._bucket.fetch(name, part):
            raise ObjectMissing(f"{name} is not in the store any more")
        try:
            Pack(part)
        except ObjectCorrupt:
            part.unlink()
            raise
        part.rename(part.with_suffix(".pack"))
        self.refresh()

    def is_at_hand(self, wanted: bytes) -> bool:
        """Whether it is on this disk or in a pack that is kept."""
        return self.has(wanted) or self._find_far(wanted) is not None

    def share(self, name: str, wanted: Callable[[bytes], bool]) -> float:
        """How much of a pack's objects, by size, is still wanted."""
        rows = self._rows_of(name)
        return sum(row.stored for row in rows if wanted(row.hash)) / max(1, sum(row.stored for row in rows))

    def frames_of(self, name: str, wanted: Callable[[bytes], bool]) -> Iterator[tuple[Row, bytes]]:
        """What is wanted of a pack as it is stored, checked; from this disk where it is here."""
        here = self._packs.get(name)
        for batch in _batches(row for row in self._rows_of(name) if wanted(row.hash)):
            frames = [self._frame(here, row) for row in batch] if here else self._frames(name, batch)
            for row, frame in zip(batch, frames, strict=True):
                yield row, self._sound(name, row, frame)

    # Into the store

    def hand_in(self) -> dict[str, int]:
        """Store all packs made here that are not there yet; all that are there then, with their sizes."""
        fresh = self.unstored()

        def store(path: Path) -> Path:
            self._bucket.put(f"{self._place}/{path.name}", path)
            return path

        return self.kept | {path.name: path.stat().st_size for path in self._in_threads(store, fresh)}

    def disown(self) -> None:
        """Packs made here that the store does not have become cache: they were never stored, or were dropped there."""
        for path in self.unstored():
            path.rename(path.with_name(f"{CACHE}{secrets.token_hex(12)}.pack"))
        self.refresh()

    def _rows_of(self, name: str) -> list[Row]:
        self._load_indexes()
        return list((self._packs.get(name) or self._far[name]).rows())

    def drop_here(self, names: Iterable[str]) -> None:
        """Remove from this disk what it has of packs."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
            (self._indexes / name).unlink(missing_ok=True)
        self.refresh()

    def drop_cache(self, wanted: Callable[[bytes], bool]) -> None:
        """Join what was fetched into one pack, without what nobody needs."""
        cached = [pack for name, pack in self._packs.items() if name.startswith(CACHE)]
        if len(cached) < _MANY_CACHED:
            return
        with self.writer(cache=True, ignoring=[pack.name for pack in cached]) as writer:
            for pack in cached:
                for row in pack.rows():
                    if wanted(row.hash):
                        writer.copy(row.hash, self._frame(pack, row), row.raw)
        self.drop_here([pack.name for pack in cached])

    # Inside

    def _far_place(self, wanted: bytes) -> tuple[str, Row]:
        found = self._find_far(wanted)
        if found is None:
            raise ObjectMissing(f"object {wanted.hex()} is in no pack")
        return found

    def _find_far(self, wanted: bytes, ignoring: Collection[str] = ()) -> tuple[str, Row] | None:
        self._load_indexes()
        for name, index in self._far.items():
            if name not in ignoring and (row := index.find(wanted)):
                return name, row
        return None

    def _load_indexes(self) -> None:
        lacking = [name for name in self.kept if name not in self._far and name not in self._packs]
        for name, index in self._in_threads(self._index_of, lacking):
            self._far[name] = index

    def _index_of(self, name: str) -> tuple[str, PackIndex]:
        size, path = self.kept[name], self._indexes / name
        with contextlib.suppress(OSError, ObjectCorrupt):
            return name, PackIndex(name, size, path.read_bytes())
        wanted = min(size, _TAIL_BYTES)
        tail = self._tail(name, size, wanted)
        try:
            index = PackIndex(name, size, tail)
        except TailTooShort as more:
            tail = self._tail(name, size, more.args[0])
            index = PackIndex(name, size, tail)
        fresh = path.with_suffix(".part")
        fresh.write_bytes(tail)
        fresh.rename(path)
        return name, index

    def _tail(self, name: str, size: int, length: int) -> bytes:
        (found,) = self._ranges(name, [size - length], [length])
        return found

    def _batch(self, wanted: tuple[str, list[Row]]) -> tuple[str, list[Row], list[bytes]]:
        name, rows = wanted
        return name, rows, self._frames(name, rows)

    def _frames(self, name: str, rows: list[Row]) -> list[bytes]:
        return self._ranges(name, [row.offset for row in rows], [row.stored for row in rows])

    def _ranges(self, name: str, starts: list[int], lengths: list[int]) -> list[bytes]:
        found = self._bucket.ranges(f"{self._place}/{name}", starts, lengths)
        if found is None:
            raise ObjectMissing(f"{name} is not in the store any more; open the volume again")
        return found

    def _sound(self, name: str, row: Row, frame: bytes) -> bytes:
        """A frame that holds its object: what went wrong on the way does not twice. Raises ObjectCorrupt."""
        with contextlib.suppress(ObjectCorrupt):
            unpacked(frame, row, name)
            return frame
        frame = self._frames(name, [row])[0]
        unpacked(frame, row, f"{name} in the object store")
        return frame

    @staticmethod
    def _in_threads(work: Callable[[T], R], given: Collection[T]) -> Iterator[R]:
        if len(given) <= 1:
            yield from map(work, given)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(given)), "object-store") as pool:
            # So that no more than what is under way waits in memory to be taken.
            ahead: deque[Future[R]] = deque()
            for one in given:
                ahead.append(pool.submit(work, one))
                if len(ahead) >= _AT_ONCE:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


def _is_whole(path: Path) -> bool:
    try:
        Pack(path)
    except ObjectCorrupt:
        return False
    return True


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in sorted(rows, key=lambda row: row.offset):
        if batch and size + row.stored > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row.stored
    if batch:
        yield batch

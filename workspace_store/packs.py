"""Content-addressed objects of one volume's snapshots, many to a file.

Owns ``packs/``: immutable files of zstd frames with their index at the end, so that a snapshot of 10,000 files costs
one fsync. Promises that a pack is on the disk, whole, before its name exists. Must never change a pack in place.

A pack: magic, frames, index (per object: BLAKE3 32 bytes, offset u64, stored length u32, raw length u32, by hash),
then a trailer: index offset u64, objects u32, BLAKE3 of the index, magic. Integers are little-endian.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard
from blake3 import blake3

from workspace_store import beneath

_MAGIC = b"NPPACK1\n"
_ROW = struct.Struct("<32sQII")
_TRAILER = struct.Struct("<QI32s8s")
TRAILER_BYTES = _TRAILER.size
_LIKELY_TAIL = 16 << 10
_ROLL_BYTES = 512 << 20  # a new pack after this much, so that pruning can free space piece by piece
_LEVEL = 1  # twice the speed of 3 for a few per cent of size
CACHE = "cache-"
"""Begins the names of packs that hold nothing but what is kept elsewhere."""
MAX_OBJECT_BYTES = 64 << 20
_SMALL_OBJECTS = 256


class VolumeError(Exception):
    """Something is wrong with a volume; the text says what and what to do."""


class VolumeFull(VolumeError):
    """The disk or the quota is full. Nothing was published; free space and try again."""


class ObjectMissing(VolumeError):
    """A snapshot names an object that no pack holds."""


class ObjectCorrupt(VolumeError):
    """A pack or an object in it is not what was written."""


class Row(NamedTuple):
    """Where an object is in its pack."""

    hash: bytes
    offset: int
    stored: int
    raw: int


class PackIndex:
    """The index of a finished pack, looked up by bisection."""

    def __init__(self, name: str, size: int, tail: bytes) -> None:
        """``tail``: the last bytes of a pack of ``size`` bytes. Raises ObjectCorrupt; TailTooShort."""
        self.name = name
        self.bytes = size
        if len(tail) < TRAILER_BYTES:
            raise ObjectCorrupt(f"{name} is cut short")
        start, self.count, digest, magic = _TRAILER.unpack(tail[-TRAILER_BYTES:])
        if magic != _MAGIC:
            raise ObjectCorrupt(f"{name} is not a whole pack")
        length = self.count * _ROW.size
        if start + length + TRAILER_BYTES != size:
            raise ObjectCorrupt(f"{name} is not as long as it says")
        if length + TRAILER_BYTES > len(tail):
            raise TailTooShort(length + TRAILER_BYTES)
        self._index = tail[len(tail) - TRAILER_BYTES - length : len(tail) - TRAILER_BYTES]
        if blake3(self._index).digest() != digest:
            raise ObjectCorrupt(f"the index of {name} is damaged")

    def find(self, wanted: bytes) -> Row | None:
        position = bisect_left(range(self.count), wanted, key=self._hash)
        if position < self.count and self._hash(position) == wanted:
            return Row(*_ROW.unpack_from(self._index, position * _ROW.size))
        return None

    def rows(self) -> Iterator[Row]:
        return map(Row._make, _ROW.iter_unpack(self._index))

    def _hash(self, position: int) -> bytes:
        return self._index[position * _ROW.size : position * _ROW.size + 32]


class TailTooShort(Exception):
    """More of the pack is wanted: ``args[0]`` bytes from its end."""


class Pack(PackIndex):
    """One finished pack on the disk."""

    def __init__(self, path: Path) -> None:
        """Raises ObjectCorrupt."""
        self.path = path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            wanted = min(size, _LIKELY_TAIL)
            try:
                super().__init__(path.name, size, os.pread(file.fileno(), wanted, size - wanted))
            except TailTooShort as more:
                wanted = more.args[0]
                super().__init__(path.name, size, os.pread(file.fileno(), wanted, size - wanted))


class PackStore:
    """The objects of one volume. One writer at a time (the volume's lock sees to it), any number of readers."""

    def __init__(self, folder: Path) -> None:
        """``folder`` exists and is host-side only."""
        self.folder = folder
        self._packs: dict[str, Pack] = {}
        self._in_small: dict[bytes, Pack] = {}
        self._large: list[Pack] = []
        self._open: tuple[str, BinaryIO] | None = None
        self.refresh()

    def close(self) -> None:
        if self._open:
            self._open[1].close()
            self._open = None

    def refresh(self) -> None:
        """Look again at which packs there are. Raises ObjectCorrupt."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".pack"))
        before = self._packs
        self._packs = {name: before.get(name) or Pack(self.folder / name) for name in names}
        if not before.keys() <= self._packs.keys():
            self._in_small, self._large, before = {}, [], {}
        for name, pack in self._packs.items():
            if name not in before:
                self._note(pack)
        if self._open and self._open[0] not in self._packs:
            self.close()

    def _note(self, pack: Pack) -> None:
        """There is a small pack for each turn that changed little: they are not all searched for each object."""
        if pack.count > _SMALL_OBJECTS:
            self._large.append(pack)
        else:
            self._in_small.update((row.hash, pack) for row in pack.rows())

    def drop_unfinished(self) -> None:
        """Remove what a killed writer left. Only under the volume's lock."""
        for path in self.folder.glob("*.part"):
            path.unlink()

    def __len__(self) -> int:
        return len(self._packs)

    @property
    def stored_bytes(self) -> int:
        """Size of all packs."""
        return sum(pack.bytes for pack in self._packs.values())

    def has(self, wanted: bytes) -> bool:
        return self._find(wanted) is not None

    def read(self, wanted: bytes) -> bytes:
        """The object, verified. Raises ObjectMissing, ObjectCorrupt."""
        found = self._find(wanted)
        if found is None:
            raise ObjectMissing(f"object {wanted.hex()} is in no pack")
        pack, row = found
        return unpacked(self._frame(pack, row), row, pack.name)

    def keeps(self, wanted: bytes, ignoring: Collection[str] = ()) -> bool:
        """Whether an object need not be written again; ``ignoring`` packs that are about to go."""
        return self._is_here(wanted, ignoring)

    def _is_here(self, wanted: bytes, ignoring: Collection[str] = ()) -> bool:
        return self._find(wanted, ignoring) is not None

    @contextlib.contextmanager
    def writer(self, ignoring: Collection[str] = (), *, cache: bool = False) -> Iterator[PackWriter]:
        """Collect objects; they are on the disk and readable when the block ends, and gone when it raises.

        The name of their pack is durable once its folder or the filesystem is synced, as ``write_together`` does.
        ``cache``: they are kept elsewhere, and could be had again. Raises VolumeFull.
        """
        known = partial(self._is_here if cache else self.keeps, ignoring=ignoring)
        writer = PackWriter(self.folder, known, CACHE if cache else "")
        try:
            with naming_full_disk():
                yield writer
                writer.finish()
        except BaseException:
            writer.abandon()
            raise
        self.refresh()

    def sweep(self, wanted: Callable[[bytes], bool], small_bytes: int = 8 << 20) -> int:
        """Drop objects that are not ``wanted``, and join small packs; the bytes freed.

        Destructive. What is wanted is durable in a new pack before its old one goes. Raises VolumeFull, ObjectCorrupt.
        """
        before = self.stored_bytes
        rewrite = []
        for pack in self._packs.values():
            kept = sum(row.stored for row in pack.rows() if wanted(row.hash))
            if pack.bytes < small_bytes or kept < 0.7 * (pack.bytes - _overhead(pack.count)):
                rewrite.append(pack)
        if len(rewrite) == 1 and all(wanted(row.hash) for row in rewrite[0].rows()):
            return 0
        replaced = {pack.path.name for pack in rewrite}
        with self.writer(replaced) as writer:
            for pack in rewrite:
                for row in sorted(pack.rows(), key=lambda row: row.offset):
                    if wanted(row.hash):
                        writer.copy(row.hash, self._frame(pack, row), row.raw)
        sync_folder(self.folder)
        for pack in rewrite:
            pack.path.unlink()
        sync_folder(self.folder)
        self.refresh()
        return before - self.stored_bytes

    def _find(self, wanted: bytes, ignoring: Collection[str] = ()) -> tuple[Pack, Row] | None:
        small = self._in_small.get(wanted)
        likely = self._large if small is None else [small]
        for pack in self._packs.values() if ignoring else likely:
            if pack.path.name not in ignoring and (row := pack.find(wanted)):
                return pack, row
        return None

    def _frame(self, pack: Pack, row: Row) -> bytes:
        name = pack.path.name
        if self._open is None or self._open[0] != name:
            self.close()
            try:
                self._open = (name, pack.path.open("rb", buffering=0))
            except FileNotFoundError as error:
                raise ObjectMissing(f"{name} was removed meanwhile; open the volume again") from error
        return os.pread(self._open[1].fileno(), row.stored, row.offset)


class PackWriter:
    """Adds objects to packs that nobody sees yet; made by PackStore.writer()."""

    def __init__(self, folder: Path, kept: Callable[[bytes], bool], prefix: str) -> None:
        self.new_bytes = 0
        self._folder, self._kept, self._prefix = folder, kept, prefix
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._file: BinaryIO | None = None
        self._part = Path()
        self._rows: dict[bytes, Row] = {}
        self._offset = 0
        self._done: set[bytes] = set()

    def add(self, data: bytes | memoryview) -> bytes:
        """Store an object unless there is one like it; its BLAKE3 (32 bytes). At most MAX_OBJECT_BYTES."""
        digest = blake3(data).digest()
        if not self._known(digest):
            self._append(digest, self._compressor.compress(data), len(data))
        return digest

    def copy(self, digest: bytes, frame: bytes, raw: int) -> None:
        """Store an object that is compressed already."""
        if not self._known(digest):
            self._append(digest, frame, raw)

    def finish(self) -> None:
        """Put all on the disk. Nothing is published where nothing was added."""
        self._close_pack()

    def abandon(self) -> None:
        """Packs that were full already stay: they are whole, and what nothing names is swept one day."""
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()
            self._part.unlink(missing_ok=True)
            self._file = None

    def _known(self, digest: bytes) -> bool:
        return digest in self._rows or digest in self._done or self._kept(digest)

    def _append(self, digest: bytes, frame: bytes, raw: int) -> None:
        if self._file is None:
            self._part = self._folder / f"{self._prefix}{secrets.token_hex(12)}.part"
            self._file = self._part.open("xb")
            self._file.write(_MAGIC)
            self._offset = len(_MAGIC)
        self._file.write(frame)
        self._rows[digest] = Row(digest, self._offset, len(frame), raw)
        self._offset += len(frame)
        self.new_bytes += len(frame)
        if self._offset >= _ROLL_BYTES:
            self._close_pack()

    def _close_pack(self) -> None:
        if self._file is None:
            return
        index = b"".join(_ROW.pack(*self._rows[digest]) for digest in sorted(self._rows))
        self._file.write(index)
        self._file.write(_TRAILER.pack(self._offset, len(self._rows), blake3(index).digest(), _MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.rename(self._part.with_suffix(".pack"))
        self._file = None
        self._done.update(self._rows)
        self._rows = {}


def unpacked(frame: bytes | memoryview, row: Row, pack: str) -> bytes:
    """The object of a stored frame, verified. Raises ObjectCorrupt."""
    try:
        data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=row.raw)
    except zstandard.ZstdError as error:
        raise ObjectCorrupt(f"object {row.hash.hex()} in {pack} cannot be decompressed") from error
    if blake3(data).digest() != row.hash:
        raise ObjectCorrupt(f"object {row.hash.hex()} in {pack} is damaged")
    return data


@contextlib.contextmanager
def naming_full_disk() -> Iterator[None]:
    """A full disk or quota becomes VolumeFull; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise VolumeFull("no space left for the volume's snapshots; free some and try again") from error
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Create or replace a host-side file: whole and on the disk, or as it was. Raises OSError."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_together(files: Mapping[Path, bytes]) -> None:
    """Replace files of one filesystem in their order, and make durable whatever else was written to it before.

    Each is whole, or as it was; they cost two syncs together, where ``write_durably`` takes two for each. Raises
    OSError.
    """
    fd = os.open(next(iter(files)).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = {path: path.with_name(f"{path.name}.part") for path in files}
    try:
        for path, data in files.items():
            parts[path].write_bytes(data)
        beneath.sync_filesystem(fd)
        for path, part in parts.items():
            part.rename(path)
        beneath.sync_filesystem(fd)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _overhead(count: int) -> int:
    return len(_MAGIC) + count * _ROW.size + _TRAILER.size

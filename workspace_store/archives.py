"""A generation as one file, ``.tar.zst``: written for keeping or another house, and read back with suspicion.

``manifest.json`` comes first; below ``workspace/`` and ``home/`` everything has its mode, its time to the nanosecond
and its user attributes. A file with holes holds only its data, and says where it goes. Reading makes objects, never
files: no name, link or device of an archive touches the host; what a volume cannot hold is refused, with its name.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import zstandard

from workspace_store import trees
from workspace_store.beneath import UnsafePath, components
from workspace_store.packs import PackWriter, VolumeError
from workspace_store.snapshots import TOP, Capturing
from workspace_store.trees import Entry
from workspace_store.volumes import Volume

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20
MAX_ENTRIES = 2_000_000
MAX_DEPTH = 200
MAX_BYTES = 1 << 40
_NANOSECONDS, _HOLES, _SIZE, _XATTR = (f"NIGHTPORTER.{name}" for name in ("mtime_ns", "holes", "size", "xattr."))


class ArchiveRefused(VolumeError):
    """The archive is not one of a volume; the text says where."""


def write(volume: Volume, number: int, to: BinaryIO) -> int:
    """Write generation ``number``; how many entries. Raises GenerationMissing, ObjectMissing, ObjectCorrupt."""
    made = volume.manifest(number)
    body = {
        "format": FORMAT, "generation": number, "root": made.root, "files": made.files, "bytes": made.bytes,
        "principal": made.principal, "created_at": made.created_at, "note": made.note,
    }  # fmt: skip
    volume.bring(number)
    count = 0
    with (
        zstandard.ZstdCompressor(level=3).stream_writer(to, closefd=False) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive,
    ):
        data = json.dumps(body, indent=1).encode()
        first = tarfile.TarInfo(MANIFEST)
        first.size = len(data)
        archive.addfile(first, io.BytesIO(data))
        for entry in volume.entries(number):
            archive.addfile(*_member(volume, entry))
            count += 1
    return count


def _member(volume: Volume, entry: Entry) -> tuple[tarfile.TarInfo, BinaryIO | None]:
    member = tarfile.TarInfo(entry.path)
    member.mode, member.mtime = entry.mode, entry.mtime_ns // 10**9
    member.pax_headers = {_NANOSECONDS: str(entry.mtime_ns)}
    member.pax_headers |= {_XATTR + name: value for name, value in entry.xattrs.items()}
    if entry.kind == "d":
        member.type = tarfile.DIRTYPE
        return member, None
    if entry.kind == "l":
        member.type, member.linkname = tarfile.SYMTYPE, entry.content
        return member, None
    data = tempfile.TemporaryFile()  # noqa: SIM115 - given away
    holes, position = [], 0
    for part in volume.content(entry):
        if isinstance(part, int):
            holes.append([position, part])
        else:
            data.write(part)
        position += part if isinstance(part, int) else len(part)
    if holes or position != entry.size:
        member.pax_headers |= {_HOLES: json.dumps(holes), _SIZE: str(entry.size)}
    member.size = data.tell()
    data.seek(0)
    return member, data


@dataclass
class _Folder:
    entry: Entry | None = None
    below: dict[str, _Folder | Entry] = field(default_factory=dict)


def read(volume: Volume, source: BinaryIO, *, max_bytes: int = MAX_BYTES) -> str:
    """Take an archive's files in as objects of the volume; the hash (hex) of their root tree, for ``Volume.restore``.

    Raises ArchiveRefused, VolumeFull, VolumeBusy; nothing of ``live`` or of the generations is touched.
    """
    try:
        with (
            zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(source) as plain,
            tarfile.open(fileobj=plain, mode="r|", encoding="utf-8") as archive,
        ):
            return volume.add_objects(lambda writer, objects: _read(archive, writer, objects, max_bytes))
    except (
        tarfile.TarError,
        zstandard.ZstdError,
        ValueError,
        TypeError,
        EOFError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ArchiveRefused(f"this is no archive of a workspace, or a damaged one: {error}") from error


def _read(archive: tarfile.TarFile, writer: PackWriter, read: trees.Read, max_bytes: int) -> str:
    first = archive.next()
    if first is None or first.name != MANIFEST or not first.isreg() or first.size > MAX_MANIFEST:
        raise ArchiveRefused("it does not begin with a manifest")
    held = archive.extractfile(first)
    manifest = json.loads(held.read() if held else b"")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArchiveRefused("its format is not one that this release reads")
    top, left = _Folder(), max_bytes
    count = 0
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # it would remember all that there are
        count += 1
        if count > MAX_ENTRIES:
            raise ArchiveRefused(f"it has more than {MAX_ENTRIES} entries")
        parts = _parts(member.name)
        folder = _folder_of(top, parts, member.name)
        if parts[-1] in folder.below:
            raise ArchiveRefused(f"{member.name!r} is in it twice")
        left -= _size(member)
        if left < 0:
            raise ArchiveRefused(f"it holds more than {max_bytes} bytes")
        entry = _entry(archive, member, parts[-1], writer, read)
        folder.below[parts[-1]] = _Folder(entry) if entry.kind == "d" else entry
    for name in TOP:
        top.below.setdefault(name, _Folder(Entry(name, "d", 0o700, 0, 0, "", {})))
    return _tree(top, writer.add).hex()


def _parts(name: str) -> list[str]:
    try:
        parts = components(name)
    except UnsafePath as error:
        raise ArchiveRefused(f"{name!r} leaves the workspace") from error
    if name.startswith("/") or not parts or parts[0] not in TOP or len(parts) > MAX_DEPTH:
        raise ArchiveRefused(f"{name!r} is not below {' or '.join(TOP)}")
    return parts


def _folder_of(top: _Folder, parts: list[str], name: str) -> _Folder:
    folder = top
    for part in parts[:-1]:
        below = folder.below.get(part)
        if not isinstance(below, _Folder):
            raise ArchiveRefused(f"{name!r} is not in a folder of the archive")
        folder = below
    return folder


def _size(member: tarfile.TarInfo) -> int:
    size = int(member.pax_headers.get(_SIZE, member.size))
    if size < member.size or size < 0:
        raise ArchiveRefused(f"{member.name!r} has a size that cannot be")
    return member.size


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, writer: PackWriter, read: trees.Read) -> Entry:
    headers = member.pax_headers
    nanoseconds = int(headers.get(_NANOSECONDS, int(member.mtime) * 10**9))
    if not -(1 << 63) <= nanoseconds < 1 << 63:
        raise ArchiveRefused(f"{member.name!r} has a time that cannot be")
    xattrs = {key.removeprefix(_XATTR): value for key, value in headers.items() if key.startswith(_XATTR)}
    if any(not key.startswith("user.") or bytes.fromhex(value) is None for key, value in xattrs.items()):
        raise ArchiveRefused(f"{member.name!r} has an attribute that no volume keeps")
    mode = member.mode & trees.MODE_BITS
    if member.isdir():
        return Entry(name, "d", mode, nanoseconds, 0, "", xattrs)
    if member.issym():
        if not 0 < len(os.fsencode(member.linkname)) < 4096 or "\0" in member.linkname:
            raise ArchiveRefused(f"{member.name!r} is a link to nothing")
        return Entry(name, "l", mode, nanoseconds, len(os.fsencode(member.linkname)), member.linkname, xattrs)
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise ArchiveRefused(f"{member.name!r} is no file, folder or symbolic link")
    content, size = _content(archive, member, writer, read)
    return Entry(name, "f", mode, nanoseconds, size, content, xattrs)


def _content(
    archive: tarfile.TarFile, member: tarfile.TarInfo, writer: PackWriter, read: trees.Read
) -> tuple[Any, int]:
    data = archive.extractfile(member)
    assert data is not None
    size = int(member.pax_headers.get(_SIZE, member.size))
    holes = json.loads(member.pax_headers.get(_HOLES, "[]"))
    with tempfile.TemporaryFile() as laid:
        position = 0
        for start, length in holes:
            if not (isinstance(start, int) and isinstance(length, int) and position <= start and length > 0):
                raise ArchiveRefused(f"{member.name!r} has holes that cannot be")
            _copy(data, laid, start - position)
            laid.seek(length, os.SEEK_CUR)
            position = start + length
        _copy(data, laid, None)
        if laid.tell() > size:
            raise ArchiveRefused(f"{member.name!r} is longer than it says")
        laid.truncate(size)
        laid.flush()
        laid.seek(0)
        return Capturing(read, writer, {}, 0).content(laid.fileno(), size)


def _copy(source: Any, to: Any, length: int | None) -> None:
    while length is None or length > 0:
        piece = source.read(1 << 20 if length is None else min(length, 1 << 20))
        if not piece:
            if length:
                raise ArchiveRefused("a file in it is shorter than it says")
            return
        to.write(piece)
        length = None if length is None else length - len(piece)


def _tree(folder: _Folder, add: Callable[[bytes], bytes]) -> bytes:
    lines = []
    for name in sorted(folder.below):
        below = folder.below[name]
        entry = below if isinstance(below, Entry) else below.entry
        assert entry is not None
        content = _tree(below, add).hex() if isinstance(below, _Folder) else entry.content
        lines.append(
            trees.encode(entry.kind, name, entry.mode, entry.mtime_ns, entry.size, content, entry.xattrs or None)
        )
    return add(b"\n".join(lines))

"""What the host does in ``live/``, where a sandbox may be writing at the same moment.

Everything goes through ``beneath``; ``live`` is a descriptor of the host-owned directory above ``workspace`` and
``home``.
"""

from __future__ import annotations

import contextlib
import itertools
import os

from workspace_store import beneath, names, stat_index, trees
from workspace_store.beneath import AnyPath, Owner, TreeMoved, UnsafePath
from workspace_store.packs import VolumeError
from workspace_store.snapshots import TOP, Adds, Capture, Capturing, StoreFailed
from workspace_store.stat_index import Record

_WALKS = 5
_NAMES = 1000


class VolumeUnsteady(VolumeError):
    """Directories were moved on every try to read them; freeze the sandbox and try again."""


class FileTooLarge(VolumeError):
    """The file is larger than the caller would take."""


def capture(live: int, read: trees.Read, writer: Adds, known: dict[int, Record], now_ns: int) -> Capture:
    """All of ``live`` as objects, after making it durable. ``now_ns``: by the filesystem's clock, taken just before.

    Raises VolumeUnsteady, OSError of the store.
    """
    for attempt in range(_WALKS):
        # Before reading: it also write-protects pages mapped into processes, so that a store through a mapping after
        # this moment shows in the file's times.
        beneath.sync_filesystem(live)
        try:
            captured = Capturing(read, writer, known, stat_index.racy_from(now_ns)).run(live)
        except TreeMoved:
            continue
        except StoreFailed as error:
            raise (error.__cause__ or error) from None
        captured.moving = captured.moving or attempt > 0
        return captured
    raise VolumeUnsteady("directories of the volume do not stand still; freeze the sandbox and try again")


def read_file(live: int, path: AnyPath, max_bytes: int, owner: Owner | None) -> bytes:
    """Raises FileNotFoundError, UnsafePath, FileTooLarge."""
    with os.fdopen(beneath.open_regular(live, "/".join(_inside(path))), "rb") as file:
        status = os.fstat(file.fileno())
        if owner is not None and status.st_nlink > 1 and status.st_uid != owner[0]:
            raise UnsafePath(f"{os.fsdecode(path)!r} is another name of a file that the volume does not own")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FileTooLarge(f"{os.fsdecode(path)!r} has more than {max_bytes} bytes")
    return data


def folder(live: int, path: AnyPath, most: int) -> list[str]:
    """As Volume.folder."""
    directory = beneath.open_directory(live, "/".join(_inside(path)))
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in itertools.islice(entries, most)]
    finally:
        os.close(directory)


def put_file(live: int, directory: AnyPath, name: str, data: bytes, owner: Owner | None) -> str:
    """As Volume.put_file."""
    parts = _inside(directory)
    safe = names.safe_name(name)
    fd = beneath.make_directories(live, "/".join(parts), owner=owner)
    try:
        for count in range(1, _NAMES):
            numbered = names.numbered(safe, count)
            with contextlib.suppress(UnsafePath, OSError):
                if beneath.read_regular(fd, numbered, len(data) + 1) == data:
                    return "/".join([*parts, numbered])
            with contextlib.suppress(beneath.NameTaken):
                beneath.write_file(fd, numbered, data, replace=False, owner=owner)
                return "/".join([*parts, numbered])
    finally:
        os.close(fd)
    raise UnsafePath(f"{_NAMES} names like {safe!r} are taken")


def _inside(path: AnyPath) -> list[str]:
    parts = beneath.components(path)
    if not parts or parts[0] not in TOP:
        raise UnsafePath(f"{os.fsdecode(path)!r} is not below {' or '.join(TOP)}")
    return parts

"""Large outputs, attachments and raw mails, by content: one copy per principal, named by the BLAKE3 of its bytes.

Promises that a blob that was put can be got back unchanged or not at all. Must never mix two principals' blobs, and
never takes a path from a caller.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import UUID

import zstandard
from blake3 import blake3

from workspace_store.packs import sync_folder

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_PIECE = 1 << 20
_LEVEL = 3


class BlobMissing(Exception):
    """No blob of that hash is kept for that principal."""


class BlobCorrupt(Exception):
    """What is kept under that hash is something else: restore it from a backup, or put it again."""


class Blobs(Protocol):
    """What every driver keeps to. Hashes are 64 lower-case hex digits; others raise ValueError."""

    def put(self, principal: UUID, data: bytes) -> str:
        """Atomic, durable when it returns, idempotent, safe under concurrent writers. Mends a corrupt copy.

        Raises OSError (a full disk: nothing is left behind).
        """
        ...

    def put_stream(self, principal: UUID, pieces: Iterable[bytes]) -> str:
        """As put, in bounded memory. An exception of ``pieces`` leaves nothing behind."""
        ...

    def get(self, principal: UUID, blob: str) -> bytes:
        """The bytes, verified. Raises BlobMissing, BlobCorrupt."""
        ...

    def get_stream(self, principal: UUID, blob: str) -> Iterator[bytes]:
        """Pieces of at most 1 MiB. Raises BlobMissing; BlobCorrupt at the latest after the last piece, so nothing
        may be relied on before the end."""
        ...

    def has(self, principal: UUID, blob: str) -> bool:
        """Whether it is kept; not whether it is intact."""
        ...

    def delete(self, principal: UUID, blob: str) -> bool:
        """Destructive, idempotent; True: it was there. Never while a row names it."""
        ...

    def hashes(self, principal: UUID) -> Iterator[str]:
        """Every hash of a principal, in no order."""
        ...

    def erase(self, principal: UUID) -> bool:
        """Destroy all blobs of a principal; whether there were any."""
        ...

    def quarantine(self, source: str, data: bytes) -> str:
        """Keep what could not be stored otherwise (before its principal is known), durably; its hash.

        ``source``: a channel's name, kept beside it, of letters, digits, ``-`` and ``_``.
        """
        ...

    def quarantined(self) -> Iterator[tuple[str, str]]:
        """(source, hash) of all that is in quarantine."""
        ...

    def from_quarantine(self, source: str, blob: str) -> bytes:
        """Raises BlobMissing, BlobCorrupt."""
        ...


class DirectoryBlobs:
    """Blobs in files: ``<root>/<principal>/<first two digits>/<hash>``, each one zstd frame.

    Satisfies Blobs. ``root`` is host-side only: no sandbox ever sees it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        _make(root)

    def put(self, principal: UUID, data: bytes) -> str:
        return self._put(self.root / str(principal), [data])

    def put_stream(self, principal: UUID, pieces: Iterable[bytes]) -> str:
        return self._put(self.root / str(principal), pieces)

    def get(self, principal: UUID, blob: str) -> bytes:
        return b"".join(self.get_stream(principal, blob))

    def get_stream(self, principal: UUID, blob: str) -> Iterator[bytes]:
        return _read(_place(self.root / str(principal), blob), blob)

    def has(self, principal: UUID, blob: str) -> bool:
        return _place(self.root / str(principal), blob).is_file()

    def delete(self, principal: UUID, blob: str) -> bool:
        path = _place(self.root / str(principal), blob)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_folder(path.parent)
        return True

    def hashes(self, principal: UUID) -> Iterator[str]:
        return _hashes(self.root / str(principal))

    def erase(self, principal: UUID) -> bool:
        folder = self.root / str(principal)
        if not folder.is_dir():
            return False
        shutil.rmtree(folder)
        return True

    def path(self, principal: UUID, blob: str) -> Path:
        """The file of a blob, whether it is there or not."""
        return _place(self.root / str(principal), blob)

    def quarantine_path(self, source: str, blob: str) -> Path:
        return _place(self._quarantine(source), blob)

    def quarantine(self, source: str, data: bytes) -> str:
        return self._put(self._quarantine(source), [data])

    def quarantined(self) -> Iterator[tuple[str, str]]:
        folder = self.root / "quarantine"
        for source in sorted(folder.iterdir()) if folder.is_dir() else ():
            for blob in _hashes(source):
                yield source.name, blob

    def from_quarantine(self, source: str, blob: str) -> bytes:
        return b"".join(_read(_place(self._quarantine(source), blob), blob))

    def _quarantine(self, source: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", source):
            raise ValueError(f"{source!r} is not a channel's name")
        return self.root / "quarantine" / source

    def _put(self, folder: Path, pieces: Iterable[bytes]) -> str:
        incoming = folder / "incoming"
        _make(incoming)
        _drop_abandoned(incoming)
        temporary = incoming / secrets.token_hex(16)
        hasher = blake3()
        try:
            with temporary.open("xb") as file:
                with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file, closefd=False) as compressed:
                    for piece in pieces:
                        hasher.update(piece)
                        compressed.write(piece)
                file.flush()
                os.fsync(file.fileno())
            blob = hasher.hexdigest()
            path = _place(folder, blob)
            _make(path.parent)
            # Also when another writer was first: its rename may not be on the disk yet when ours returns, and a
            # rename over a damaged copy mends it.
            temporary.rename(path)
            sync_folder(path.parent)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
        return blob


class MovedBlobs(DirectoryBlobs):
    """Blobs whose place has changed: what is not there is read from ``before``, and what goes does so in both."""

    def __init__(self, root: Path, before: DirectoryBlobs) -> None:
        super().__init__(root)
        self.before = before

    def get_stream(self, principal: UUID, blob: str) -> Iterator[bytes]:
        if super().has(principal, blob) or not self.before.has(principal, blob):
            return super().get_stream(principal, blob)
        return self.before.get_stream(principal, blob)

    def has(self, principal: UUID, blob: str) -> bool:
        return super().has(principal, blob) or self.before.has(principal, blob)

    def delete(self, principal: UUID, blob: str) -> bool:
        return self.before.delete(principal, blob) | super().delete(principal, blob)

    def hashes(self, principal: UUID) -> Iterator[str]:
        yield from {*super().hashes(principal), *self.before.hashes(principal)}

    def erase(self, principal: UUID) -> bool:
        return self.before.erase(principal) | super().erase(principal)

    def quarantined(self) -> Iterator[tuple[str, str]]:
        yield from {*super().quarantined(), *self.before.quarantined()}

    def from_quarantine(self, source: str, blob: str) -> bytes:
        try:
            return super().from_quarantine(source, blob)
        except BlobMissing:
            return self.before.from_quarantine(source, blob)


def decompressed(frame: bytes, blob: str) -> bytes:
    """The bytes of a blob's file. Raises BlobCorrupt."""
    return b"".join(_verified(io.BytesIO(frame), blob))


def blob_name(data: bytes) -> str:
    """The hash that names the blob of these bytes."""
    return blake3(data).hexdigest()


def is_name(text: str) -> bool:
    """Whether a text names a blob; what a platform calls a file does not."""
    return bool(_HASH.match(text))


def _place(folder: Path, blob: str) -> Path:
    if not is_name(blob):
        raise ValueError(f"{blob!r} is not a BLAKE3 hash in hex")
    return folder / blob[:2] / blob


def _read(path: Path, blob: str) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise BlobMissing(f"blob {blob} is not kept") from error
    return _verified(file, blob)


def _verified(file: BinaryIO, blob: str) -> Iterator[bytes]:
    hasher = blake3()
    with file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=False) as reader:
        try:
            while piece := reader.read(_PIECE):
                hasher.update(piece)
                yield piece
        except zstandard.ZstdError as error:
            raise BlobCorrupt(f"blob {blob} cannot be decompressed") from error
    if hasher.hexdigest() != blob:
        raise BlobCorrupt(f"blob {blob} is not what was put")


def _hashes(folder: Path) -> Iterator[str]:
    for shard in folder.iterdir() if folder.is_dir() else ():
        if len(shard.name) == 2:
            yield from (path.name for path in shard.iterdir() if _HASH.match(path.name))


def _drop_abandoned(incoming: Path) -> None:
    """What writers that were killed left behind; nobody writes one blob for a day."""
    for path in incoming.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - 86_400:
                path.unlink()


def _make(folder: Path) -> None:
    """Create a folder and its parents, each durably."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)

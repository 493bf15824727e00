"""Blobs in an object store, with those that were used here kept on the disk.

Satisfies ``Blobs``. Stored as the zstd frame that the disk has too; checked by hash when it is fetched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from uuid import UUID

from workspace_store.blobs import BlobCorrupt, BlobMissing, DirectoryBlobs, decompressed
from workspace_store.bucket import Bucket

_QUARANTINE = "quarantine"


class StoredBlobs:
    """``here``: what is on this disk, written first and read first."""

    def __init__(self, here: DirectoryBlobs, bucket: Bucket) -> None:
        self.here = here
        self.bucket = bucket

    def put(self, principal: UUID, data: bytes) -> str:
        return self.put_stream(principal, [data])

    def put_stream(self, principal: UUID, pieces: Iterable[bytes]) -> str:
        blob = self.here.put_stream(principal, pieces)
        self.bucket.put(_name(principal, blob), self.here.path(principal, blob))
        return blob

    def get(self, principal: UUID, blob: str) -> bytes:
        return b"".join(self.get_stream(principal, blob))

    def get_stream(self, principal: UUID, blob: str) -> Iterator[bytes]:
        with contextlib.suppress(OSError):
            os.utime(self.here.path(principal, blob))  # what was used last stays in the cache longest
        if not self.here.has(principal, blob):
            self._fetch(principal, blob)
        return self._read(principal, blob)

    def _read(self, principal: UUID, blob: str) -> Iterator[bytes]:
        try:
            yield from self.here.get_stream(principal, blob)
        except BlobCorrupt:
            # The copy here is damaged; whoever reads has been told, and reads the stored one next time.
            self.here.delete(principal, blob)
            raise

    def has(self, principal: UUID, blob: str) -> bool:
        return self.here.has(principal, blob) or self.bucket.has(_name(principal, blob))

    def delete(self, principal: UUID, blob: str) -> bool:
        there = self.has(principal, blob)
        self.bucket.delete([_name(principal, blob)])
        self.here.delete(principal, blob)
        return there

    def hashes(self, principal: UUID) -> Iterator[str]:
        for name in self.bucket.names(f"blobs/{principal}"):
            yield name.rpartition("/")[2]

    def erase(self, principal: UUID) -> bool:
        names = list(self.bucket.names(f"blobs/{principal}"))
        self.bucket.delete(names)
        return self.here.erase(principal) or bool(names)

    def quarantine(self, source: str, data: bytes) -> str:
        blob = self.here.quarantine(source, data)
        self.bucket.put(f"blobs/{_QUARANTINE}/{source}/{blob}", self.here.quarantine_path(source, blob))
        return blob

    def quarantined(self) -> Iterator[tuple[str, str]]:
        for name in self.bucket.names(f"blobs/{_QUARANTINE}"):
            source, _, blob = name.removeprefix(f"blobs/{_QUARANTINE}/").partition("/")
            yield source, blob

    def from_quarantine(self, source: str, blob: str) -> bytes:
        found = self.bucket.get(f"blobs/{_QUARANTINE}/{source}/{blob}")
        if found is None:
            raise BlobMissing(f"blob {blob} is not in quarantine")
        return decompressed(found[0], blob)

    def _fetch(self, principal: UUID, blob: str) -> None:
        found = self.bucket.get(_name(principal, blob))
        if found is None:
            raise BlobMissing(f"blob {blob} is not kept")
        self.here.put(principal, decompressed(found[0], blob))


def _name(principal: UUID, blob: str) -> str:
    return f"blobs/{principal}/{blob}"

"""Blobs in an object store: what one host keeps another reads, checked, and nothing is lost with a cache."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.buckets import ObjectStore
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs, DirectoryBlobs
from workspace_store.stored_blobs import StoredBlobs


@pytest.fixture
def hosts(tmp_path: Path, object_store: ObjectStore) -> tuple[StoredBlobs, StoredBlobs]:
    bucket = object_store.open(object_store.create())
    return (
        StoredBlobs(DirectoryBlobs(tmp_path / "first"), bucket),
        StoredBlobs(DirectoryBlobs(tmp_path / "second"), bucket),
    )


def test_another_host_reads_it(hosts: tuple[Blobs, Blobs]) -> None:
    first, second = hosts
    owner, other = uuid4(), uuid4()
    blob = first.put(owner, b"hello" * 1000)
    assert second.has(owner, blob)
    assert second.get(owner, blob) == b"hello" * 1000
    assert list(second.hashes(owner)) == [blob]
    assert not second.has(other, blob)
    with pytest.raises(BlobMissing):
        second.get(other, blob)
    assert second.delete(owner, blob)
    assert not second.has(owner, blob)


def test_quarantine_is_seen_everywhere(hosts: tuple[Blobs, Blobs]) -> None:
    first, second = hosts
    blob = first.quarantine("email", b"no principal yet")
    assert list(second.quarantined()) == [("email", blob)]
    assert second.from_quarantine("email", blob) == b"no principal yet"


def test_a_damaged_one_is_refused_and_a_damaged_copy_is_fetched_again(
    hosts: tuple[StoredBlobs, StoredBlobs], object_store: ObjectStore
) -> None:
    first, second = hosts
    owner = uuid4()
    blob = first.put(owner, b"hello" * 1000)
    first.here.path(owner, blob).write_bytes(b"damaged here")
    with pytest.raises(BlobCorrupt):
        first.get(owner, blob)
    assert first.get(owner, blob) == b"hello" * 1000
    first.bucket.put(f"blobs/{owner}/{blob}", b"damaged there")
    with pytest.raises(BlobCorrupt):
        second.get(owner, blob)
    # Put again, it is mended.
    first.put(owner, b"hello" * 1000)
    assert second.get(owner, blob) == b"hello" * 1000


def test_erasing_takes_all_of_one_and_nothing_of_others(hosts: tuple[Blobs, Blobs]) -> None:
    first, second = hosts
    owner, other = uuid4(), uuid4()
    blob, kept = first.put(owner, b"gone"), first.put(other, b"kept")
    assert second.erase(owner)
    assert list(first.hashes(owner)) == []
    assert second.get(other, kept) == b"kept"
    with pytest.raises(BlobMissing):
        second.get(owner, blob)

"""The cache of an object store within its size: what sleeps goes, what is nowhere else stays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.buckets import ObjectStore
from workspace_store import cache_room
from workspace_store.blobs import DirectoryBlobs
from workspace_store.cache_room import CacheRoom
from workspace_store.stored_blobs import StoredBlobs
from workspace_store.stored_volumes import StoredVolumes


class Cache:
    def __init__(self, folder: Path, store: ObjectStore) -> None:
        self.bucket = store.open(store.create())
        self.volumes = StoredVolumes(folder / "volumes", self.bucket)
        self.blobs = StoredBlobs(DirectoryBlobs(folder / "blobs"), self.bucket)
        self.database: dict[UUID, int] = {}
        self.forgotten: list[UUID] = []
        self.room = CacheRoom(
            self.volumes, folder / "blobs", 1 << 20, self.database.__getitem__, lambda: list(self.forgotten)
        )
        self.elsewhere = StoredVolumes(folder / "elsewhere", self.bucket)

    def fill(self, age: float) -> UUID:
        """A sleeping volume of 400 KB, used so long ago."""
        owner = uuid4()
        with self.volumes.open(owner) as volume:
            volume.follow(0)
            volume.claim("here 1")
            (volume.workspace / "a").write_bytes(os.urandom(200_000))
            volume.hand_in(volume.snapshot(0))
        self.database[owner] = 1
        when = time.time() - age
        os.utime(self.volumes.root / str(owner) / "snapshots" / "used", (when, when))
        return owner

    def make(self) -> None:
        left = self.room.too_much(time.time())
        for one in left:
            if self.room.excess > 0 and self.room.remove(one):
                self.room.excess -= one.bytes

    def is_here(self, owner: UUID) -> bool:
        return (self.volumes.root / str(owner)).is_dir()


def test_the_oldest_goes_and_comes_back(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    oldest, newest = cache.fill(1000), cache.fill(10)
    cache.make()
    assert cache.is_here(oldest), "there is room"
    cache.fill(100)
    cache.make()
    assert not cache.is_here(oldest)
    assert cache.is_here(newest)
    with cache.volumes.open(oldest) as volume:
        volume.follow(1)
        assert len((volume.workspace / "a").read_bytes()) == 200_000


def test_what_is_not_stored_or_not_committed_stays(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    changed, uncommitted, others = cache.fill(1000), cache.fill(900), cache.fill(800)
    (cache.volumes.root / str(changed) / "live" / "workspace" / "a").write_text("half done")
    cache.database[uncommitted] = 0
    # Another host has it now, whatever is left of it here.
    (cache.volumes.root / str(others) / "live" / "workspace" / "a").write_text("never committed")
    with cache.elsewhere.open(others) as volume:
        volume.follow(1)
        volume.claim("elsewhere 2")
    cache.fill(10)
    cache.make()
    assert cache.is_here(changed)
    assert cache.is_here(uncommitted)
    assert not cache.is_here(others)


def test_blobs_go_too_but_none_that_may_be_on_its_way(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    owner = uuid4()
    old, new = cache.blobs.put(owner, os.urandom(800_000)), cache.blobs.put(owner, os.urandom(800_000))
    long_ago = time.time() - 10_000
    os.utime(cache.blobs.here.path(owner, old), (long_ago, long_ago))
    cache.make()
    cache.room.most_bytes = 1000
    cache.make()
    assert not cache.blobs.here.has(owner, old)
    assert cache.blobs.here.has(owner, new)
    assert len(cache.blobs.get(owner, old)) == 800_000


def test_a_blob_that_was_used_or_put_again_meanwhile_stays(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    owner, data = uuid4(), os.urandom(800_000)
    read, again = cache.blobs.put(owner, b"read meanwhile"), cache.blobs.put(owner, data)
    for blob in (read, again):
        os.utime(cache.blobs.here.path(owner, blob), (1.0, 1.0))
    cache.room.most_bytes = 1000
    found = cache.room.too_much(time.time())
    assert len(found) == 2
    cache.blobs.get(owner, read)
    cache.blobs.put(owner, data)
    assert not any(cache.room.remove(one) for one in found)
    assert cache.blobs.here.has(owner, read)
    assert cache.blobs.here.has(owner, again)


def test_nothing_is_left_of_who_was_forgotten_elsewhere(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    gone, stays = cache.fill(10), cache.fill(20)
    kept, lost = cache.blobs.put(stays, b"theirs"), cache.blobs.put(gone, b"words")
    cache.elsewhere.erase(gone)
    cache.forgotten.append(gone)
    cache.make()
    assert not cache.is_here(gone)
    assert not cache.blobs.here.has(gone, lost)
    assert cache.is_here(stays)
    assert cache.blobs.here.has(stays, kept)


def test_who_was_only_looked_at_goes_too(tmp_path: Path, object_store: ObjectStore) -> None:
    cache = Cache(tmp_path, object_store)
    owner = cache.fill(10)
    there = CacheRoom(cache.elsewhere, tmp_path / "none", 1000, cache.database.__getitem__, list)
    with cache.elsewhere.open(owner) as volume:
        volume.follow(1)
    other = cache.fill(10)
    with cache.elsewhere.open(other) as volume:
        volume.refresh()
    found = there.too_much(time.time())
    assert {one.volume for one in found} == {owner, other}
    assert [there.remove(one) for one in found] == [True, True]


def test_what_sleeps_is_measured_once(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path, object_store)
    asleep, woken = cache.fill(100), cache.fill(10)
    measured: list[str] = []
    real = cache_room._size

    def counting(path: Path) -> int:
        measured.append(path.name)
        return real(path)

    monkeypatch.setattr(cache_room, "_size", counting)
    cache.make()
    assert set(measured) == {str(asleep), str(woken)}
    with cache.volumes.open(woken) as volume:
        volume.follow(1)
        volume.claim("here 2")
        (volume.workspace / "more").write_bytes(os.urandom(900_000))
        volume.hand_in(volume.snapshot(1))
    cache.database[woken] = 2
    measured.clear()
    cache.make()
    assert measured == [str(woken)]
    assert not cache.is_here(asleep), "what the woken one has grown by is counted"

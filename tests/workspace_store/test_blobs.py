"""Blobs come back as they were put, or not at all."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from blake3 import blake3

from tests.buckets import ObjectStore
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs, DirectoryBlobs, MovedBlobs
from workspace_store.stored_blobs import StoredBlobs

ANN, BOB = uuid4(), uuid4()


class BlobTests(ABC):
    """The contract; each backend's test class inherits it and says how to make one and how to damage it."""

    @pytest.fixture
    @abstractmethod
    def blobs(self, tmp_path: Path) -> Blobs: ...

    @abstractmethod
    def damage(self, blobs: Blobs, principal: UUID, blob: str) -> None: ...

    @pytest.mark.parametrize("data", [b"", b"hello", os.urandom(3 << 20), b"a" * (5 << 20)])
    def test_what_was_put_comes_back(self, blobs: Blobs, data: bytes) -> None:
        blob = blobs.put(ANN, data)
        assert blob == blake3(data).hexdigest()
        assert blobs.get(ANN, blob) == data
        assert b"".join(blobs.get_stream(ANN, blob)) == data
        assert blobs.has(ANN, blob)
        assert list(blobs.hashes(ANN)) == [blob]

    def test_putting_twice_is_putting_once(self, blobs: Blobs) -> None:
        assert blobs.put(ANN, b"x") == blobs.put(ANN, b"x") == blobs.put_stream(ANN, [b"", b"x"])
        assert len(list(blobs.hashes(ANN))) == 1

    def test_principals_share_nothing(self, blobs: Blobs) -> None:
        blob = blobs.put(ANN, b"secret")
        assert not blobs.has(BOB, blob)
        assert list(blobs.hashes(BOB)) == []
        with pytest.raises(BlobMissing):
            blobs.get(BOB, blob)
        blobs.put(BOB, b"secret")
        assert blobs.delete(ANN, blob)
        assert blobs.get(BOB, blob) == b"secret"

    def test_deleting_is_idempotent(self, blobs: Blobs) -> None:
        blob = blobs.put(ANN, b"x")
        assert blobs.delete(ANN, blob)
        assert not blobs.delete(ANN, blob)
        assert not blobs.has(ANN, blob)
        with pytest.raises(BlobMissing):
            blobs.get(ANN, blob)

    def test_damage_is_told_and_mended_by_putting_again(self, blobs: Blobs) -> None:
        data = os.urandom(100_000)
        blob = blobs.put(ANN, data)
        self.damage(blobs, ANN, blob)
        with pytest.raises(BlobCorrupt):
            blobs.get(ANN, blob)
        with pytest.raises(BlobCorrupt):
            list(blobs.get_stream(ANN, blob))
        blobs.put(ANN, data)
        assert blobs.get(ANN, blob) == data

    @pytest.mark.parametrize("blob", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
    def test_a_hash_is_a_hash(self, blobs: Blobs, blob: str) -> None:
        for verb in (blobs.get, blobs.has, blobs.delete, blobs.get_stream):
            with pytest.raises(ValueError):
                verb(ANN, blob)

    def test_a_broken_stream_leaves_nothing(self, blobs: Blobs) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"half"
            raise ConnectionError

        with pytest.raises(ConnectionError):
            blobs.put_stream(ANN, pieces())
        assert list(blobs.hashes(ANN)) == []

    def test_many_writers_of_the_same(self, blobs: Blobs) -> None:
        data = [os.urandom(50_000) for _ in range(4)]
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for item in data * 5:
                    assert blobs.get(ANN, blobs.put(ANN, item)) == item
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(list(blobs.hashes(ANN))) == 4

    def test_quarantine_needs_no_principal(self, blobs: Blobs) -> None:
        blob = blobs.quarantine("telegram", b"\xff\x00update")
        assert blobs.quarantine("telegram", b"\xff\x00update") == blob
        assert list(blobs.quarantined()) == [("telegram", blob)]
        assert blobs.from_quarantine("telegram", blob) == b"\xff\x00update"
        with pytest.raises(BlobMissing):
            blobs.from_quarantine("slack", blob)
        with pytest.raises(ValueError):
            blobs.quarantine("../x", b"")


class TestDirectoryBlobs(BlobTests):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return DirectoryBlobs(tmp_path / "blobs")

    def damage(self, blobs: Blobs, principal: UUID, blob: str) -> None:
        assert isinstance(blobs, DirectoryBlobs)
        path = blobs.root / str(principal) / blob[:2] / blob
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)

    def test_a_cut_file_is_corrupt(self, blobs: DirectoryBlobs) -> None:
        blob = blobs.put(ANN, os.urandom(100_000))
        path = blobs.root / str(ANN) / blob[:2] / blob
        for size in (0, 5, 50_000):
            os.truncate(path, size)
            with pytest.raises(BlobCorrupt):
                blobs.get(ANN, blob)

    def test_what_a_killed_writer_left_goes_after_a_day(self, blobs: DirectoryBlobs) -> None:
        blobs.put(ANN, b"x")
        left = blobs.root / str(ANN) / "incoming" / "left"
        left.write_bytes(b"half")
        blobs.put(ANN, b"y")
        assert left.exists()
        os.utime(left, (0, 0))
        blobs.put(ANN, b"z")
        assert not left.exists()
        assert len(list(blobs.hashes(ANN))) == 3


class TestMovedBlobs(TestDirectoryBlobs):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return MovedBlobs(tmp_path / "blobs", DirectoryBlobs(tmp_path / "before"))

    def test_what_was_kept_before_is_still_there(self, blobs: MovedBlobs) -> None:
        old = blobs.before.put(ANN, b"old")
        new = blobs.put(ANN, b"new")
        assert (blobs.get(ANN, old), blobs.get(ANN, new)) == (b"old", b"new")
        assert set(blobs.hashes(ANN)) == {old, new}
        assert blobs.delete(ANN, old)
        assert not blobs.has(ANN, old)
        assert blobs.erase(ANN)
        assert list(blobs.hashes(ANN)) == []


class TestStoredBlobs(BlobTests):
    @pytest.fixture
    def blobs(self, tmp_path: Path, object_store: ObjectStore) -> Blobs:
        return StoredBlobs(DirectoryBlobs(tmp_path / "blobs"), object_store.open(object_store.create()))

    def damage(self, blobs: Blobs, principal: UUID, blob: str) -> None:
        assert isinstance(blobs, StoredBlobs)
        name = f"blobs/{principal}/{blob}"
        found = blobs.bucket.get(name)
        assert found is not None
        data = bytearray(found[0])
        data[len(data) // 2] ^= 0xFF
        blobs.bucket.put(name, bytes(data))
        blobs.here.delete(principal, blob)

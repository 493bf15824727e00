"""Volumes in an object store: two hosts with caches of their own, on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.buckets import FaultyWay, ObjectStore
from workspace_store.manifests import Generation
from workspace_store.stored_volumes import StoredVolumes
from workspace_store.volume_rights import VolumeTaken
from workspace_store.volumes import Volume


class Host:
    """One that has caches of its own."""

    def __init__(self, folder: Path, way: FaultyWay, name: str, epoch: int = 0) -> None:
        self.name = name
        self.way = way
        self.volumes = StoredVolumes(folder / name, way.store.open(way.bucket, way.endpoint, 2.0))  # type: ignore[attr-defined]

    def seat(self, owner: UUID, epoch: int, generation: int = 0) -> Volume:
        """As a sandbox manager takes it."""
        volume = self.volumes.open(owner)
        volume.follow(generation)
        volume.claim(f"{self.name} {epoch}")
        return volume


def commit(volume: Volume, parent: int) -> Generation:
    made = volume.snapshot(parent)
    volume.hand_in(made)
    return made


@pytest.fixture
def way(object_store: ObjectStore) -> Iterator[FaultyWay]:
    found = FaultyWay(object_store)
    found.bucket = object_store.create()  # type: ignore[attr-defined]
    yield found
    found.close()


@pytest.fixture
def hosts(tmp_path: Path, way: FaultyWay) -> tuple[Host, Host]:
    return Host(tmp_path, way, "first"), Host(tmp_path, way, "second")


def test_another_host_has_the_files(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "notes").write_text("hello")
        (volume.home / "deep").mkdir()
        (volume.home / "deep" / "big").write_bytes(bytes(range(256)) * 8192)
        made = commit(volume, 0)
    with hosts[1].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "notes").read_text() == "hello"
        assert (volume.home / "deep" / "big").read_bytes() == bytes(range(256)) * 8192
        assert volume.manifest(1).digest == made.digest
        (volume.workspace / "notes").write_text("hello again")
        commit(volume, 1)
    with hosts[0].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "notes").read_text() == "hello again"
        assert [change.path for change in volume.diff(1, 2)] == ["workspace/notes"]


def test_one_who_lost_the_right_stores_nothing(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as old, hosts[1].seat(owner, 2) as new:
        (old.workspace / "a").write_text("of the old one")
        (new.workspace / "a").write_text("of the new one")
        made = old.snapshot(0)
        with pytest.raises(VolumeTaken):
            old.hand_in(made)
        commit(new, 0)
    with hosts[0].seat(owner, 3, 1) as volume:
        assert (volume.workspace / "a").read_text() == "of the new one"

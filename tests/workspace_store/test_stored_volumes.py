"""Volumes in an object store: two hosts with caches of their own, on a real S3 server."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.buckets import Asked, FaultyWay, ObjectStore
from workspace_store import archives
from workspace_store.bucket import StoreUnavailable
from workspace_store.manifests import Generation
from workspace_store.packs import ObjectCorrupt
from workspace_store.stored_volumes import StoredVolumes
from workspace_store.volume_rights import ClaimOutdated, VolumeTaken
from workspace_store.volumes import Volume


class Host:
    """One that has caches of its own."""

    def __init__(self, folder: Path, way: FaultyWay, bucket: str, name: str) -> None:
        self.name = name
        self.volumes = StoredVolumes(folder / name, way.store.open(bucket, way.endpoint, 1.0))

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
def hosts(tmp_path: Path, object_store: ObjectStore, way: FaultyWay) -> tuple[Host, Host]:
    bucket = object_store.create()
    return Host(tmp_path, way, bucket, "first"), Host(tmp_path, way, bucket, "second")


def filled(volume: Volume, count: int) -> None:
    for number in range(count):
        (volume.workspace / f"file{number}").write_text(f"{number} " * 2000)


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


def test_who_has_it_fetches_nothing(hosts: tuple[Host, Host], way: FaultyWay) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        filled(volume, 50)
        commit(volume, 0)
        live = volume.live_id()
    way.asked.clear()
    with hosts[0].seat(owner, 2, 1) as volume:
        assert volume.live_id() == live
    assert [name.rpartition("/")[2] for name in way.names("GET")] == ["head.json"]
    way.asked.clear()
    # Another looked at it and changed nothing: the files here are those of the generation still.
    with hosts[1].seat(owner, 3, 1):
        pass
    with hosts[0].seat(owner, 4, 1) as volume:
        assert volume.live_id() == live


def test_only_what_is_not_here_is_fetched(hosts: tuple[Host, Host], way: FaultyWay) -> None:
    owner = uuid4()
    big = bytes(range(256)) * 4096
    with hosts[0].seat(owner, 1) as volume:
        for number in range(8):
            (volume.workspace / f"big{number}").write_bytes(bytes([number]) * 100_000 + big)
        commit(volume, 0)
    with hosts[1].seat(owner, 2, 1) as volume:
        (volume.workspace / "small").write_text("one more")
        commit(volume, 1)
    way.asked.clear()
    with hosts[0].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "small").read_text() == "one more"
        assert (volume.workspace / "big7").read_bytes() == bytes([7]) * 100_000 + big
    packs = {name for name in way.names("GET") if name.endswith(".pack")}
    assert len(packs) == 1, "the one that came in meanwhile"


def test_unstored_work_counts_here_until_another_has_had_the_volume(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("committed")
        commit(volume, 0)
        (volume.workspace / "a").write_text("half done")
    with hosts[0].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "a").read_text() == "half done"
    with hosts[1].seat(owner, 3, 1) as volume:
        assert (volume.workspace / "a").read_text() == "committed"
    with hosts[0].seat(owner, 4, 1) as volume:
        assert (volume.workspace / "a").read_text() == "committed"


def test_a_claim_of_an_earlier_tenancy_comes_too_late(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].volumes.open(owner) as late:
        late.follow(0)
        with hosts[1].seat(owner, 2) as volume:
            (volume.workspace / "a").write_text("in time")
            commit(volume, 0)
        late.follow(0)
        with pytest.raises(ClaimOutdated):
            late.claim("first 1")
    with hosts[1].seat(owner, 3, 1) as volume:
        assert (volume.workspace / "a").read_text() == "in time"


def test_what_was_handed_in_and_never_committed_is_forgotten(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("1")
        commit(volume, 0)
        (volume.workspace / "a").write_text("2")
        commit(volume, 1)
    with hosts[1].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "a").read_text() == "1"
        assert volume.numbers() == {1}
        (volume.workspace / "a").write_text("another 2")
        commit(volume, 1)
    with hosts[0].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "a").read_text() == "another 2"
        assert volume.read_file("workspace/a", 2) == b"another 2"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["busy", "torn", "cut", "lost", "wrong"])
def test_one_fault_of_each_request_is_got_over(hosts: tuple[Host, Host], way: FaultyWay, fault: str) -> None:
    """Each request fails once, and then does what was asked."""
    owner, failed = uuid4(), set[tuple[str, str, bytes]]()

    def once(asked: Asked) -> str:
        if fault in ("torn", "wrong") and (asked.method != "GET" or "list-type" in asked.path):
            return ""
        if fault == "wrong" and not asked.path.endswith(".pack"):
            return ""
        # A head that is written again has other words.
        key = (asked.method, asked.path, b"")
        if key in failed:
            return ""
        failed.add(key)
        return fault

    way.fault = once
    with hosts[0].seat(owner, 1) as volume:
        filled(volume, 20)
        commit(volume, 0)
    with hosts[1].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "file7").read_text() == "7 " * 2000
        (volume.workspace / "file7").write_text("changed")
        commit(volume, 1)
    way.fault = lambda asked: ""
    with hosts[0].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "file7").read_text() == "changed"
    assert failed


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["busy", "hang"])
def test_a_store_that_is_away_is_told_and_nothing_is_taken_for_stored(
    hosts: tuple[Host, Host], way: FaultyWay, fault: str
) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("1")
        commit(volume, 0)
        (volume.workspace / "a").write_text("2")
        made = volume.snapshot(1)
        way.fault = lambda asked: fault
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="object store"):
            volume.hand_in(made)
        assert time.monotonic() - began < 20
        way.fault = lambda asked: ""
        # It is back: the same generation is handed in.
        volume.hand_in(made)
    with hosts[1].seat(owner, 2, 2) as volume:
        assert (volume.workspace / "a").read_text() == "2"


def test_who_only_looked_at_a_newer_generation_has_its_files_too(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[1].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("1")
        commit(volume, 0)
    with hosts[0].seat(owner, 2, 1) as volume:
        (volume.workspace / "a").write_text("2")
        commit(volume, 1)
    with hosts[1].volumes.open(owner) as volume:
        volume.refresh()
        assert volume.read_file("workspace/a", 2) == b"2"
    with hosts[1].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "a").read_text() == "2"


@pytest.mark.slow
def test_a_wake_that_did_not_get_all_starts_anew(hosts: tuple[Host, Host], way: FaultyWay) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("1")
        commit(volume, 0)
    with hosts[1].volumes.open(owner) as volume:
        way.fault = lambda asked: "busy" if asked.path.endswith(".pack") else ""
        with pytest.raises(StoreUnavailable):
            volume.follow(1)
        way.fault = lambda asked: ""
        volume.follow(1)
        assert (volume.workspace / "a").read_text() == "1"


def test_who_lost_the_volume_and_looks_has_no_right_to_it(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as late:
        (late.workspace / "a").write_text("1")
        commit(late, 0)
        (late.workspace / "a").write_text("late")
        made = late.snapshot(1)
        with hosts[1].seat(owner, 2, 1) as volume:
            (volume.workspace / "a").write_text("theirs")
            commit(volume, 1)
            late.refresh()
            with pytest.raises(VolumeTaken):
                late.hand_in(made)
            (volume.workspace / "a").write_text("theirs too")
            commit(volume, 2)


@pytest.mark.slow
@pytest.mark.parametrize("opened_again", [False, True])
def test_what_was_stored_without_an_answer_is_not_taken_for_anothers(
    hosts: tuple[Host, Host], way: FaultyWay, opened_again: bool
) -> None:
    owner, done = uuid4(), list[str]()

    def first_is_lost_then_away(asked: Asked) -> str:
        if asked.method != "PUT" or not asked.path.endswith("head.json"):
            return ""
        done.append(asked.path)
        return "lost" if len(done) == 1 else "busy"

    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("1")
        commit(volume, 0)
        (volume.workspace / "a").write_text("2")
        made = volume.snapshot(1)
        for fault in (first_is_lost_then_away, lambda asked: "busy" if asked.path.endswith("head.json") else ""):
            way.fault = fault
            with pytest.raises(StoreUnavailable):
                volume.hand_in(made)
        way.fault = lambda asked: ""
        if not opened_again:
            volume.hand_in(made)
    assert done
    # It was never committed, and nobody else has had it: what is here counts.
    with hosts[0].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "a").read_text() == "2"
        commit(volume, 1)
    with hosts[1].seat(owner, 3, 2) as volume:
        assert (volume.workspace / "a").read_text() == "2"


def test_a_damaged_object_is_refused_and_told(hosts: tuple[Host, Host], object_store: ObjectStore) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_bytes(bytes(range(256)) * 2000)
        commit(volume, 0)
    bucket = hosts[0].volumes.bucket
    (pack,) = bucket.names(f"volumes/{owner}/packs")
    found = bucket.get(pack)
    assert found is not None
    bucket.put(pack, found[0][:100] + bytes([found[0][100] ^ 1]) + found[0][101:])
    with hosts[1].volumes.open(owner) as volume:
        with pytest.raises(ObjectCorrupt, match="in the object store"):
            volume.follow(1)
        assert list(volume.workspace.iterdir()) == []
    # Whoever has it whole is not hurt.
    with hosts[0].seat(owner, 2, 1) as volume:
        assert (volume.workspace / "a").read_bytes() == bytes(range(256)) * 2000


@pytest.mark.parametrize("position", [40, -100], ids=["an object", "the index"])
def test_a_damaged_cache_is_fetched_again(hosts: tuple[Host, Host], tmp_path: Path, position: int) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_bytes(bytes(range(256)) * 2000)
        commit(volume, 0)
        (volume.workspace / "a").write_text("2")
        commit(volume, 1)
    packs = tmp_path / "first" / str(owner) / "snapshots" / "packs"
    for pack in packs.glob("*.pack"):
        data = pack.read_bytes()
        where = position if position >= 0 else len(data) + position
        pack.write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])
    with hosts[0].seat(owner, 2, 2) as volume:
        assert volume.read_file("workspace/a", 1) == bytes(range(256)) * 2000


def test_dropped_generations_leave_the_store_and_nothing_kept_does(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        for number in range(6):
            (volume.workspace / "a").write_bytes(bytes([number]) * 300_000 + bytes(range(256)) * 1000)
            (volume.workspace / f"kept{number}").write_text(str(number))
            commit(volume, number)
        before = stored(hosts[0], owner)
        assert volume.prune([5, 6]).generations == (1, 2, 3, 4)
        assert len(stored(hosts[0], owner)) < len(before)
        assert volume.verify(5).objects > 0
    with hosts[1].seat(owner, 2, 6) as volume:
        assert (volume.workspace / "kept0").read_text() == "0"
        assert volume.read_file("workspace/a", 5)[:1] == bytes([4])
        assert volume.numbers() == {5, 6}
        # What nobody names is removed: a pack of one who never came to the end of it.
        hosts[1].volumes.bucket.put(f"volumes/{owner}/packs/{'0' * 24}.pack", b"cut short")
        volume.prune([6])
        assert not [name for name in stored(hosts[1], owner) if "0" * 24 in name]
        assert volume.verify(6).objects > 0


def test_one_who_lost_the_right_removes_nothing(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as old:
        for number in range(3):
            (old.workspace / "a").write_text(str(number))
            commit(old, number)
        with hosts[1].seat(owner, 2, 3) as new:
            (new.workspace / "a").write_text("of the new one")
            commit(new, 3)
            before = stored(hosts[1], owner)
            with pytest.raises(VolumeTaken):
                old.prune([3])
            # All that the head names is there (what the old one made in vain may be beside it).
            assert set(before) <= set(stored(hosts[1], owner))
            assert new.verify(4).objects > 0


def test_files_that_were_imported_on_one_host_are_taken_up_on_another(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        (volume.workspace / "a").write_text("packed")
        commit(volume, 0)
        with (tmp_path / "archive").open("wb") as to:
            archives.write(volume, 1, to)
        (volume.workspace / "a").unlink()
        commit(volume, 1)
    with hosts[1].volumes.open(owner) as volume, (tmp_path / "archive").open("rb") as source:
        volume.refresh()
        root = archives.read(volume, source)
    with hosts[0].seat(owner, 2, 2) as volume:
        volume.hand_in(volume.restore(0, as_generation=3, root=root))
        assert (volume.workspace / "a").read_text() == "packed"
    with hosts[1].seat(owner, 3, 3) as volume:
        assert (volume.workspace / "a").read_text() == "packed"


def test_going_back_in_time_fetches_the_old_files(hosts: tuple[Host, Host]) -> None:
    owner = uuid4()
    with hosts[0].seat(owner, 1) as volume:
        for number in range(3):
            (volume.workspace / "a").write_text(f"version {number}")
            commit(volume, number)
    with hosts[1].seat(owner, 2, 3) as volume:
        volume.hand_in(volume.restore(1, as_generation=4))
        assert (volume.workspace / "a").read_text() == "version 0"
    with hosts[0].seat(owner, 3, 4) as volume:
        assert (volume.workspace / "a").read_text() == "version 0"
        assert [change.path for change in volume.diff(3, 4)] == ["workspace/a"]


def test_erasing_leaves_nothing_in_the_store(hosts: tuple[Host, Host]) -> None:
    owner, other = uuid4(), uuid4()
    for each in (owner, other):
        with hosts[0].seat(each, 1) as volume:
            (volume.workspace / "a").write_text("1")
            commit(volume, 0)
    assert hosts[1].volumes.erase(owner)
    assert stored(hosts[0], owner) == []
    assert len(stored(hosts[0], other)) == 3


def stored(host: Host, owner: UUID) -> list[str]:
    return sorted(host.volumes.bucket.names(f"volumes/{owner}"))

"""A volume keeps what was published, whatever happens to its process, its disk or its files."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from workspace_store.beneath import UnsafePath
from workspace_store.live import FileTooLarge
from workspace_store.manifests import GenerationMissing, ManifestCorrupt
from workspace_store.markers import VolumeDamaged
from workspace_store.packs import ObjectCorrupt, ObjectMissing, VolumeFull
from workspace_store.volumes import Volume, Volumes

ANN = UUID("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path / "volumes", clock=lambda: 1234.5)


@pytest.fixture
def volume(volumes: Volumes) -> Iterator[Volume]:
    with volumes.open(ANN) as volume:
        yield volume


def files(volume: Volume) -> dict[str, bytes]:
    live = volume.path / "live"
    return {
        str(path.relative_to(live)): path.read_bytes()
        for path in sorted(live.rglob("*"))
        if path.is_file() and path.name != "id"
    }


def test_a_volume_is_made_once(volumes: Volumes) -> None:
    first = volumes.open(ANN)
    again = volumes.open(ANN)
    assert first.marker() == again.marker()
    assert first.marker().generation == 0
    assert first.live_id() == again.live_id()
    assert first.workspace.is_dir()
    assert first.home.is_dir()
    assert volumes.open(uuid4()).marker().volume != first.marker().volume
    assert sorted(path.name for path in (first.path / "live").iterdir()) == ["home", "id", "workspace"]


def test_a_volume_that_is_not_whole_is_refused(volumes: Volumes) -> None:
    volume = volumes.open(ANN)
    marker = volume.path / "marker.json"
    whole = marker.read_text()
    marker.write_text(json.dumps({**json.loads(whole), "format": 99}))
    with pytest.raises(VolumeDamaged, match="newer version"):
        volumes.open(ANN)
    marker.write_text(json.dumps({**json.loads(whole), "principal": str(uuid4())}))
    with pytest.raises(VolumeDamaged, match="another principal"):
        volumes.open(ANN)
    marker.unlink()
    with pytest.raises(VolumeDamaged):
        volumes.open(ANN)


def test_generations_are_listed_compared_and_read(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(b"one")
    (volume.workspace / "gone").write_bytes(b"")
    first = volume.snapshot(0, turn="t1", note="before")
    (volume.workspace / "a").write_bytes(b"two")
    (volume.workspace / "gone").unlink()
    (volume.home / "new").mkdir()
    (volume.home / "new" / "b").write_bytes(b"three")
    second = volume.snapshot(1)
    assert volume.generations() == [first, second]
    assert volume.manifest(1) == first
    assert (first.number, first.parent, first.turn, first.note, first.created_at) == (1, 0, "t1", "before", 1234.5)
    assert (first.files, first.bytes, first.changed) == (2, 3, 2)
    assert (second.files, second.bytes, second.changed) == (2, 8, 3)
    assert volume.marker().generation == 2
    assert volume.marker().digest == second.digest
    assert [(change.path, change.kind) for change in volume.diff(1, 2)] == [
        ("home/new", "added"),
        ("home/new/b", "added"),
        ("workspace/a", "changed"),
        ("workspace/gone", "removed"),
    ]
    assert [entry.path for entry in volume.ls("", 2)] == ["home", "workspace"]
    assert [entry.path for entry in volume.ls("home/new", 2)] == ["home/new/b"]
    assert volume.read_file("workspace/a", 1) == b"one"
    assert volume.read_file(b"workspace/a", 2) == volume.read_file("workspace/a") == b"two"
    with pytest.raises(FileNotFoundError):
        volume.read_file("workspace/gone", 2)
    with pytest.raises(FileTooLarge):
        volume.read_file("workspace/a", 2, max_bytes=2)
    with pytest.raises(FileTooLarge):
        volume.read_file("workspace/a", max_bytes=2)
    for path in ("../marker.json", "/etc/passwd", "home/new"):
        for number in (2, None):
            with pytest.raises(UnsafePath):
                volume.read_file(path, number)
    with pytest.raises(GenerationMissing):
        volume.manifest(3)
    with pytest.raises(GenerationMissing):
        volume.snapshot(7)


def test_restore_makes_a_new_generation_equal_to_the_old(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(b"one")
    before, old = files(volume), volume.live_id()
    first = volume.snapshot(0)
    (volume.workspace / "a").unlink()
    (volume.home / "junk").write_bytes(b"x" * 1000)
    volume.snapshot(1)
    third = volume.restore(1, as_generation=3, note="undo")
    assert files(volume) == before
    assert (third.number, third.parent, third.root, third.restored_from) == (3, 2, first.root, 1)
    assert third.changed == 2
    assert volume.marker().generation == 3
    assert volume.live_id() != old
    assert volume.snapshot(3).root == first.root
    assert volume.restore(2, as_generation=5).number == 5
    assert (volume.home / "junk").stat().st_size == 1000
    with pytest.raises(GenerationMissing):
        volume.restore(9, as_generation=6)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_restored_files_belong_to_the_workspaces_owner(volumes: Volumes) -> None:
    volume = volumes.open(ANN, owner=(4321, 4322))
    (volume.workspace / "a").write_bytes(b"")
    (volume.workspace / "l").symlink_to("a")
    volume.snapshot(0)
    volume.restore(1, as_generation=2)
    for path in (volume.workspace, volume.home, volume.workspace / "a", volume.workspace / "l"):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (4321, 4322)


def test_unpublished_generations_are_dropped_and_overwritten(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(b"one")
    first = volume.snapshot(0)
    (volume.workspace / "a").write_bytes(b"two")
    volume.snapshot(1)
    assert volume.discard_after(1) == [2]
    assert volume.marker().generation == 1
    assert volume.marker().digest == first.digest
    assert volume.read_file("workspace/a") == b"two"
    (volume.workspace / "a").write_bytes(b"three")
    volume.snapshot(1)
    (volume.workspace / "a").write_bytes(b"four")
    volume.snapshot(1)
    assert volume.read_file("workspace/a", 2) == b"four"
    assert volume.discard_after(0) == [1, 2]
    assert volume.marker().generation == 0
    volume.snapshot(0)
    volume.verify(1)


def test_pruning_keeps_all_that_a_kept_generation_names(volume: Volume) -> None:
    randoms = random.Random(1)
    for number in range(12):
        for count in range(5):
            (volume.workspace / f"f{randoms.randrange(20)}").write_bytes(randoms.randbytes(3000 + count * 150_000))
        volume.snapshot(number)
    kept = {number: {e.path: e for e in volume.entries(number)} for number in (3, 7)}
    before = sum(path.stat().st_size for path in (volume.path / "snapshots/packs").iterdir())
    pruned = volume.prune({3, 7})
    after = sum(path.stat().st_size for path in (volume.path / "snapshots/packs").iterdir())
    assert pruned.generations == (1, 2, 4, 5, 6, 8, 9, 10, 11)
    assert pruned.freed_bytes == before - after > 0
    assert [generation.number for generation in volume.generations()] == [3, 7, 12]
    for number in (3, 7, 12):
        volume.verify(number)
    assert {number: {e.path: e for e in volume.entries(number)} for number in (3, 7)} == kept
    assert len(list((volume.path / "snapshots/packs").iterdir())) == 1
    assert volume.snapshot(12).new_bytes < 10_000
    volume.verify(13)


def test_pruning_after_a_discard_does_not_fool_the_next_snapshot(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(b"kept")
    volume.snapshot(0)
    (volume.workspace / "d").mkdir()
    (volume.workspace / "d" / "only in two").write_bytes(os.urandom(1000))
    time.sleep(0.05)
    volume.snapshot(1)
    volume.discard_after(1)
    volume.prune({1})
    assert not (volume.path / "snapshots" / "index").exists()
    assert volume.snapshot(1).files == 2
    volume.verify(2)


def test_a_file_that_holds_the_bytes_of_a_tree_hides_nothing_from_pruning(volume: Volume) -> None:
    (volume.workspace / "z").mkdir()
    (volume.workspace / "z" / "precious").write_bytes(os.urandom(5000))
    volume.snapshot(0)
    tree = next(e for e in volume.ls("workspace", 1) if e.path == "workspace/z").content
    (volume.workspace / "a").write_bytes(volume._store.read(bytes.fromhex(tree)))
    volume.snapshot(1)
    volume.prune({2})
    volume.verify(2)
    assert len(volume.read_file("workspace/z/precious", 2)) == 5000


def test_verify_tells_damage(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(os.urandom(50_000))
    volume.snapshot(0)
    assert volume.verify(1).bytes > 50_000
    (pack,) = (volume.path / "snapshots/packs").iterdir()
    whole = pack.read_bytes()
    pack.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    with pytest.raises(ObjectCorrupt):
        volume.verify(1)
    with pytest.raises(ObjectCorrupt):
        volume.restore(1, as_generation=2)
    assert (volume.workspace / "a").stat().st_size == 50_000
    pack.write_bytes(whole[:-100])
    with pytest.raises(ObjectCorrupt):
        Volume(volume.path, ANN)
    pack.unlink()
    with pytest.raises(ObjectMissing):
        Volume(volume.path, ANN).verify(1)


def test_a_changed_manifest_is_refused(volume: Volume) -> None:
    volume.snapshot(0)
    (manifest,) = (volume.path / "snapshots/generations").iterdir()
    manifest.write_text(manifest.read_text().replace('"note": ""', '"note": "x"'))
    with pytest.raises(ManifestCorrupt):
        volume.manifest(1)


def test_attachments_are_written_beside_what_is_there(volume: Volume) -> None:
    assert volume.put_file("workspace/inbox", "../plan.pdf", b"one") == "workspace/inbox/plan.pdf"
    assert volume.put_file("workspace/inbox", "plan.pdf", b"one") == "workspace/inbox/plan.pdf"
    assert volume.put_file("workspace/inbox", "plan.pdf", b"two") == "workspace/inbox/plan-2.pdf"
    assert volume.put_file("workspace/inbox", "plan", b"") == "workspace/inbox/plan"
    assert (volume.workspace / "inbox" / "plan.pdf").read_bytes() == b"one"
    for directory in ("", "../x", "elsewhere", "/tmp"):
        with pytest.raises(UnsafePath):
            volume.put_file(directory, "x", b"")


def test_a_swap_that_a_crash_interrupted_is_completed(volume: Volume, volumes: Volumes) -> None:
    (volume.workspace / "a").write_bytes(b"one")
    restoring = volume.path / "snapshots" / "restoring"
    restoring.mkdir()
    (volume.path / "live").rename(restoring / "live")
    again = volumes.open(ANN)
    assert files(again) == {"workspace/a": b"one"}
    assert again.snapshot(0).files == 1
    assert not restoring.exists()


def test_a_full_disk_publishes_nothing_and_harms_nothing(volume: Volume) -> None:
    """A limit on file size would be EFBIG: a real small filesystem is full in the real way, where we may mount one."""
    image, mount = volume.path.parent / "image", volume.path.parent / "mount"
    mount.mkdir()
    if os.geteuid() != 0 or not Path("/usr/sbin/mkfs.ext4").exists():
        pytest.skip("needs root and mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        with Volumes(mount).open(ANN) as small:
            (small.workspace / "a").write_bytes(os.urandom(9 << 20))
            first = small.snapshot(0)
            (small.workspace / "b").write_bytes(os.urandom(1 << 20))
            filler = mount / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            with pytest.raises(VolumeFull):
                small.snapshot(1)
            with pytest.raises(VolumeFull):
                small.restore(1, as_generation=2)
            assert [generation.number for generation in small.generations()] == [1]
            assert small.marker().digest == first.digest
            assert files(small)["workspace/a"] == small.read_file("workspace/a", 1)
            filler.unlink()
            assert small.snapshot(1).files == 2
            small.verify(2)
    finally:
        subprocess.run(["umount", mount], check=True)


WRITER = """
import os, random, sys
from pathlib import Path
from uuid import UUID
from workspace_store.volumes import Volumes
volume = Volumes(Path(sys.argv[1])).open(UUID(sys.argv[2]))
number = volume.marker().generation
volume.discard_after(number)
print("ready", flush=True)
while True:
    for count in range(20):
        (volume.workspace / f"f{random.randrange(60)}").write_bytes(os.urandom(random.randrange(400_000)))
    number = volume.snapshot(number).number
    if number % 4 == 0:
        number = volume.restore(number - 1, as_generation=number + 1).number
    if number % 5 == 0:
        volume.prune({number - 1, number})
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_a_valid_volume(tmp_path: Path) -> None:
    randoms = random.Random(7)
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(ANN)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        time.sleep(randoms.uniform(0.01, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with Volumes(tmp_path).open(ANN) as volume:
            marker = volume.marker()
            for generation in volume.generations():
                volume.verify(generation.number)
            if marker.generation:
                assert volume.manifest(marker.generation).digest == marker.digest
            volume.discard_after(marker.generation)
            following = volume.snapshot(marker.generation)
            volume.verify(following.number)
            assert not list((volume.path / "snapshots/packs").glob("*.part"))
    assert marker.generation > 3


@pytest.mark.slow
def test_descriptors_and_memory_stay_bounded(volume: Volume) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(30):
        (volume.workspace / "a").write_bytes(os.urandom(10))
        volume.snapshot(number)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (volume.workspace / "big").open("wb") as file:
        for _ in range(160):
            file.write(os.urandom(1 << 20))
    volume.snapshot(30)
    volume.restore(31, as_generation=32)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 << 10  # KiB
    volume.verify(32)

"""A snapshot holds what was there, and the next one notices all that changed."""

from __future__ import annotations

import mmap
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspace_store import stat_index
from workspace_store.volumes import Volume, Volumes


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volumes(tmp_path).open(uuid4()) as volume:
        yield volume


def look(volume: Volume) -> dict[bytes, tuple[Any, ...]]:
    """Everything below live as a person would compare it, without our own code."""
    seen: dict[bytes, tuple[Any, ...]] = {}
    for top in (os.fsencode(volume.workspace), os.fsencode(volume.home)):
        for folder, folders, names in os.walk(top):
            for path in [folder, *(os.path.join(folder, name) for name in [*folders, *names])]:
                status = os.lstat(path)
                kind = stat.S_IFMT(status.st_mode)
                content: Any = None
                if kind == stat.S_IFLNK:
                    content = os.readlink(path)
                elif kind == stat.S_IFREG:
                    with open(path, "rb") as file:
                        content = file.read()
                mode = 0 if kind == stat.S_IFLNK else stat.S_IMODE(status.st_mode) & 0o1777
                seen[os.path.relpath(path, volume.path.as_posix().encode())] = (kind, mode, status.st_mtime_ns, content)
    return seen


def settle() -> None:
    """Long enough that what was written before is not within the clock's granularity."""
    time.sleep(0.03)


def test_modes_times_links_and_attributes_come_back(volume: Volume) -> None:
    file = volume.workspace / "run.sh"
    file.write_bytes(b"#!/bin/sh\n")
    file.chmod(0o4755)
    os.setxattr(file, "user.note", b"\x00\xff")
    os.utime(file, ns=(0, -1_000_000_001))
    (volume.workspace / "dangling").symlink_to("/nowhere/at all")
    (volume.home / "private").mkdir(mode=0o700)
    (volume.home / "sticky").mkdir()
    (volume.home / "sticky").chmod(0o3777)
    os.setxattr(volume.home / "private", "user.origin", b"here")
    os.utime(volume.home / "private", ns=(0, 5))
    (volume.workspace / "readonly").mkdir()
    (volume.workspace / "readonly" / "x").write_bytes(b"")
    (volume.workspace / "readonly").chmod(0o555)
    before = look(volume)
    volume.snapshot(0)
    file.unlink()
    volume.restore(1, as_generation=2)
    assert look(volume) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert os.getxattr(file, "user.note") == b"\x00\xff"
    assert os.getxattr(volume.home / "private", "user.origin") == b"here"


def test_what_is_no_file_is_listed_and_left_out(volume: Volume) -> None:
    os.mkfifo(volume.workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.getcwd()
        os.chdir(volume.workspace)
        listener.bind("socket")
        os.chdir(directory)
    (volume.workspace / "file").write_bytes(b"")
    for number in range(2):
        generation = volume.snapshot(number)
        assert {(item.path, item.why) for item in generation.skipped} == {
            ("workspace/fifo", "fifo"),
            ("workspace/socket", "socket"),
        }
        assert generation.skipped_count == 2
        assert generation.files == 1


def test_hard_links_are_kept_as_files_of_equal_content(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(os.urandom(300_000))
    os.link(volume.workspace / "a", volume.workspace / "b")
    before = look(volume)
    assert volume.snapshot(0).new_bytes < 310_000
    volume.restore(1, as_generation=2)
    assert look(volume) == before


def test_an_unchanged_tree_is_not_read_again(volume: Volume) -> None:
    for number in range(50):
        (volume.workspace / f"{number}").write_bytes(os.urandom(100))
    settle()
    first = volume.snapshot(0)
    second = volume.snapshot(1)
    assert second.root == first.root
    assert (second.changed, second.new_bytes, second.files, second.bytes) == (0, 0, 50, 5000)


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.005, 0.03])
def test_a_change_right_after_a_snapshot_is_noticed_though_size_and_time_are_equal(
    volume: Volume, pause: float
) -> None:
    path = volume.workspace / "racy"
    path.write_bytes(b"a")
    os.utime(path, ns=(1, 1))
    number = volume.snapshot(0).number
    for round_ in range(30):
        content = b"%d" % (round_ % 10)
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(1, 1))
        number = volume.snapshot(number).number
        assert volume.read_file("workspace/racy", number) == content
        time.sleep(pause)


@pytest.mark.slow
def test_a_change_within_the_same_second_is_noticed_where_times_are_whole_seconds(tmp_path: Path) -> None:
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    if os.geteuid() != 0 or not Path("/usr/sbin/mkfs.ext4").exists():
        pytest.skip("needs root and mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-I", "128", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        with Volumes(mount).open(uuid4()) as coarse:
            path = coarse.workspace / "racy"
            path.write_bytes(b"a")
            number = coarse.snapshot(0).number
            assert path.stat().st_mtime_ns % 1_000_000_000 == 0
            for round_ in range(30):
                content = b"%d" % (round_ % 10)
                path.write_bytes(content)
                number = coarse.snapshot(number).number
                assert coarse.read_file("workspace/racy", number) == content
                time.sleep(0.05)
    finally:
        subprocess.run(["umount", mount], check=True)


def test_what_could_have_changed_again_matches_nothing() -> None:
    rows = array("q", [1, 2, 3, 100, 5, 1, 2, 3, 200, 5])
    assert stat_index.smudged(rows, 200) == array("q", [1, 2, 3, 100, 5, 1, 2, 3, 0, 5]).tobytes()
    assert stat_index.smudged(rows, 201) == rows.tobytes()
    assert stat_index.racy_from(5_000_000_000) == 3_000_000_000
    assert stat_index.racy_from(5_000_000_001) == 5_000_000_001 - stat_index.RACY_NS


def test_a_damaged_index_is_ignored(volume: Volume) -> None:
    (volume.workspace / "a").write_bytes(b"one")
    settle()
    root = volume.snapshot(0).root
    index = volume.path / "snapshots" / "index"
    whole = index.read_bytes()
    for damaged in (b"", b"junk", whole[:-1], whole[:60] + b"x" + whole[61:]):
        index.write_bytes(damaged)
        assert volume.snapshot(0).root == root
    assert index.read_bytes()[:8] == whole[:8]


def test_a_store_through_a_mapping_is_noticed(volume: Volume) -> None:
    path = volume.workspace / "mapped"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapping:
        mapping[0] = 1
        for number in range(5):
            settle()
            volume.snapshot(number)
            settle()
            mapping[0] = number + 10
        volume.snapshot(5)
        assert volume.read_file("workspace/mapped", 6)[0] == 14


def test_a_file_replaced_by_one_of_the_same_size_and_times_is_noticed(volume: Volume) -> None:
    path = volume.workspace / "a"
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1))
    settle()
    volume.snapshot(0)
    other = volume.workspace / "b"
    other.write_bytes(b"new")
    os.utime(other, ns=(1, 1))
    other.rename(path)
    assert volume.snapshot(1).changed == 1
    assert volume.read_file("workspace/a", 2) == b"new"


def test_directories_that_change_places_are_told_apart(volume: Volume) -> None:
    for name in ("a", "b"):
        (volume.workspace / name).mkdir()
        (volume.workspace / name / "x").write_bytes(name.encode())
        os.utime(volume.workspace / name, ns=(1, 1))
    settle()
    volume.snapshot(0)
    (volume.workspace / "a").rename(volume.workspace / "c")
    (volume.workspace / "b").rename(volume.workspace / "a")
    (volume.workspace / "c").rename(volume.workspace / "b")
    volume.snapshot(1)
    assert volume.read_file("workspace/a/x", 2) == b"b"
    assert volume.read_file("workspace/b/x", 2) == b"a"


def test_an_edit_in_a_big_file_stores_little(volume: Volume) -> None:
    path = volume.workspace / "big"
    data = os.urandom(20 << 20)
    path.write_bytes(data)
    volume.snapshot(0)
    path.write_bytes(data[: 9 << 20] + b"inserted" + data[9 << 20 :])
    generation = volume.snapshot(1)
    assert generation.new_bytes < 4 << 20
    volume.restore(2, as_generation=3)
    assert path.read_bytes() == data[: 9 << 20] + b"inserted" + data[9 << 20 :]


def test_chunks_do_not_depend_on_how_a_file_is_read(volume: Volume, tmp_path: Path) -> None:
    import fastcdc.fastcdc_cy as cdc

    from workspace_store import snapshots

    data = os.urandom(30 << 20)
    (volume.workspace / "big").write_bytes(data)
    volume.snapshot(0)
    chunks = [len(part) for part in snapshots.trees.content_of(volume._store.read, volume.ls("workspace/big", 1)[0])]
    assert chunks == [chunk.length for chunk in cdc.fastcdc_cy(data, *snapshots._CHUNK)]


def test_a_file_that_never_stands_still_marks_the_generation(volume: Volume) -> None:
    path = volume.workspace / "log"
    path.write_bytes(bytes(30 << 20))
    writer = subprocess.Popen(
        [sys.executable, "-c", "import sys\nf=open(sys.argv[1],'ab',0)\nwhile True: f.write(b'x'*100)", str(path)]
    )
    try:
        time.sleep(0.3)
        generation = volume.snapshot(0)
    finally:
        writer.kill()
        writer.wait()
    assert generation.moving
    volume.verify(1)
    assert volume.snapshot(1, moving=False).moving is False
    assert volume.snapshot(2, moving=True).moving is True
    assert volume.read_file("workspace/log", 2, max_bytes=1 << 30) == path.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="drops to an ordinary user itself")
def test_an_ordinary_user_keeps_their_unreadable_files() -> None:
    program = """
import os, sys
from pathlib import Path
from uuid import uuid4
from workspace_store.volumes import Volumes
os.setgroups([]); os.setgid(65534); os.setuid(65534)
volume = Volumes(Path(sys.argv[1])).open(uuid4())
(volume.workspace / "secret").write_bytes(b"mine")
(volume.workspace / "secret").chmod(0)
modes = {"locked": 0, "readonly": 0o555, "unsearchable": 0o600}
for name, mode in modes.items():
    (volume.workspace / name).mkdir()
    (volume.workspace / name / "x").write_bytes(b"")
    (volume.workspace / name).chmod(mode)
generation = volume.snapshot(0)
assert generation.skipped == (), generation
assert generation.files == 4, generation
assert not generation.moving
for name, mode in modes.items():
    assert os.stat(volume.workspace / name).st_mode & 0o777 == mode
assert volume.snapshot(1).root == generation.root
assert os.stat(volume.workspace / "secret").st_mode & 0o777 == 0
assert volume.restore(1, as_generation=3).root == generation.root
for name, mode in modes.items():
    assert os.stat(volume.workspace / name).st_mode & 0o777 == mode
assert volume.read_file("workspace/secret", 3) == b"mine"
volume.restore(1, as_generation=4)
"""
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o777)
        subprocess.run(
            [sys.executable, "-c", program, root],
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )


NAMES = st.binary(min_size=1, max_size=12).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["file", "file", "big", "holes", "directory", "link", "remove", "chmod", "rename"]),
        st.integers(0, 1000),
        NAMES,
        st.binary(max_size=40),
    ),
    max_size=25,
)


def act(volume: Volume, actions: list[tuple[str, int, bytes, bytes]]) -> None:
    for verb, pick, name, data in actions:
        every = sorted(
            os.path.join(folder, item)
            for top in (volume.workspace, volume.home)
            for folder, folders, names in os.walk(os.fsencode(top))
            for item in [*folders, *names]
        )
        folders = [path for path in every if os.path.isdir(path) and not os.path.islink(path)]
        folders += [os.fsencode(volume.workspace), os.fsencode(volume.home)]
        path = os.path.join(folders[pick % len(folders)], name)
        chosen = every[pick % len(every)] if every else path
        if verb in ("file", "big", "holes") and (not os.path.lexists(path) or os.path.isfile(path)):
            if os.path.islink(path):
                continue
            with open(path, "wb") as file:
                file.write(data * 20_000 if verb == "big" else data)
                if verb == "holes":
                    file.seek(600_000)
                    file.write(data)
                    file.truncate(900_000)
        elif verb == "directory" and not os.path.lexists(path):
            os.mkdir(path)
        elif verb == "link" and not os.path.lexists(path):
            os.symlink(data.replace(b"\0", b"") or b"x", path)
        elif verb == "remove" and os.path.lexists(chosen):
            if os.path.isdir(chosen) and not os.path.islink(chosen):
                if not os.listdir(chosen):
                    os.rmdir(chosen)
            else:
                os.unlink(chosen)
        elif verb == "chmod" and os.path.lexists(chosen) and not os.path.islink(chosen):
            os.chmod(chosen, 0o700 | pick & 0o77)
        elif verb == "rename" and os.path.lexists(chosen) and not os.path.lexists(path):
            with suppress(OSError):  # a directory into itself
                os.rename(chosen, path)


@pytest.mark.slow
@settings(max_examples=40)
@given(ACTIONS, ACTIONS, ACTIONS)
def test_any_tree_comes_back_from_any_later_one(
    first: list[tuple[str, int, bytes, bytes]],
    second: list[tuple[str, int, bytes, bytes]],
    third: list[tuple[str, int, bytes, bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as root, Volumes(Path(root)).open(uuid4()) as volume:
        seen = []
        for number, actions in enumerate((first, second, third)):
            act(volume, actions)
            seen.append(look(volume))
            volume.snapshot(number)
        for number, expected in enumerate(seen, 1):
            made = volume.restore(number, as_generation=number + 3)
            assert look(volume) == expected
            assert made.root == volume.manifest(number).root
        volume.prune({1})
        volume.restore(1, as_generation=7)
        assert look(volume) == seen[0]

"""Trees made to hang the host, to fill its memory or to break its assumptions about names and depth."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from workspace_store import beneath
from workspace_store.volumes import Volume, Volumes


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volumes(tmp_path).open(uuid4()) as volume:
        yield volume
    # Such trees are too deep for those who tidy up after tests.
    fd = os.open(volume.path.parent, os.O_RDONLY)
    beneath.remove_tree(fd, volume.path.name)
    os.close(fd)


def test_fifos_do_not_hang(volume: Volume) -> None:
    for name in ("a", "b", "inbox"):
        os.mkfifo(volume.workspace / name)
    started = time.monotonic()
    assert volume.snapshot(0).skipped_count == 3
    for path in ("workspace/a", "workspace/inbox/x"):
        with pytest.raises(Exception, match="link"):
            volume.read_file(f"{path}/x")
    volume.restore(1, as_generation=2)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("when", [1 << 33, 9_300_000_000, 14_000_000_000, -2_000_000_000, 10**15, -(10**15)])
def test_a_time_that_no_clock_will_show(volume: Volume, when: int) -> None:
    """As ``touch -d 2300-01-01`` makes it: it does not keep a tree from being kept, nor from coming back."""
    path = volume.workspace / "far"
    path.write_text("away")
    (volume.workspace / "folder").mkdir()
    for each in (path, volume.workspace / "folder"):
        os.utime(each, (when, when))
    dated = path.stat().st_mtime
    assert volume.snapshot(0).number == 1
    again = volume.snapshot(1)
    assert not volume.diff(1, 2)
    path.unlink()
    volume.restore(1, as_generation=again.number + 1)
    assert path.read_text() == "away"
    assert abs(path.stat().st_mtime - dated) < 1 or abs(dated) > 9_223_372_036


def test_a_huge_sparse_file_costs_what_it_holds(volume: Volume) -> None:
    path = volume.workspace / "huge"
    with path.open("wb") as file:
        file.write(b"start")
        file.truncate(8 << 40)
        file.seek(4 << 40)
        file.write(b"middle")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    generation = volume.snapshot(0)
    assert generation.bytes == 8 << 40
    assert generation.new_bytes < 10_000
    volume.restore(1, as_generation=2)
    assert time.process_time() - started < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert path.stat().st_size == 8 << 40
    assert path.stat().st_blocks < 100
    with path.open("rb") as file:
        assert file.read(6) == b"start\0"
        file.seek(4 << 40)
        assert file.read(7) == b"middle\0"
    with pytest.raises(Exception, match="more than"):
        volume.read_file("workspace/huge", 2)


@pytest.mark.slow
def test_five_thousand_levels(volume: Volume) -> None:
    fd = os.open(volume.workspace, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT, dir_fd=fd))
    os.close(fd)
    generation = volume.snapshot(0)
    assert generation.files == 1
    assert sum(1 for _ in volume.entries(1)) == 5003
    assert volume.snapshot(1).root == generation.root
    assert volume.restore(1, as_generation=3).root == generation.root
    assert volume.snapshot(3).root == generation.root
    assert volume.diff(1, 4) == []
    assert len(volume.diff(0, 1)) == 5003
    path = "/".join(["workspace", *["deeper"] * 5000, "bottom"])
    assert volume.read_file(path, 4) == volume.read_file(path) == b""
    volume.prune({1})
    volume.verify(1)


def test_hostile_names(volume: Volume) -> None:
    names = [
        b"\xff\xfe", b"new\nline", b"\\", b'"', b"'", b"-rf", b"...", b" ", b"\x1b[31m", b"\xed\xa0\x80",
        b"a" * 255, b"[1,2]", b'["d","x"]', "é".encode(), "e\u0301".encode(), b"CON", b"id", b"\x7f", b"*",
    ]  # fmt: skip
    for name in names:
        with open(os.path.join(os.fsencode(volume.workspace), name), "wb") as file:
            file.write(name)
        os.makedirs(os.path.join(os.fsencode(volume.home), name, name))
        os.symlink(name, os.path.join(os.fsencode(volume.home), name, b"link"))
    generation = volume.snapshot(0)
    assert generation.files == len(names)
    for name in names:
        assert volume.read_file(b"workspace/" + name, 1) == name
        assert os.fsencode(volume.ls(b"home/" + name + b"/link", 1)[0].content) == name
    volume.restore(1, as_generation=2)
    assert sorted(os.listdir(os.fsencode(volume.workspace))) == sorted(names)
    assert volume.snapshot(2).root == generation.root


def test_a_lease_on_a_file_does_not_hold_the_host_up(volume: Volume) -> None:
    path = volume.workspace / "leased"
    path.write_bytes(b"mine")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl,os,signal,sys,time\n"
            "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
            "fd=os.open(sys.argv[1],os.O_RDWR)\n"
            f"fcntl.fcntl(fd,{fcntl.F_SETLEASE},fcntl.F_WRLCK)\nprint('held',flush=True)\ntime.sleep(60)",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    try:
        assert holder.stdout.readline() == b"held\n"
        started = time.monotonic()
        generation = volume.snapshot(0)
        assert time.monotonic() - started < 20  # a lease is waited for 45 s
        assert [item.path for item in generation.skipped] == ["workspace/leased"]
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert volume.snapshot(1).files == 1
    assert volume.read_file("workspace/leased", 2) == b"mine"


def test_thousands_of_sockets_do_not_swell_the_manifest(volume: Volume) -> None:
    for number in range(3000):
        os.mkfifo(volume.workspace / f"{number}")
    generation = volume.snapshot(0)
    assert generation.skipped_count == 3000
    assert len(generation.skipped) == 1000

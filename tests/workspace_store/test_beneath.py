"""Host code in a directory that someone hostile writes to stays inside it and never waits."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace_store import beneath
from workspace_store.beneath import NameTaken, UnsafePath


@pytest.fixture(params=["openat2", "name by name"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    if request.param == "name by name":
        monkeypatch.setattr(beneath._Kernel, "openat2", False)
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    fd = os.open(tmp_path / "tree", os.O_RDONLY)
    yield fd
    for name in os.listdir(fd):  # too deep, some of them, for those who tidy up after tests
        beneath.remove_tree(fd, name)
    os.close(fd)


@pytest.fixture
def tree(root: int, tmp_path: Path) -> Path:
    return tmp_path / "tree"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_regular_file_is_read(root: int, tree: Path) -> None:
    (tree / "a").mkdir()
    (tree / "a" / "b").write_bytes(b"hello")
    assert beneath.read_regular(root, "a/b", 100) == b"hello"
    assert beneath.read_regular(root, b"a/./b", 2) == b"he"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "a\0b", "..", ""])
def test_a_path_out_of_the_tree_is_refused(root: int, path: str) -> None:
    with pytest.raises(UnsafePath):
        beneath.open_regular(root, path)


def test_links_are_refused_wherever_they_stand(root: int, tree: Path, tmp_path: Path) -> None:
    (tree / "real").mkdir()
    (tree / "real" / "file").write_bytes(b"")
    (tree / "last").symlink_to(tmp_path / "secret")
    (tree / "middle").symlink_to("real")
    (tree / "magic").symlink_to("/proc/self/root")
    before = descriptors()
    for path in ("last", "middle/file", "magic/etc/passwd", "real/file/below"):
        with pytest.raises(UnsafePath):
            beneath.open_regular(root, path)
    for path in ("middle", "magic", "last"):
        with pytest.raises(UnsafePath):
            beneath.open_directory(root, path)
        with pytest.raises(UnsafePath):
            beneath.make_directories(root, f"{path}/new")
    assert descriptors() <= before


def test_only_regular_files_are_opened_and_a_fifo_does_not_wait(root: int, tree: Path) -> None:
    import socket

    os.mkfifo(tree / "fifo")
    (tree / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
        started = time.monotonic()
        for name in ("fifo", "folder", "socket"):
            with pytest.raises(UnsafePath):
                beneath.open_regular(root, name)
        assert time.monotonic() - started < 10
    with pytest.raises(FileNotFoundError):
        beneath.open_regular(root, "nothing")


def test_a_long_path_is_walked(root: int, tree: Path) -> None:
    path = "/".join(["directory" * 10] * 60)  # more than PATH_MAX
    fd = beneath.make_directories(root, path)
    beneath.write_file(fd, "end", b"deep")
    os.close(fd)
    assert beneath.read_regular(root, f"{path}/end", 10) == b"deep"
    beneath.remove_tree(root, path.split("/")[0])
    assert os.listdir(root) == []


def test_a_file_is_replaced_as_a_whole_and_given_away(root: int, tree: Path) -> None:
    owner = (1234, 1235) if os.geteuid() == 0 else None
    beneath.write_file(root, "name", [b"one", b"two"], mode=0o640, owner=owner)
    status = os.stat(tree / "name")
    assert (tree / "name").read_bytes() == b"onetwo"
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert owner is None or (status.st_uid, status.st_gid) == owner
    beneath.write_file(root, "name", b"three")
    assert (tree / "name").read_bytes() == b"three"
    with pytest.raises(NameTaken):
        beneath.write_file(root, "name", b"four", replace=False)
    assert (tree / "name").read_bytes() == b"three"
    assert os.listdir(root) == ["name"]


def test_a_failing_source_leaves_nothing(root: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError):
        beneath.write_file(root, "name", pieces())
    assert os.listdir(root) == []


def test_what_has_the_name_is_not_written_through(root: int, tree: Path, tmp_path: Path) -> None:
    (tree / "link").symlink_to(tmp_path / "secret")
    os.link(tmp_path / "secret", tree / "hard")
    os.mkfifo(tree / "fifo")
    for name in ("link", "hard", "fifo"):
        beneath.write_file(root, name, b"mine")
        assert (tree / name).read_bytes() == b"mine"
        assert not (tree / name).is_symlink()
    assert (tmp_path / "secret").read_bytes() == b"secret"
    for name in ("../x", "a/b", "..", "", "."):
        with pytest.raises(UnsafePath):
            beneath.write_file(root, name, b"")
    (tree / "folder").mkdir()
    with pytest.raises(UnsafePath):
        beneath.write_file(root, "folder", b"")


def test_walk_meets_everything_once_and_follows_nothing(root: int, tree: Path) -> None:
    (tree / "b" / "c").mkdir(parents=True)
    (tree / "b" / "file").write_bytes(b"x")
    (tree / "a").symlink_to("b")
    os.close(os.open(os.fsencode(tree) + b"/b/\xff\xfe", os.O_CREAT))
    paths = [found.path for found in beneath.walk(root)]
    assert paths == ["a", "b", "b/c", "b/file", os.fsdecode(b"b/\xff\xfe")]


def deepen(root: int, levels: int) -> None:
    fd = os.dup(root)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


@pytest.mark.slow
def test_five_thousand_levels_are_walked_and_removed(root: int) -> None:
    deepen(root, 5000)
    before = descriptors()
    assert sum(1 for _ in beneath.walk(root)) == 5000
    beneath.remove_tree(root, "d")
    assert os.listdir(root) == []
    assert descriptors() <= before


def test_removing_follows_no_link(root: int, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_bytes(b"")
    (tree / "gone").mkdir()
    (tree / "gone" / "link").symlink_to(tmp_path / "outside")
    (tree / "locked").mkdir(mode=0o700)
    (tree / "locked" / "file").write_bytes(b"")
    (tree / "locked").chmod(0o500)
    (tree / "top").symlink_to(tmp_path / "outside")
    for name in ("gone", "top", "locked", "missing"):
        beneath.remove_tree(root, name)
    assert os.listdir(root) == []
    assert (tmp_path / "outside" / "kept").exists()


def test_a_directory_moved_away_deep_below_is_noticed(root: int, tree: Path) -> None:
    deepen(root, 20)
    with beneath.Descent(root) as descent:
        for _ in range(20):
            descent.down("d")
        (tree / "elsewhere").mkdir()
        os.rename("/".join([str(tree), *["d"] * 20]), tree / "elsewhere" / "moved")
        with pytest.raises(beneath.TreeMoved):
            descent.up()

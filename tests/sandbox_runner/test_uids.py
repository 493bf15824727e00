"""Handing a volume over touches nothing outside it, whatever was planted in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent.sandbox import SandboxUnavailable
from sandbox_runner.uids import HostUids, resolve, strip_special_bits, take_ownership

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change owners")
UID = HostUids().uid(7)


def test_each_principal_has_a_uid_of_its_own() -> None:
    uids = HostUids(base=300_000, count=10)
    assert [uids.uid(number) for number in (0, 9)] == [300_000, 300_009]
    for number in (-1, 10):
        with pytest.raises(SandboxUnavailable):
            uids.uid(number)


def test_whom_a_sandbox_may_be() -> None:
    assert resolve(200_001, caller=0) == 200_001
    assert resolve(None, caller=1000) is None
    assert resolve(1000, caller=1000) is None
    for requested, caller in [(0, 0), (None, 0), (-1, 0), (0, 1000), (1001, 1000)]:
        with pytest.raises(SandboxUnavailable):
            resolve(requested, caller)


@as_root
def test_a_tree_is_handed_over_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").write_text("x")
    os.mkfifo(tree / "fifo")
    assert take_ownership(tree, UID) == 5
    assert {path.lstat().st_uid for path in [tree, *tree.rglob("*")]} == {UID}
    assert {path.lstat().st_gid for path in [tree, *tree.rglob("*")]} == {UID}
    os.chown(tree / "a", 0, 0)
    assert take_ownership(tree, UID) == 0  # the top is right: nothing is walked
    assert take_ownership(tree, UID + 1) == 5


@as_root
def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    tree = tmp_path / "tree"
    tree.mkdir()
    os.symlink(outside, tree / "folder")
    os.symlink(outside / "file", tree / "file")
    os.symlink("/etc/passwd", tree / "passwd")
    take_ownership(tree, UID)
    assert (tree / "file").lstat().st_uid == UID
    for path in (outside, outside / "file", Path("/etc/passwd")):
        assert path.stat().st_uid == 0
    with pytest.raises(OSError):
        take_ownership(tree / "folder", UID + 1)
    assert strip_special_bits(tree) == 0


@as_root
def test_another_name_of_somebody_s_file_is_left_alone(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "precious").write_text("x")
    os.chown(tmp_path / "precious", 4321, 4321)
    os.link(tmp_path / "precious", tree / "innocent")
    take_ownership(tree, UID)
    assert (tmp_path / "precious").stat().st_uid == 4321


@as_root
def test_setuid_bits_go_with_the_old_owner(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("tool", "of_right_owner"):
        (tree / name).write_text("x")
    os.chown(tree / "of_right_owner", UID, UID)
    for name in ("tool", "of_right_owner"):
        (tree / name).chmod(0o6755)
    (tree / "folder").mkdir()
    (tree / "folder").chmod(0o2755)
    take_ownership(tree, UID)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tree.iterdir()} == {0o755}


def test_depth_costs_no_descriptors(tmp_path: Path) -> None:
    """A sandbox can nest folders deeper than any process may have files open."""
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        Path("tool").write_text("x")
        os.chmod("tool", 0o4755)
        assert strip_special_bits(tmp_path) == 1
        assert not os.stat("tool").st_mode & stat.S_ISUID
        os.unlink("tool")
        for _ in range(1200):
            os.chdir("..")
            os.rmdir("d")
    finally:
        os.chdir(before)


def test_a_folder_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    (tmp_path / "tool").write_text("x")
    (tmp_path / "tool").chmod(0o4755)
    assert strip_special_bits(tmp_path) == 1
    (tmp_path / "closed").chmod(0o755)

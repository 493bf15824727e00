"""Links that a sandbox leaves must not lead host code to what lies outside its volume."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from workspace_store.beneath import UnsafePath
from workspace_store.volumes import Volume, Volumes


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volumes(tmp_path / "volumes").open(uuid4()) as volume:
        yield volume


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "secret").write_bytes(b"the host's secret")
    return folder / "secret"


def stored(volume: Volume) -> bytes:
    """All that the last generation holds."""
    number = volume.marker().generation
    return b"".join(volume.read_file(e.path, number) for e in volume.entries(number) if e.kind == "f")


def test_a_link_to_a_file_is_kept_as_a_link(volume: Volume, secret: Path) -> None:
    (volume.workspace / "passwd").symlink_to("/etc/passwd")
    (volume.home / "secret").symlink_to(secret)
    generation = volume.snapshot(0)
    assert generation.files == 0
    assert b"secret" not in stored(volume)
    assert volume.ls("workspace/passwd", 1)[0].content == "/etc/passwd"
    for number in (1, None):
        for path in ("workspace/passwd", "home/secret"):
            with pytest.raises(UnsafePath):
                volume.read_file(path, number)


def test_a_link_to_a_directory_is_not_entered(volume: Volume, secret: Path) -> None:
    (volume.workspace / "etc").symlink_to("/etc")
    (volume.workspace / "host").symlink_to(secret.parent)
    volume.snapshot(0)
    assert [e.path for e in volume.entries(1)] == ["home", "workspace", "workspace/etc", "workspace/host"]
    for path in ("workspace/host/secret", "workspace/etc/passwd", "workspace/host/../host/secret"):
        for number in (1, None):
            with pytest.raises(UnsafePath):
                volume.read_file(path, number)
        with pytest.raises(UnsafePath):
            volume.ls(path, 1)


def test_restoring_writes_through_no_link(volume: Volume, secret: Path) -> None:
    (volume.workspace / "host").mkdir()
    (volume.workspace / "host" / "secret").write_bytes(b"mine")
    (volume.workspace / "file").write_bytes(b"mine")
    volume.snapshot(0)
    (volume.workspace / "host" / "secret").unlink()
    (volume.workspace / "host").rmdir()
    (volume.workspace / "host").symlink_to(secret.parent)
    (volume.workspace / "file").unlink()
    (volume.workspace / "file").symlink_to(secret)
    volume.snapshot(1)
    volume.restore(1, as_generation=3)
    assert secret.read_bytes() == b"the host's secret"
    assert (volume.workspace / "host" / "secret").read_bytes() == b"mine"
    volume.restore(2, as_generation=4)
    assert secret.read_bytes() == b"the host's secret"
    assert os.listdir(secret.parent) == ["secret"]


def test_an_attachment_goes_through_no_link(volume: Volume, secret: Path) -> None:
    (volume.workspace / "inbox").symlink_to(secret.parent)
    with pytest.raises(UnsafePath):
        volume.put_file("workspace/inbox", "secret", b"attached")
    with pytest.raises(UnsafePath):
        volume.put_file("workspace/inbox/below", "x", b"attached")
    (volume.workspace / "inbox").unlink()
    (volume.workspace / "inbox").mkdir()
    (volume.workspace / "inbox" / "secret").symlink_to(secret)
    assert volume.put_file("workspace/inbox", "secret", b"attached") == "workspace/inbox/secret-2"
    assert secret.read_bytes() == b"the host's secret"
    assert os.listdir(secret.parent) == ["secret"]


def test_an_attachment_is_not_written_into_a_hard_link(volume: Volume, secret: Path) -> None:
    (volume.workspace / "inbox").mkdir()
    os.link(secret, volume.workspace / "inbox" / "note.txt")
    assert volume.put_file("workspace/inbox", "note.txt", b"attached") == "workspace/inbox/note-2.txt"
    assert secret.read_bytes() == b"the host's secret"


def test_restoring_replaces_a_hard_link_and_leaves_its_file(volume: Volume, secret: Path) -> None:
    (volume.workspace / "file").write_bytes(b"mine")
    volume.snapshot(0)
    (volume.workspace / "file").unlink()
    os.link(secret, volume.workspace / "file")
    volume.restore(1, as_generation=2)
    assert (volume.workspace / "file").read_bytes() == b"mine"
    assert secret.read_bytes() == b"the host's secret"


@pytest.mark.parametrize(
    "path",
    ["../marker.json", "..", "workspace/../../marker.json", "/etc/passwd", "id", "snapshots/lock", "home\0/x", b"../x"],
)
def test_no_path_leads_out(volume: Volume, path: str | bytes) -> None:
    volume.snapshot(0)
    for call in (
        lambda: volume.ls(path, 1),
        lambda: volume.read_file(path, 1),
        lambda: volume.read_file(path),
        lambda: volume.put_file(path, "name", b""),
    ):
        with pytest.raises((UnsafePath, FileNotFoundError)):
            call()


def test_setuid_is_not_restored(volume: Volume) -> None:
    (volume.workspace / "tool").write_bytes(b"")
    (volume.workspace / "tool").chmod(0o6755)
    (volume.workspace / "folder").mkdir()
    (volume.workspace / "folder").chmod(0o2777)
    volume.snapshot(0)
    volume.restore(1, as_generation=2)
    assert (volume.workspace / "tool").stat().st_mode & 0o7777 == 0o755
    assert (volume.workspace / "folder").stat().st_mode & 0o7777 == 0o777

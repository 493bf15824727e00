"""Export and import: exact both ways, and nothing hostile gets in."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
import zstandard

from workspace_store import archives
from workspace_store.archives import ArchiveRefused
from workspace_store.volumes import Volume, Volumes


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volumes(tmp_path / "volumes").open(uuid4())


def fill(volume: Volume) -> None:
    workspace = volume.workspace
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "file").write_bytes(os.urandom(700_000))
    (workspace / "empty").touch()
    (workspace / "folder").mkdir(mode=0o700)
    script = workspace / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o4755)
    os.utime(script, ns=(1, 1_234_567_890_123_456_789))
    (workspace / "link").symlink_to("/etc/passwd")
    os.symlink(b"\xff", bytes(workspace / "odd"))
    (workspace / "n\nl -x é").write_text("odd name")
    Path(os.fsdecode(bytes(workspace) + b"/\xff\xfe")).write_text("no text")
    (workspace / ("long" * 60)).write_text("long name")
    with (workspace / "sparse").open("wb") as sparse:
        sparse.seek(5 << 30)
        sparse.write(b"x" * 300_000)
        sparse.truncate(6 << 30)
    os.link(workspace / "empty", workspace / "hard")
    os.mkfifo(workspace / "fifo")
    (volume.home / ".profile").write_text("export A=1\n")


def test_a_round_trip_is_exact_and_names_every_bit(volume: Volume, tmp_path: Path) -> None:
    fill(volume)
    made = volume.snapshot(0)
    buffer = io.BytesIO()
    archives.write(volume, 1, buffer)
    assert len(buffer.getvalue()) < 3 << 20, "holes are not written out"
    other = Volumes(tmp_path / "others").open(uuid4())
    other.snapshot(0)
    buffer.seek(0)
    root = archives.read(other, buffer)
    back = other.restore(0, as_generation=2, root=root)
    assert (back.files, back.bytes) == (made.files, made.bytes)

    def seen(of: Volume, number: int) -> list[object]:
        entries = [entry for entry in of.entries(number) if entry.path not in ("home", "workspace")]
        return [(e.path, e.kind, e.mode, e.mtime_ns if e.kind != "d" else 0, e.size) for e in entries]

    assert seen(other, 2) == seen(volume, 1)
    assert [entry.mtime_ns for entry in other.entries(2)] == [entry.mtime_ns for entry in volume.entries(1)]
    content = (other.workspace / "a" / "b" / "file").read_bytes()
    assert content == (volume.workspace / "a" / "b" / "file").read_bytes()
    assert (other.workspace / "sparse").stat().st_blocks < 2000
    assert (other.workspace / "script").stat().st_mode & 0o7777 == 0o755


def archive(*members: tuple[tarfile.TarInfo, bytes], manifest: bytes | None = None) -> io.BytesIO:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as made:
        data = json.dumps({"format": 1}).encode() if manifest is None else manifest
        first = tarfile.TarInfo("manifest.json")
        first.size = len(data)
        made.addfile(first, io.BytesIO(data))
        for name in ("workspace", "home"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o700
            made.addfile(folder)
        for member, content in members:
            made.addfile(member, io.BytesIO(content))
    return io.BytesIO(zstandard.compress(plain.getvalue()))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **headers: str) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.pax_headers = kind, link, headers
    content = b"content" if kind == tarfile.REGTYPE else b""
    made.size = len(content)
    return made, content


HOSTILE: dict[str, Callable[[], io.BytesIO]] = {
    "a way out": lambda: archive(member("workspace/../../escaped")),
    "an absolute name": lambda: archive(member("/etc/cron.d/evil")),
    "beside the workspace": lambda: archive(member("snapshots/packs/evil")),
    "a marker": lambda: archive(member("marker.json")),
    "through a link": lambda: archive(member("workspace/l", tarfile.SYMTYPE, "/etc"), member("workspace/l/evil")),
    "a hard link": lambda: archive(member("workspace/h", tarfile.LNKTYPE, "/etc/shadow")),
    "a device": lambda: archive(member("workspace/d", tarfile.BLKTYPE)),
    "a character device": lambda: archive(member("workspace/d", tarfile.CHRTYPE)),
    "a fifo": lambda: archive(member("workspace/f", tarfile.FIFOTYPE)),
    "a name twice": lambda: archive(member("workspace/x"), member("workspace/x")),
    "a file in a file": lambda: archive(member("workspace/x"), member("workspace/x/y")),
    "no folder for it": lambda: archive(member("workspace/not/there")),
    "an attribute of trust": lambda: archive(member("workspace/x", **{"NIGHTPORTER.xattr.security.capability": "00"})),
    "a negative hole": lambda: archive(member("workspace/x", **{"NIGHTPORTER.holes": "[[0,-5]]"})),
    "a size of its own": lambda: archive(member("workspace/x", **{"NIGHTPORTER.size": "-1"})),
    "a shorter size": lambda: archive(member("workspace/x", **{"NIGHTPORTER.size": "3"})),
    "an endless time": lambda: archive(member("workspace/x", **{"NIGHTPORTER.mtime_ns": "9" * 40})),
    "deep nesting": lambda: archive(member("workspace/" + "d/" * 300 + "x")),
    "holes without end": lambda: archive(member("workspace/x", **{"NIGHTPORTER.holes": "[" * 200_000})),
    "holes that are none": lambda: archive(member("workspace/x", **{"NIGHTPORTER.holes": "5"})),
    "a manifest without end": lambda: archive(manifest=b"[" * 60_000),
    "no manifest": lambda: archive(manifest=b"[]"),
    "another format": lambda: archive(manifest=b'{"format": 99}'),
    "no zstd": lambda: io.BytesIO(b"PK\3\4 not this"),
    "cut off": lambda: io.BytesIO(archive(member("workspace/x")).getvalue()[:-200]),
    "nothing": lambda: io.BytesIO(b""),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_volume_can_hold_is_refused(volume: Volume, tmp_path: Path, what: str) -> None:
    (volume.workspace / "mine").write_text("mine")
    volume.snapshot(0)
    with pytest.raises(ArchiveRefused):
        archives.read(volume, HOSTILE[what]())
    assert [path.name for path in volume.workspace.iterdir()] == ["mine"]
    assert [made.number for made in volume.generations()] == [1]
    assert not (tmp_path / "escaped").exists()
    volume.verify(1)


def test_a_bomb_is_refused_before_it_is_written(volume: Volume) -> None:
    bomb, _ = member("workspace/bomb")
    bomb.size = 50 << 20
    with pytest.raises(ArchiveRefused, match="more than"):
        archives.read(volume, archive((bomb, bytes(50 << 20))), max_bytes=10 << 20)

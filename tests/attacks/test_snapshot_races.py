"""Directories and files that change their nature while the host reads them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from workspace_store.beneath import UnsafePath
from workspace_store.live import VolumeUnsteady
from workspace_store.volumes import Volume, Volumes

SECRET = b"the host's secret"
_libc = ctypes.CDLL(None)


def exchange(a: Path, b: Path) -> None:
    _libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A directory outside that has the very names which the sandbox uses inside."""
    host = tmp_path / "host"
    (host / "deep").mkdir(parents=True)
    for number in range(20):
        (host / f"f{number}").write_bytes(SECRET)
        (host / "deep" / f"f{number}").write_bytes(SECRET)
    return host


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volumes(tmp_path / "volumes").open(uuid4()) as volume:
        yield volume


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """``act`` again and again in another thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            with suppress(OSError):
                act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def nothing_leaked(volume: Volume, number: int) -> None:
    for entry in volume.entries(number):
        if entry.kind == "f":
            assert SECRET not in volume.read_file(entry.path, number), entry.path


def plant(folder: Path) -> None:
    (folder / "deep").mkdir(parents=True)
    for number in range(20):
        (folder / f"f{number}").write_bytes(b"mine")
        (folder / "deep" / f"f{number}").write_bytes(b"mine")


@pytest.mark.slow
def test_a_directory_swapped_for_a_link_during_the_walk(volume: Volume, host: Path) -> None:
    plant(volume.workspace / "a")
    (volume.workspace / "b").symlink_to(host)
    number = 0
    with meanwhile(lambda: exchange(volume.workspace / "a", volume.workspace / "b")):
        for _ in range(40):
            number = volume.snapshot(number).number
            nothing_leaked(volume, number)
            for path in ("workspace/a/f1", "workspace/b/deep/f1"):
                with suppress(UnsafePath, FileNotFoundError):
                    assert volume.read_file(path) == b"mine"
    volume.verify(number)


def test_a_file_swapped_for_a_link_or_a_fifo_during_the_walk(volume: Volume, host: Path) -> None:
    (volume.workspace / "file").write_bytes(b"mine")
    (volume.workspace / "link").symlink_to(host / "f0")
    os.mkfifo(volume.workspace / "fifo")
    number = 0

    def act() -> None:
        exchange(volume.workspace / "file", volume.workspace / "link")
        exchange(volume.workspace / "link", volume.workspace / "fifo")

    with meanwhile(act):
        for _ in range(60):
            number = volume.snapshot(number).number
            nothing_leaked(volume, number)


def test_attachments_into_a_directory_that_turns_into_a_link(volume: Volume, host: Path) -> None:
    (volume.workspace / "inbox").mkdir()
    (volume.workspace / "trap").symlink_to(host)
    before = sorted(path.relative_to(host) for path in host.rglob("*"))
    tried = written = 0
    with meanwhile(lambda: exchange(volume.workspace / "inbox", volume.workspace / "trap")):
        # Two threads may keep step for a while: then it is never the directory's turn.
        while tried < 200 or (not written and tried < 20_000):
            tried += 1
            with suppress(UnsafePath):
                volume.put_file("workspace/inbox", f"n{tried % 20}", b"attached")
                written += 1
    assert sorted(path.relative_to(host) for path in host.rglob("*")) == before
    assert written > 0


@pytest.mark.slow
def test_deep_directories_moved_about_during_the_walk(volume: Volume, host: Path) -> None:
    """Below the levels that a walk keeps open: it goes up by ``..`` there and must not arrive elsewhere."""
    deep = volume.workspace.joinpath(*["d"] * 25)
    plant(deep / "x")
    other = volume.workspace / "other"
    other.mkdir()
    (volume.home / "link").symlink_to(host)

    def act() -> None:
        os.rename(deep / "x", other / "x")
        os.rename(other / "x", deep / "x")

    number = 0
    with meanwhile(act):
        for _ in range(8):
            with suppress(VolumeUnsteady):
                number = volume.snapshot(number).number
                nothing_leaked(volume, number)
    for entry in volume.entries(volume.snapshot(number).number):
        assert entry.path.startswith(("workspace", "home"))
    volume.verify(number + 1)


def test_files_that_come_and_go_fail_nothing(volume: Volume) -> None:
    def act() -> None:
        for number in range(30):
            (volume.workspace / f"t{number}").write_bytes(b"x" * number)
        for number in range(30):
            (volume.workspace / f"t{number}").unlink()
        (volume.workspace / "d").mkdir()
        (volume.workspace / "d" / "x").write_bytes(b"")
        (volume.workspace / "d" / "x").unlink()
        (volume.workspace / "d").rmdir()

    number = 0
    with meanwhile(act):
        for _ in range(40):
            number = volume.snapshot(number).number
            volume.verify(number)

"""Room on a real, full disk: intake is told before anything is written, and a reserve lets the rest go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.full_disk import fill, free_bytes, small_disk
from workspace_store import disk_room
from workspace_store.disk_room import DiskFull, DiskRoom

MEGABYTES = 20
MARGIN = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", MEGABYTES) as found:
        yield found


@pytest.fixture
def room(disk: Path) -> DiskRoom:
    found = DiskRoom([disk], disk / "reserve")
    found.look()
    return found


def test_a_disk_with_room_has_a_reserve(room: DiskRoom, disk: Path) -> None:
    room.check(MARGIN)
    assert (disk / "reserve").stat().st_size == MARGIN
    assert free_bytes(disk) == (MEGABYTES << 20) - MARGIN


def test_a_full_disk_is_told_before_anything_is_written_and_the_reserve_is_room(room: DiskRoom, disk: Path) -> None:
    fill(disk)
    with pytest.raises(OSError, match="No space"):
        (disk / "more").write_bytes(bytes(4096))
    room.look()
    with pytest.raises(DiskFull):
        room.check()
    (disk / "more").write_bytes(bytes(MARGIN // 2))
    room.look()
    assert room.is_short, "what was given up is not for new messages"


def test_who_starts_on_a_disk_whose_reserve_was_given_up_accepts_nothing_either(room: DiskRoom, disk: Path) -> None:
    fill(disk)
    room.look()
    another = DiskRoom([disk], disk / "reserve")
    another.look()
    assert another.is_short


def test_it_is_short_before_the_last_byte_is_gone(room: DiskRoom, disk: Path) -> None:
    fill(disk, leave=MARGIN // 2)
    room.look()
    assert room.is_short


def test_it_accepts_again_by_itself_with_a_reserve_made_anew(room: DiskRoom, disk: Path) -> None:
    filler = fill(disk)
    room.look()
    filler.write_bytes(b"")
    room.look()
    room.check()
    assert (disk / "reserve").stat().st_size == MARGIN


def test_what_would_not_fit_is_refused_while_small_things_go_on(room: DiskRoom, disk: Path) -> None:
    fill(disk, leave=4 * MARGIN)
    room.look()
    room.check(100)
    room.check(2 * MARGIN)
    with pytest.raises(DiskFull):
        room.check(4 * MARGIN)


async def test_a_change_is_told_once_each_way(room: DiskRoom, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_room, "LOOK_SECONDS", 0.01)
    told: list[bool] = []
    changed = asyncio.Event()

    async def tell(is_short: bool) -> bool:
        told.append(is_short)
        changed.set()
        return True

    keeping = asyncio.create_task(room.keep(tell))
    filler = fill(disk)
    await asyncio.wait_for(changed.wait(), 10)
    changed.clear()
    filler.unlink()
    await asyncio.wait_for(changed.wait(), 10)
    await asyncio.sleep(0.05)
    keeping.cancel()
    assert told == [True, False]


async def test_what_nobody_heard_is_told_again(room: DiskRoom, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_room, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(disk_room, "TELL_AGAIN_SECONDS", 0.01)
    told: list[bool] = []
    heard = asyncio.Event()

    async def tell(is_short: bool) -> bool:
        told.append(is_short)
        if len(told) == 3:
            heard.set()
        return len(told) == 3

    fill(disk)
    keeping = asyncio.create_task(room.keep(tell))
    await asyncio.wait_for(heard.wait(), 10)
    keeping.cancel()
    assert told == [True] * 3


def test_where_nothing_is_written_to_there_is_always_room() -> None:
    DiskRoom().look()
    DiskRoom().check(1 << 40)

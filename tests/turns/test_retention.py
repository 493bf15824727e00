"""Old generations go by count, age and space, and a crash in between leaves nothing listed that is not there."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Connection

from sandbox_runner.retention import DAY_US, Pruner, Retention
from tests.workspace_store.people import lease, person
from workspace_store import checkpoints, journal
from workspace_store.checkpoints import CommittedGeneration
from workspace_store.database import Database
from workspace_store.volumes import Volume, Volumes

MB = 1 << 20


class Kept:
    """A principal with a volume of which generation N was made on day N."""

    def __init__(self, database: Database, volume: Volume, owner: UUID) -> None:
        self.database, self.volume, self.owner = database, volume, owner

    def write(self, name: str, data: bytes) -> None:
        (self.volume.workspace / name).write_bytes(data)

    def generation(self, number: int) -> None:
        made = self.volume.snapshot(number - 1)
        row = CommittedGeneration(
            number, made.digest, None, "", made.files, made.bytes, made.changed, False, number * DAY_US
        )  # fmt: skip
        self.database.write_now(lambda connection: checkpoints.write_generation(connection, self.owner, row))

    async def prune(self, **retention: float) -> list[int]:
        given = Retention(**{"generations": 1000, "days": 1000.0, "bytes": 1 << 40, **retention})  # type: ignore[arg-type]
        pruner = Pruner(self.database, given, lambda: 10 * DAY_US)
        return await pruner.prune(self.owner, self.volume, lease(self.database, self.owner))

    def listed(self) -> list[int]:
        return self.database.read_now(lambda connection: checkpoints.generation_numbers(connection, self.owner))

    def whole(self) -> bool:
        """Whether what is listed is what is there, and all of it can be read."""
        for number in self.listed():
            self.volume.verify(number)
        return set(self.listed()) == self.volume.numbers()


@pytest.fixture
def kept(database: Database, tmp_path: Path) -> Kept:
    owner = person(database)
    kept = Kept(database, Volumes(tmp_path / "volumes").open(owner), owner)
    for number in range(1, 11):
        kept.write("same", b"the same in all")
        kept.write("new", os.urandom(MB))
        kept.generation(number)
    return kept


async def test_by_count(kept: Kept) -> None:
    assert await kept.prune(generations=3) == [1, 2, 3, 4, 5, 6, 7]
    assert (kept.listed(), kept.whole()) == ([8, 9, 10], True)
    assert kept.volume.stored_bytes < 4 * MB
    (event,) = [
        e for e in kept.database.read_now(lambda c: journal.read(c, kept.owner)) if e.kind == "workspace.pruned"
    ]
    assert event.body == {"generations": 7, "first": 1, "last": 7}


async def test_before_there_is_any(database: Database, tmp_path: Path) -> None:
    """A sandbox that never came up is put to sleep as well."""
    owner = person(database)
    assert await Kept(database, Volumes(tmp_path / "volumes").open(owner), owner).prune(generations=1) == []


async def test_by_age(kept: Kept) -> None:
    assert await kept.prune(days=4) == [1, 2, 3, 4, 5]
    assert (kept.listed(), kept.whole()) == ([6, 7, 8, 9, 10], True)
    assert await kept.prune(days=0.001) == [6, 7, 8, 9]
    assert (kept.listed(), kept.whole()) == ([10], True)


async def test_by_space(kept: Kept) -> None:
    await kept.prune(bytes=3 * MB)
    assert kept.whole()
    assert kept.volume.stored_bytes <= 3 * MB
    assert kept.listed()[-1] == 10
    await kept.prune(bytes=1)
    assert (kept.listed(), kept.whole()) == ([10], True)


async def test_nothing_due_touches_nothing(kept: Kept) -> None:
    before = kept.volume.stored_bytes
    assert await kept.prune() == []
    assert (kept.listed(), kept.volume.stored_bytes) == (list(range(1, 11)), before)


async def test_a_crash_between_the_list_and_the_files_is_made_good(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Volume, keep: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Volume, "prune", crash)
        with pytest.raises(KeyboardInterrupt):
            await kept.prune(generations=4)
    assert kept.listed() == [7, 8, 9, 10]
    for number in kept.listed():
        kept.volume.verify(number)
    assert await kept.prune(generations=4) == []
    assert kept.whole()


async def test_another_principals_generations_stay(kept: Kept, database: Database) -> None:
    other = person(database)

    def copy(connection: Connection) -> None:
        row = CommittedGeneration(1, "d", None, "", 1, 1, 1, False, 0)
        checkpoints.write_generation(connection, other, row)

    database.write_now(copy)
    await kept.prune(generations=1, days=0.001)
    assert database.read_now(lambda connection: checkpoints.generation_numbers(connection, other)) == [1]

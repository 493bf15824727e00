"""The heartbeat: once an interval, for who has something in HEARTBEAT.md, where they wrote last."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import Connection, update

from identity.access import Access
from identity.users import Claim
from router.envelope import Envelope
from router.heartbeat import Heartbeat
from router.inbox import Inbox
from router.settings import HeartbeatSettings
from tests.buckets import ObjectStore
from tests.workspace_store.people import person
from workspace_store import checkpoints, inbox, inbox_counts, principal
from workspace_store.beneath import Owner
from workspace_store.bucket import StoreUnavailable
from workspace_store.checkpoints import CommittedGeneration
from workspace_store.database import Database, now_us
from workspace_store.inbox import Row
from workspace_store.stored_volumes import StoredVolume, StoredVolumes
from workspace_store.volumes import Volumes

ANN = Claim("telegram", "7", "1", "Ann", "platform")
HALF_HOUR = 1800


class Beating:
    """A runner's heartbeat, with a clock of its own and real volumes."""

    def __init__(self, database: Database, folder: Path, **settings: str) -> None:
        self.database = database
        self.volumes = Volumes(folder)
        self.now = 1000 * HALF_HOUR + 60.0
        self.settings = HeartbeatSettings(every="30m", **settings)
        self.heart = self.restarted()

    def restarted(self) -> Heartbeat:
        return Heartbeat(self.settings, "Europe/Berlin", self.volumes.root, lambda: self.now)

    async def person(self, where: str = "1") -> UUID:
        said = Envelope("telegram", "7", uuid4().hex, ANN, where, "", "hello")
        accepted = await Inbox(self.database, Access("open", []), lambda _: None).accept(said)
        assert accepted is not None
        await self.drain(accepted.principal)
        return accepted.principal

    async def drain(self, owner: UUID) -> None:
        def done(connection):  # type: ignore[no-untyped-def]
            rows = [row.id for row in inbox.newest(connection, owner) if row.status == "pending"]
            if rows:
                inbox.finish(connection, rows, "done")
                inbox_counts.drained(connection, owner, len(rows))

        await self.database.write(done)

    def file(self, owner: UUID) -> Path:
        with self.volumes.open(owner) as volume:
            return volume.workspace / "HEARTBEAT.md"

    async def beat(self, heart: Heartbeat | None = None) -> None:
        chore = (heart or self.heart).chore
        if await self.database.read(chore.is_due):
            await self.database.write(chore.do)

    async def beats(self, owner: UUID) -> list[Row]:
        rows = await self.database.read(lambda c: inbox.newest(c, owner))
        return [row for row in rows if row.kind == "heartbeat"]


@pytest.fixture
def beating(database: Database, tmp_path: Path) -> Beating:
    return Beating(database, tmp_path / "volumes")


async def test_it_comes_once_an_interval_whoever_looks_and_whatever_restarts(beating: Beating) -> None:
    owner = await beating.person()
    beating.file(owner).write_text("- is the build green?")
    for heart in (beating.heart, beating.heart, beating.restarted(), beating.restarted()):
        await beating.beat(heart)
        await beating.drain(owner)
    (row,) = await beating.beats(owner)
    assert (row.conversation, row.actor) == ("1", owner)
    told = json.loads(row.envelope)
    assert "is the build green?" in told["context"]
    assert "is the build green?" not in told["text"]
    beating.now += HALF_HOUR
    await beating.beat()
    assert len(await beating.beats(owner)) == 2


async def test_nothing_comes_without_words_in_the_file_or_while_something_is_worked_on(beating: Beating) -> None:
    owner = await beating.person()
    await beating.beat()
    for words in ("", " \n\n"):
        beating.now += HALF_HOUR
        beating.file(owner).write_text(words)
        await beating.beat()
    assert await beating.beats(owner) == []
    beating.now += HALF_HOUR
    beating.file(owner).write_text("look")
    await beating.beat()
    beating.now += HALF_HOUR
    await beating.beat()
    assert len(await beating.beats(owner)) == 1


async def test_who_is_blocked_has_none(beating: Beating) -> None:
    owner = await beating.person()
    beating.file(owner).write_text("look")
    await beating.database.write(lambda c: principal.close(c, owner))
    await beating.beat()
    assert await beating.beats(owner) == []


async def test_a_file_that_leads_elsewhere_is_not_read(beating: Beating, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of this machine")
    owner = await beating.person()
    file = beating.file(owner)
    for plant in (
        lambda: file.symlink_to(secret),
        lambda: os.link(secret, file),
        lambda: os.mkfifo(file),
        lambda: file.mkdir(),
        lambda: file.write_bytes(b"x" * 100_000),
    ):
        plant()
        beating.now += HALF_HOUR
        await beating.beat()
        assert await beating.beats(owner) == []
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


async def test_not_in_quiet_hours(database: Database, tmp_path: Path) -> None:
    beating = Beating(database, tmp_path / "volumes", quiet_hours="22:00-07:00")
    owner = await beating.person()
    beating.file(owner).write_text("look")
    winter = 1_767_225_600  # 2026-01-01 00:00 UTC, one hour less than in Berlin.
    for hour, comes in ((20.9, True), (21, False), (23, False), (29.9, False), (30, True)):
        before = len(await beating.beats(owner))
        beating.now = winter + hour * 3600
        await beating.beat()
        await beating.drain(owner)
        assert (len(await beating.beats(owner)) > before) == comes, hour


@pytest.mark.parametrize("wrong", [{"every": "soon"}, {"every": "0m"}, {"every": "30"}, {"quiet_hours": "22"}])
def test_settings_that_are_none_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="write for example"):
        HeartbeatSettings(**wrong)


def with_something_in_the_file(sqlite: Database, there: StoredVolumes) -> UUID:
    owner = person(sqlite)
    with there.open(owner) as volume:
        volume.follow(0)
        volume.claim("there 1")
        (volume.workspace / "HEARTBEAT.md").write_text("water the plants")
        made = volume.snapshot(0)
        volume.hand_in(made)
    values = {"generation": 1, "volume_id": made.volume}
    committed = CommittedGeneration(1, made.digest, None, "", 1, 1, 1, False, now_us(), 1, None)

    def commit(connection: Connection) -> None:
        connection.execute(update(principal.principal).where(principal.principal.c.id == owner).values(**values))
        checkpoints.write_generation(connection, owner, committed)

    sqlite.write_now(commit)
    return owner


async def test_a_file_that_another_host_has_stored_is_read_too(
    sqlite: Database, tmp_path: Path, object_store: ObjectStore
) -> None:
    """As it was committed last; once for each generation."""
    bucket = object_store.open(object_store.create())
    there, here = StoredVolumes(tmp_path / "there", bucket), StoredVolumes(tmp_path / "here", bucket)
    owner = with_something_in_the_file(sqlite, there)
    beat = Heartbeat(HeartbeatSettings(every="30m"), "UTC", here.root, stored=here)
    assert sqlite.read_now(beat.look)
    assert beat._found == {owner: "water the plants"}


async def test_while_the_store_is_away_the_sweeper_waits_for_it_once(
    sqlite: Database, tmp_path: Path, object_store: ObjectStore
) -> None:
    class Away(StoredVolumes):
        asked = 0

        def open(self, principal: UUID, *, owner: Owner | None = None) -> StoredVolume:
            self.asked += 1
            raise StoreUnavailable("away")

    bucket = object_store.open(object_store.create())
    there, away = StoredVolumes(tmp_path / "there", bucket), Away(tmp_path / "away", bucket)
    for _ in range(3):
        with_something_in_the_file(sqlite, there)
    beat = Heartbeat(HeartbeatSettings(every="30m"), "UTC", away.root, stored=away)
    assert not sqlite.read_now(beat.look)
    assert away.asked == 1

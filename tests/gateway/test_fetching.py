"""Fetching: what a platform keeps becomes blobs, whatever fails on the way, and what cannot be had says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from gateway import fetching as fetching_module
from gateway.fetching import Fetching
from gateway.files import Fetched, NoFile, NotYet
from identity.access import Access
from identity.users import Claim
from router.envelope import Attachment, Envelope
from router.inbox import Accepted, Inbox
from workspace_store import attachments
from workspace_store.attachments import File
from workspace_store.blobs import DirectoryBlobs
from workspace_store.database import Database
from workspace_store.file_limits import FileLimits
from workspace_store.liveness import Life

LIMITS = FileLimits(max_bytes=1000, max_message_bytes=1500, max_count=3)


class Desk:
    """A gateway's fetching, and what the platform says: answers by file, the last one again and again."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.lives = database, folder / "lives"
        self.blobs = DirectoryBlobs(folder / "blobs")
        self.answers: dict[str, list[Fetched | Exception]] = {}
        self.asked: list[str] = []
        self.door = Inbox(database, Access("open", ()), lambda _: None, file_limits=LIMITS)
        self.hold: asyncio.Event | None = None

    async def fetch(self, account: str, file: str, most: int) -> Fetched:
        self.asked.append(file)
        if self.hold is not None:
            await self.hold.wait()
        waiting = self.answers[file]
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def fetching(self, name: str = "gateway-1", seconds: float = 20) -> Fetching:
        return Fetching(name, self.database, self.lives, {"slack": self.fetch}, self.blobs, LIMITS, seconds)

    @asynccontextmanager
    async def at_work(self, fetching: Fetching) -> AsyncIterator[Callable[[Envelope], Awaitable[Accepted | None]]]:
        task = asyncio.create_task(fetching.run())
        try:
            yield fetching.after(self.door.accept)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def files(self, message: UUID) -> list[File]:
        return await self.database.read(lambda connection: attachments.of(connection, [message]))

    async def settled(self, message: UUID) -> list[File]:
        async with asyncio.timeout(30):
            while True:
                found = await self.files(message)
                if all(file.status != "waiting" for file in found):
                    return found
                await asyncio.sleep(0.01)


def message(*names: str, size: int = 5) -> Envelope:
    found = tuple(Attachment(name, "text/plain", size, f"slack:{name}") for name in names)
    return Envelope("slack", "T1", "m", Claim("slack", "T1", "U1", "", "platform"), "D1", "", "x", attachments=found)


@pytest.fixture
def desk(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(fetching_module, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(fetching_module, "POLL_SECONDS", 0.02)
    return Desk(database, tmp_path)


async def accepted(accept: Callable[[Envelope], Awaitable[Accepted | None]], envelope: Envelope) -> Accepted:
    found = await accept(envelope)
    assert found is not None
    return found


async def test_a_file_becomes_a_blob_of_its_principal(desk: Desk) -> None:
    desk.answers["slack:a.txt"] = [Fetched(b"content", "../Real name.txt", "text/csv")]
    async with desk.at_work(desk.fetching()) as accept:
        heard = await accepted(accept, message("a.txt"))
        (file,) = await desk.settled(heard.message)
    assert (file.status, file.name, file.content_type, file.size) == ("stored", "Real name.txt", "text/csv", 7)
    assert file.blob is not None
    assert desk.blobs.get(heard.principal, file.blob) == b"content"


async def test_what_fails_is_tried_again_and_what_cannot_be_had_is_told(desk: Desk) -> None:
    desk.answers["slack:a"] = [NotYet("away"), RuntimeError("odd"), NotYet("slow", 0.05), Fetched(b"content")]
    desk.answers["slack:b"] = [NoFile("it was deleted")]
    desk.answers["slack:c"] = [Fetched(b"x" * 1001)]
    async with desk.at_work(desk.fetching()) as accept:
        heard = await accepted(accept, message("a", "b", "c"))
        first, second, third = await desk.settled(heard.message)
    assert (first.status, desk.asked.count("slack:a")) == ("stored", 4)
    assert (second.status, second.reason, desk.asked.count("slack:b")) == ("failed", "it was deleted", 1)
    assert third.status == "failed"
    assert "larger than" in str(third.reason)


async def test_it_is_given_up_in_time_with_the_last_reason(desk: Desk) -> None:
    desk.answers["slack:a"] = [NotYet("Slack is away")]
    async with desk.at_work(desk.fetching(seconds=0.2)) as accept:
        heard = await accepted(accept, message("a"))
        (file,) = await desk.settled(heard.message)
    assert (file.status, file.reason) == ("failed", "Slack is away")


async def test_caps_are_kept_by_what_comes_not_by_what_was_said(desk: Desk) -> None:
    for name in ("a", "b"):
        desk.answers[f"slack:{name}"] = [Fetched(b"x" * 900)]
    async with desk.at_work(desk.fetching()) as accept:
        heard = await accepted(accept, message("a", "b", "c", "d", size=0))
        found = await desk.files(heard.message)
        assert (found[3].status, "3 files" in str(found[3].reason)) == ("failed", True)
        desk.answers["slack:c"] = [Fetched(b"x" * 100)]
        found = await desk.settled(heard.message)
    assert sum(file.size for file in found if file.status == "stored") <= LIMITS.max_message_bytes
    assert [file.status for file in found].count("failed") == 2
    large = message("a", size=2000)
    async with desk.at_work(desk.fetching()):
        (file,) = await desk.files((await accepted(desk.door.accept, replace(large, external_id="m2"))).message)
    assert (file.status, desk.asked.count("slack:a")) == ("failed", 1)


async def test_what_a_dead_gateway_was_fetching_another_fetches(desk: Desk) -> None:
    desk.answers["slack:a"] = [Fetched(b"content")]
    life = Life(desk.lives, "gateway", "here")
    desk.hold = asyncio.Event()
    heard = await accepted(desk.door.accept, message("a"))
    async with desk.at_work(desk.fetching(life.id)):
        async with asyncio.timeout(20):
            while not desk.asked:
                await asyncio.sleep(0.01)
    (file,) = await desk.files(heard.message)
    assert file.status == "waiting"
    desk.hold = None
    async with desk.at_work(desk.fetching("gateway-2")):
        await asyncio.sleep(0.2)
        assert desk.asked == ["slack:a"], "a living claimer is left alone"
        life.end()
        (file,) = await desk.settled(heard.message)
    assert (file.status, len(desk.asked)) == ("stored", 2)


async def test_who_is_not_admitted_and_what_comes_twice_is_not_fetched(desk: Desk, database: Database) -> None:
    desk.answers["slack:a"] = [Fetched(b"content")]
    desk.door.access = Access("allowlist", ())
    async with desk.at_work(desk.fetching()) as accept:
        assert await accept(message("a")) is None
        desk.door.access = Access("open", ())
        heard = await accepted(accept, message("a"))
        again = await accepted(accept, message("a"))
        await desk.settled(heard.message)
    assert again.duplicate
    assert desk.asked == ["slack:a"]

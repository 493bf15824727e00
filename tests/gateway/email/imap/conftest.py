"""A real IMAP server, and what fetches from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.email.imap.pull import Puller
from gateway.email.imap.session import Account
from gateway.email.smtp_server import Accepted, ReceivedMail, Verdict
from gateway.reading import OneReader
from nightporter.testing.imap import ImapServer
from workspace_store.database import Database
from workspace_store.liveness import Life


@dataclass
class Taken:
    """What was fetched, and what is answered to it: the channel's place."""

    mails: list[ReceivedMail] = field(default_factory=list)
    verdict: Callable[[ReceivedMail], Verdict] = lambda mail: Accepted()
    aside: list[bytes] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, mail: ReceivedMail) -> Verdict:
        verdict = self.verdict(mail)
        self.mails.append(mail)
        self.came.set()
        return verdict

    async def keep_aside(self, raw: bytes, why: str) -> None:
        self.aside.append(raw)
        self.came.set()

    def subjects(self) -> list[str]:
        return [subject(mail.raw) for mail in self.mails]

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.came.wait(), 0.1)
                self.came.clear()


def subject(raw: bytes) -> str:
    return raw.partition(b"Subject: ")[2].splitlines()[0].decode()


def mail(name: str) -> bytes:
    """With bare line feeds, as pymap keeps it."""
    return f"From: ann@example.org\nMessage-ID: <{name}@x>\nSubject: {name}\n\nhello\n".encode()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImapServer]:
    """One server for all: it takes seconds to start."""
    found = ImapServer(tmp_path_factory.mktemp("imap")).start()
    yield found
    found.stop()


@pytest.fixture
def server(running: ImapServer) -> ImapServer:
    """The server with an empty mailbox."""
    return running.open(f"box{uuid4().hex[:12]}")


@pytest.fixture
def taken() -> Taken:
    return Taken()


Start = Callable[..., Awaitable[Puller]]


@pytest.fixture
async def start(server: ImapServer, sqlite: Database, tmp_path: Path, taken: Taken) -> AsyncIterator[Start]:
    """Start a gateway's puller; each has a life of its own."""
    running: list[asyncio.Task[None]] = []
    lives = tmp_path / "lives"

    async def begin(url: str = "", **settings: object) -> Puller:
        puller = Puller(
            Account.of(url or server.url), taken.accept, taken.keep_aside, sqlite,
            OneReader(sqlite, lives, Life(lives, "gateway", "host").id), 100_000, timedelta(hours=72),
        )  # fmt: skip
        for name, value in settings.items():
            setattr(puller, name, value)
        running.append(asyncio.create_task(puller.run()))
        puller.task = running[-1]  # type: ignore[attr-defined]
        return puller

    yield begin
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)

"""Servers and mails for the tests of the email channel; everything on loopback, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from gateway.email.config import EmailConfig
from gateway.email.smtp_server import Accepted, EmailServer, ReceivedMail, Verdict

TOKEN = "local-token-0123456789"
OWN = "porter@example.org"


@dataclass
class Inbox:
    """Keeps what the server hands over; `verdict` or `fails` says what it answers."""

    mails: list[ReceivedMail] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Accepted)
    fails: bool = False
    gate: asyncio.Event | None = None

    async def accept(self, mail: ReceivedMail) -> Verdict:
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise ConnectionError("the database is not reachable")
        self.mails.append(mail)
        return self.verdict


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


StartServer = Callable[..., Awaitable[EmailServer]]


@pytest.fixture
async def start_server(inbox: Inbox) -> AsyncIterator[StartServer]:
    started: list[EmailServer] = []

    async def start(config: EmailConfig | None = None, **options: object) -> EmailServer:
        server = EmailServer(config or EmailConfig(port=0, address=OWN), inbox.accept, token=TOKEN, **options)  # type: ignore[arg-type]
        await server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        await server.close(grace=0.2)


@dataclass
class Relay:
    """A receiving SMTP server that may misbehave: `rcpt` and `data` are its answers, `hang_up` cuts after the data."""

    port: int = 0
    rcpt: str = "250 OK"
    data: str = "250 queued as 42"
    hang_up: bool = False
    received: list[bytes] = field(default_factory=list)
    senders: list[str | None] = field(default_factory=list)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self.rcpt

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.received.append(envelope.content)
        self.senders.append(envelope.mail_from)
        if self.hang_up:
            assert server.transport is not None
            server.transport.abort()  # type: ignore[attr-defined]
        return self.data


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    handler = Relay()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(handler, loop=loop, hostname="relay.example.org", enable_SMTPUTF8=True), "127.0.0.1", 0
    )
    handler.port = server.sockets[0].getsockname()[1]
    yield handler
    server.close()

"""A yard: the real proxy with a real database and ledger, and a socket as a sandbox would have it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from identity.access import Access
from identity.users import Claim
from router.envelope import Envelope
from router.inbox import Inbox
from sandbox_runner.egress import control, trust
from sandbox_runner.egress.asking import Asker
from sandbox_runner.egress.control import EgressDoor, Listeners
from sandbox_runner.egress.ledger import Ledger
from sandbox_runner.egress.names import Address
from sandbox_runner.egress.proxy import Proxy
from sandbox_runner.egress.service import _begin, build
from sandbox_runner.egress.settings import EgressSettings
from sandbox_runner.sandboxes import short_path
from workspace_store import approvals, effects, egress_grants, inbox, journal
from workspace_store import tenancy as tenancies
from workspace_store.database import Database
from workspace_store.effects import Effect
from workspace_store.tenancy import Tenancy


@dataclass
class Answered:
    """A response as the sandbox reads it."""

    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ")[1]) if self.raw else 0

    @property
    def head(self) -> str:
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        """Unframed."""
        body = self.raw.partition(b"\r\n\r\n")[2]
        return unchunked(body) if re.search("(?im)^transfer-encoding: chunked", self.head) else body

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


def unchunked(data: bytes) -> bytes:
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        whole, data = whole + data[:length], data[length + 2 :]
    return whole


@dataclass
class Yard:
    """``names`` is the whole DNS of the yard: host → addresses, the next of its answers each time it is asked."""

    folder: Path
    url: str
    settings: EgressSettings
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    lookups: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = Database(self.url)
        self.ledger = Ledger(self.database, f"egress-here-{uuid4().hex[:6]}", "egress-here-")
        self.proxy: Proxy = build(
            self.settings, self.folder, self.database, self.ledger, lookup=self._look_up, ask=Asker(self.database)
        )
        self.door: EgressDoor
        self.tenancy: Tenancy
        self.socket: Path

    async def _look_up(self, host: str) -> Sequence[Address]:
        self.lookups.append(host)
        if host not in self.names:
            raise OSError(f"{host} is not in the yard's DNS")
        answers = self.names[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ipaddress.ip_address(address) for address in found]

    # The principal and its turn

    @property
    def owner(self) -> UUID:
        return self.tenancy.principal

    async def hear(self, text: str, *, context: str = "", running: bool = True) -> UUID:
        """A message of the owner; with ``running`` a turn works on it."""
        door = Inbox(self.database, Access("allowlist", ()), lambda _: None)
        claim = Claim("local", "", "owner", "owner", "token")
        accepted = await door.accept(Envelope("local", "", uuid4().hex, claim, "owner", "", text, context))
        assert accepted is not None
        if running:
            await self.database.write(lambda c: inbox.start(c, accepted.message, uuid4(), alone=False))
        self.heard = accepted
        return accepted.message

    async def finish(self, message: UUID) -> None:
        await self.database.write(lambda c: inbox.finish(c, [message], "done"))

    async def take(self, host: str = "manager-a") -> Tenancy:
        """Take the owner's tenancy over, as another sandbox does."""
        owner = self.heard.principal

        def transaction(connection: Any) -> Tenancy | None:
            return tenancies.take(connection, owner, host, tenancies.look(connection, owner))

        taken = await self.database.write(transaction)
        assert taken is not None
        return taken

    # What a sandbox does

    async def say(self, *pieces: bytes, seconds: float = 20) -> Answered:
        """Send bytes as they are; everything that comes back until the proxy closes."""
        reader, writer = await self.connect()
        async with asyncio.timeout(seconds):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            data = await reader.read()
        writer.close()
        return Answered(data)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with short_path(self.socket) as name:
            return await asyncio.open_unix_connection(name)

    async def get(self, url: str, *headers: str, method: str = "GET", body: bytes = b"") -> Answered:
        """A plain request through the proxy."""
        authority = url.partition("://")[2].partition("/")[0]
        lines = [f"{method} {url} HTTP/1.1", f"Host: {authority}", "Connection: close", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return await self.say("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def tunnel(self, authority: str) -> tuple[Answered, asyncio.StreamReader, asyncio.StreamWriter]:
        """CONNECT; the answer's head, and the tunnel if there is one."""
        reader, writer = await self.connect()
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                head += await reader.read()
        return Answered(head), reader, writer

    async def secure(
        self, authority: str, context: ssl.SSLContext, request: bytes, server_name: str | None = ""
    ) -> Answered:
        """A request in TLS in a tunnel; ``server_name`` "": the authority's host. Raises ssl.SSLError, OSError."""
        host = authority.rpartition(":")[0]
        answer, reader, writer = await self.tunnel(authority)
        if answer.status != 200:
            return answer
        wire = Tls(reader, writer, context, host if server_name == "" else server_name)
        async with asyncio.timeout(20):
            await wire.handshake()
            await wire.send(request)
            return Answered(await wire.read())

    # What is written down

    async def effects(self) -> list[Effect]:
        """Oldest first."""
        await self.ledger.flush()
        found = await self.database.read(lambda c: effects.recent(c, self.owner, 100))
        return found[::-1]

    async def settled(self) -> list[Effect]:
        """The effects, once none of them is under way; there must be one."""
        async with asyncio.timeout(20):
            while True:
                found = await self.effects()
                if found and all(effect.status != "intended" for effect in found):
                    return found
                await asyncio.sleep(0.01)

    async def events(self, *kinds: str) -> list[journal.Recorded]:
        await self.ledger.flush()
        found = await self.database.read(lambda c: journal.read(c, self.owner))
        return [event for event in found if event.kind in kinds]

    async def asked(self) -> list[approvals.Approval]:
        return await self.database.read(lambda c: approvals.waiting(c, self.owner))

    async def allow(self, host: str, port: int, *, seconds: float | None = None, allowed: bool = True) -> None:
        await self.database.write(
            lambda c: egress_grants.give(c, self.owner, host, port, allowed=allowed, seconds=seconds, by=None)
        )


class Tls:
    """A TLS client over any stream."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, name: str | None
    ) -> None:
        self._reader, self._writer = reader, writer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._in, self._out, server_hostname=name)

    async def _pump(self) -> bool:
        if data := self._out.read():
            self._writer.write(data)
            await self._writer.drain()
        data = await self._reader.read(65536)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        return bool(data)

    async def handshake(self) -> None:
        while True:
            try:
                self.object.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._pump()
        await self.flush()

    async def flush(self) -> None:
        if data := self._out.read():
            self._writer.write(data)
            await self._writer.drain()

    async def send(self, data: bytes) -> None:
        self.object.write(data)
        await self.flush()

    async def read(self) -> bytes:
        """To the end."""
        found = b""
        while True:
            try:
                data = self.object.read(65536)
                if not data:
                    return found
                found += data
            except ssl.SSLWantReadError:
                if not await self._pump():
                    return found
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return found


@contextlib.asynccontextmanager
async def yard(folder: Path, url: str, **settings: Any) -> AsyncIterator[Yard]:
    """A running yard; ``settings`` are those of ``[egress]``."""
    made = Yard(folder, url, EgressSettings.model_validate(settings, context={"home": folder}))
    trust.prepare(folder, terminates=made.settings.terminates, extra=made.settings.ca_file)
    made.door = EgressDoor(folder, "here")
    listeners = Listeners(made.proxy.serve, lambda client: _begin(made.ledger, client))
    listening = await control.listen(control.control_path(folder, "here"))
    parts = [asyncio.create_task(control.serve(listening, listeners)), asyncio.create_task(made.door.keep())]
    first = await made.hear("hello", running=False)
    await made.finish(first)
    made.tenancy = await made.take()
    made.socket = made.door.open("sandbox-1", made.tenancy, None)
    try:
        yield made
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await listeners.shut()
        made.door.shut()
        listening.close()
        await made.ledger.flush()
        made.database.close()

"""The page of an approval on a real server, and people who come to it as browsers do: by a link, with cookies."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import uvicorn
from sqlalchemy import Connection, text
from starlette.applications import Starlette

from gateway.asking.links import Links, Seals
from gateway.asking.routes import ApprovalPages
from identity.access import Access
from identity.users import Claim
from router.actions import Woken
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import approvals, outbox
from workspace_store.approvals import Approval, BadEdit, Kind, Revised
from workspace_store.database import Database
from workspace_store.outbox import Reply

TOKEN = "the-owners-token-0123456789"
PEOPLE = {
    "owner": Claim("local", "", "owner", "owner", "token"),
    "ann": Claim("email", "", "ann@example.org", "Ann", "dmarc"),
    "bob": Claim("email", "", "bob@example.org", "Bob", "dmarc"),
}
PAGE = re.compile(r"http\S+/actions/\S+")
FIELD = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


def edited(found: Approval, words: str) -> Revised:
    if words.startswith("nonsense"):
        raise BadEdit("say a place")
    return Revised({"go": words}, f"go to {words}")


@dataclass
class Pages:
    """The server, its database, and what happened."""

    database: Database
    origin: str
    links: Links
    woken: list[Woken] = field(default_factory=list)
    rung: list[None] = field(default_factory=list)

    async def hear(self, who: str, **more: Any) -> Accepted:
        claim = PEOPLE[who]
        said = Envelope(claim.channel, "", uuid4().hex, claim, more.pop("where", who), "", "go", **more)
        accepted = await Inbox(self.database, Access("open", []), lambda _: None).accept(said)
        assert accepted is not None
        return accepted

    async def ask(self, who: str = "ann", **more: Any) -> Approval:
        """Ask somebody who has just said something."""
        accepted = await self.hear(who)
        given: dict[str, Any] = {
            "key": uuid4().hex, "kind": "x", "request": {"go": "there"}, "text": "go there", "resumes": True,
            "message": accepted.message,
        } | more  # fmt: skip

        def ask(connection: Connection) -> Approval:
            place = approvals.place_of(connection, accepted.principal)
            assert place is not None
            return approvals.request(connection, principal=accepted.principal, at=place, **given)

        return await self.database.write(ask)

    async def sent(self, found: Approval) -> str:
        """The question as its channel is given it."""
        query = outbox.outbox.select().where(outbox.outbox.c.id == found.question)
        reply: Reply = await self.database.read(lambda c: outbox.reply_of(c.execute(query).one()))
        return str((await self.links.added(reply)).content["text"])

    async def link(self, found: Approval) -> str:
        (link,) = PAGE.findall(await self.sent(found))
        return str(link)

    async def now(self, found: Approval) -> Approval:
        return await self.database.read(lambda c: approvals.get(c, found.id))

    async def expire(self, found: Approval) -> None:
        query = text("UPDATE approval SET expires_at = 1 WHERE code = :code")
        await self.database.write(lambda c: c.execute(query, {"code": found.code}))

    def rows(self, kind: str = "approval") -> int:
        query = text("SELECT count(*) FROM inbox WHERE kind = :kind")
        return int(self.database.read_now(lambda c: c.execute(query, {"kind": kind}).scalar_one()))


class Browser:
    """A person's browser, which keeps cookies and what the last page's form would send."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.form: dict[str, str] = {}
        self.at = ""

    async def open(self, address: str) -> httpx.Response:
        answer = await self.client.get(address)
        self.at = str(answer.url.copy_with(query=None))
        self.form = {html.unescape(name): html.unescape(value) for name, value in FIELD.findall(answer.text)}
        return answer

    async def press(self, answer: str = "approve once", **more: str) -> httpx.Response:
        return await self.post({**self.form, "answer": answer, **more})

    async def post(self, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self.client.post(self.at, data=dict(fields), headers=headers)


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    async with httpx.AsyncClient(timeout=30, follow_redirects=True) as client:
        yield Browser(client)


@asynccontextmanager
async def serving(database: Database) -> AsyncIterator[Pages]:
    woken: list[Woken] = []
    rung: list[None] = []
    seals = Seals.of(TOKEN)
    pages = ApprovalPages(
        database, {"x": Kind(edit=edited)}, seals, TOKEN, False, woken.append, lambda: rung.append(None)
    )
    options: dict[str, Any] = {"port": 0, "log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=pages.routes()), **options))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    origin = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield Pages(database, origin, Links(database, seals, origin), woken, rung)
    server.should_exit = True
    await running


def token_of(link: str) -> str:
    return urlsplit(link).query.removeprefix("t=")

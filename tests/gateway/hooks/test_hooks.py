"""Deliveries to hooks on a real server: signed, once, recorded before they are acknowledged, and data."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text
from starlette.applications import Starlette

from gateway.hooks.routes import Hooks
from gateway.settings import HookSettings
from identity.access import Access
from identity.limits import Limits
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store import inbox, journal
from workspace_store.database import Database

SECRET = "a secret of thirty-two characters"
TEMPLATE = "{header:x-github-event} of {/repository/name}: {/pull_request/title}"
STANDARD = "whsec_" + base64.b64encode(b"another secret of a hook").decode()
BODY = json.dumps({"repository": {"name": "tea"}, "pull_request": {"title": "Boil\nwater “now”"}}).encode()


def mac(content: bytes, secret: bytes = SECRET.encode()) -> bytes:
    return hmac.new(secret, content, hashlib.sha256).digest()


def own(body: bytes, at: float | None = None, **more: str) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    signature = mac(f"{stamp}.".encode() + body).hex()
    return {"x-nightporter-timestamp": stamp, "x-nightporter-signature": f"sha256={signature}", **more}


def github(body: bytes, delivery: str = "d-1") -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={mac(body).hex()}", "x-github-delivery": delivery,
            "x-github-event": "pull_request"}  # fmt: skip


def stripe(body: bytes, at: float | None = None) -> dict[str, str]:
    stamp = int(time.time() if at is None else at)
    return {"stripe-signature": f"t={stamp},v1={'00' * 32},v1={mac(f'{stamp}.'.encode() + body).hex()},v0=abc"}


def standard(body: bytes, identifier: str = "msg_1", at: float | None = None) -> dict[str, str]:
    stamp = int(time.time() if at is None else at)
    signed = f"{identifier}.{stamp}.".encode() + body
    signature = base64.b64encode(mac(signed, b"another secret of a hook")).decode()
    return {"webhook-id": identifier, "webhook-timestamp": str(stamp), "webhook-signature": f"v1a,x v1,{signature}"}


@dataclass
class Sender:
    client: httpx.AsyncClient
    database: Database
    rung: list[Accepted] = field(default_factory=list)

    async def send(self, headers: dict[str, str], body: bytes = BODY, hook: str = "ci") -> httpx.Response:
        return await self.client.post(f"/hooks/{hook}", content=body, headers=headers)

    @property
    def rows(self) -> list[Envelope]:
        query = "SELECT envelope FROM inbox WHERE kind = 'hook' ORDER BY seq"
        found = self.database.read_now(lambda c: c.execute(text(query)).scalars().all())
        return [Envelope.from_json(one) for one in found]


@pytest.fixture
async def sender(sqlite: Database) -> AsyncIterator[Sender]:
    settings = {
        "ci": HookSettings(secret=SECRET, template=TEMPLATE),
        "std": HookSettings(secret=STANDARD),
        "strict": HookSettings(secret=SECRET, signature="nightporter"),
        "room": HookSettings(secret=SECRET, user="slack:T1/C1"),
    }
    rung: list[Accepted] = []
    hooks = Hooks(settings, sqlite, Access("allowlist", []), Limits(), rung.append, 10_000)
    transport = httpx.ASGITransport(Starlette(routes=hooks.routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        yield Sender(client, sqlite, rung)


@pytest.mark.parametrize("sign", [own, github, stripe])
async def test_a_signed_delivery_becomes_a_message_before_it_is_acknowledged(sender: Sender, sign: Any) -> None:
    answer = await sender.send(sign(BODY))
    assert answer.status_code == 202
    (told,) = sender.rows
    assert [accepted.message.hex for accepted in sender.rung] == [answer.json()["message_id"]]
    event = "pull_request" if sign is github else "(nothing)"
    assert told.text == f'{event if sign is github else "(nothing)"} of tea: “Boil water "now"”'
    assert "data of its sender" in told.context
    assert '"repository"' in told.context


async def test_standard_webhooks_with_their_secret_and_several_signatures(sender: Sender) -> None:
    assert (await sender.send(standard(BODY), hook="std")).status_code == 202
    assert len(sender.rows) == 1


@pytest.mark.parametrize("sign", [own, github, stripe])
async def test_the_same_delivery_again_is_the_same_message(sender: Sender, sign: Any) -> None:
    headers = sign(BODY)
    first, again = await sender.send(headers), await sender.send(headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert len(sender.rows) == len(sender.rung) == 1


async def test_a_retry_signed_anew_is_known_by_its_senders_id(sender: Sender) -> None:
    now = time.time()
    assert (await sender.send(own(BODY, now - 60, **{"x-nightporter-delivery": "7"}))).status_code == 202
    assert (await sender.send(own(BODY, now, **{"x-nightporter-delivery": "7"}))).status_code == 202
    await sender.send(standard(BODY, "msg_9", now - 100), hook="std")
    await sender.send(standard(BODY, "msg_9", now), hook="std")
    assert len(sender.rows) == 2


async def test_a_replay_under_another_name_is_the_same_delivery(sender: Sender) -> None:
    await sender.send(github(BODY, "d-1"))
    await sender.send(github(BODY, "d-2"))
    headers = own(BODY)
    await sender.send(headers)
    await sender.send({**headers, "x-nightporter-delivery": "new"})
    assert len(sender.rows) == 2


async def test_many_of_the_same_at_once_are_one(sender: Sender) -> None:
    headers = own(BODY, **{"x-nightporter-delivery": "1"})
    answers = await asyncio.gather(*(sender.send(headers) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["message_id"] for answer in answers}) == len(sender.rows) == 1


@pytest.mark.parametrize("off", [-301, 301, -86400])
@pytest.mark.parametrize("sign", [own, stripe])
async def test_what_was_signed_at_another_time_is_refused(sender: Sender, sign: Any, off: float) -> None:
    answer = await sender.send(sign(BODY, time.time() + off))
    assert answer.status_code == 401
    assert "timestamp" in answer.text
    assert sender.rows == []


async def test_nobody_learns_from_outside_whether_a_hook_is_there(sender: Sender) -> None:
    wrong = own(BODY)
    wrong["x-nightporter-signature"] = "sha256=" + "0" * 64
    answers = [
        await sender.send(headers, hook=hook)
        for hook in ("ci", "nobody", "std")
        for headers in (wrong, {}, {"x-hub-signature-256": "sha256=zz"}, own(BODY, time.time() - 10**6) | wrong)
    ]
    assert {(answer.status_code, answer.content) for answer in answers} == {(401, answers[0].content)}
    assert {tuple(sorted(answer.headers)) for answer in answers} == {tuple(sorted(answers[0].headers))}
    # Nor by what is too large, whoever it is for.
    large = [await sender.send(own(b"x" * 20_000), b"x" * 20_000, hook) for hook in ("ci", "nobody")]
    assert {(answer.status_code, answer.content) for answer in large} == {(413, large[0].content)}
    assert sender.rows == []


async def test_what_was_signed_in_one_form_is_nothing_in_another(sender: Sender) -> None:
    stamp = int(time.time()) - 10**6
    signed = f"{stamp}.".encode() + BODY
    # An old delivery with a time, sent as one that has none.
    moved = {"x-hub-signature-256": f"sha256={mac(signed).hex()}"}
    assert (await sender.send(moved, signed)).status_code == 401
    moved = {"x-hub-signature-256": f"sha256={mac(b'msg_1.' + signed).hex()}"}
    assert (await sender.send(moved, b"msg_1." + signed)).status_code == 401
    assert (await sender.send(github(BODY), hook="strict")).status_code == 401
    assert (await sender.send(own(BODY), hook="strict")).status_code == 202
    assert len(sender.rows) == 1


async def test_another_body_under_a_right_signature_is_refused(sender: Sender) -> None:
    for sign in (own, github, stripe):
        assert (await sender.send(sign(BODY), BODY + b" ")).status_code == 401


async def test_a_delivery_is_nobodys_word_and_is_in_the_journal(sender: Sender) -> None:
    answer = await sender.send(github(BODY))
    query = "SELECT principal, kind, actor, status FROM inbox"
    row = sender.database.read_now(lambda c: c.execute(text(query)).one())
    assert (row.kind, row.status) == ("hook", "pending")
    (owner,) = sender.database.read_now(lambda c: c.execute(text("SELECT id FROM user_account")).scalars().all())
    events = sender.database.read_now(lambda c: journal.read(c, UUID(owner)))
    (event,) = [one for one in events if one.kind == "hook.received"]
    assert event.body is not None
    assert (event.body["message"], event.body["delivery"]) == (answer.json()["message_id"], "d-1")
    found = sender.database.read_now(lambda c: inbox.get(c, UUID(answer.json()["message_id"])))
    assert found is not None
    assert found.channel == "local"


async def test_a_room_that_is_not_there_yet_is_asked_to_be_sent_again(sender: Sender) -> None:
    answer = await sender.send(own(BODY), hook="room")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert sender.rows == []


async def test_too_many_are_told_to_wait(sqlite: Database) -> None:
    hooks = Hooks(
        {"ci": HookSettings(secret=SECRET)}, sqlite, Access("open", []), Limits(sender=2), lambda _: None, 10_000
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(Starlette(routes=hooks.routes())), base_url="http://here"
    ) as client:
        codes = [
            (await client.post("/hooks/ci", content=body, headers=own(body))).status_code for body in (b"1", b"2", b"3")
        ]
    assert codes == [202, 202, 429]


async def test_a_form_with_json_in_it(sender: Sender) -> None:
    body = b"payload=%7B%22repository%22%3A%7B%22name%22%3A%22milk%22%7D%7D"
    headers = {**github(body), "content-type": "application/x-www-form-urlencoded"}
    assert (await sender.send(headers, body)).status_code == 202
    assert "of milk:" in sender.rows[0].text


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", b"[" * 9000, b'"\\ud800"', b"null", b"{}" * 100])
async def test_whatever_is_delivered_is_recorded(sender: Sender, body: bytes) -> None:
    assert (await sender.send(own(body), body)).status_code == 202
    assert len(sender.rows) == 1

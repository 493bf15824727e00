"""The HTTP interface on a real server over loopback: what is asked badly is answered clearly, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import redis.asyncio
import uvicorn
from sqlalchemy import Connection, text

from gateway.health import Health
from gateway.local import stream as stream_module
from gateway.local import texts
from gateway.local.app import Local
from gateway.local.stream import Listeners
from identity.access import Access
from router.inbox import Accepted, Inbox
from tests.servers import Valkey
from workspace_store import inbox as inbox_rows
from workspace_store import inbox_counts, journal, outbox
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.journal import Event
from workspace_store.liveness import Life
from workspace_store.outbox import Address

TOKEN = "local-token-0123456789"


@dataclass
class Gateway:
    client: httpx.AsyncClient
    database: Database
    listeners: Listeners
    rung: list[Accepted]
    lives: Path
    inbox: Inbox

    async def say(self, body: bytes | str | None = None, **fields: object) -> httpx.Response:
        return await self.client.post("/v1/messages", content=json.dumps(fields) if body is None else body)

    async def listened_for(self, owner: UUID) -> None:
        async with asyncio.timeout(20):
            while owner not in self.listeners._queues:
                await asyncio.sleep(0.001)

    def count(self, table: str) -> int:
        query = text(f"SELECT count(*) FROM {table}")
        return int(self.database.read_now(lambda connection: connection.execute(query).scalar_one()))


@asynccontextmanager
async def serving(database: Database, lives: Path, socket: str = "/nobody") -> AsyncIterator[Gateway]:
    rung: list[Accepted] = []
    listeners = Listeners()
    health = Health(database, lives, lambda: redis.asyncio.Redis(unix_socket_path=socket))
    inbox = Inbox(database, Access("allowlist", []), rung.append)
    local = Local(inbox, database, TOKEN, listeners, health)
    options = {"port": 0, "log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(local.app(), **options))  # type: ignore[arg-type]
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
        yield Gateway(client, database, listeners, rung, lives, inbox)
    server.should_exit = True
    await running


@pytest.fixture
async def gateway(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    monkeypatch.setattr(stream_module, "POLL_SECONDS", 0.02)
    async with serving(database, tmp_path / "lives") as found:
        yield found


def reply(database: Database, accepted: Accepted, words: str) -> None:
    def transaction(connection: Connection) -> None:
        inbox_rows.finish(connection, [accepted.message], "done")
        inbox_counts.drained(connection, accepted.principal)
        outbox.queue(
            connection, key=words, principal=accepted.principal, turn=None, inbox=accepted.message,
            to=Address("local", "", "owner", ""), content={"text": words},
        )  # fmt: skip

    database.write_now(transaction)


async def test_a_message_is_accepted_once_recorded_and_its_answer_read_by_its_id(gateway: Gateway) -> None:
    answer = await gateway.say(text="hello", message_id="m1")
    (accepted,) = gateway.rung
    expected = {"message_id": "m1", "principal": str(accepted.principal)}
    assert (answer.status_code, answer.json()) == (202, expected)
    assert (await gateway.client.get("/v1/messages/m1")).json() == {"status": "pending", "replies": []}
    reply(gateway.database, accepted, "hi")
    found = (await gateway.client.get("/v1/messages/m1")).json()
    assert (found["status"], [said["text"] for said in found["replies"]]) == ("done", ["hi"])


async def test_without_an_id_each_message_is_its_own(gateway: Gateway) -> None:
    ids = {(await gateway.say(text="hello")).json()["message_id"] for _ in range(3)}
    assert (len(ids), gateway.count("inbox")) == (3, 3)


async def test_the_same_id_many_times_at_once_is_one_message_and_one_answer(gateway: Gateway) -> None:
    answers = await asyncio.gather(*(gateway.say(text="hello", message_id="m1") for _ in range(16)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert (gateway.count("inbox"), len(gateway.rung)) == (1, 1)


async def test_two_people_may_use_the_same_id(gateway: Gateway) -> None:
    mine = await gateway.say(text="mine", message_id="m1")
    theirs = await gateway.say(text="theirs", message_id="m1", user="local:bob")
    assert mine.json()["principal"] != theirs.json()["principal"]
    assert (await gateway.client.get("/v1/messages/m1", params={"user": "bob"})).status_code == 200
    assert (await gateway.client.get("/v1/messages/m1", params={"user": "eve"})).status_code == 404


WRONG: list[dict[str, Any]] = [
    {},
    {"authorization": "Bearer wrong"},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": TOKEN},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": b"Bearer t\xf6ken"},
]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/m1", "/v1/events", "/readyz", "/metrics"])
async def test_nothing_is_told_or_taken_without_the_token(gateway: Gateway, path: str) -> None:
    async with httpx.AsyncClient(base_url=gateway.client.base_url) as stranger:
        for headers in WRONG:
            method = "POST" if path == "/v1/messages" else "GET"
            answer = await stranger.request(method, path, headers=headers, content='{"text": "hello"}')
            assert (answer.status_code, answer.json()) == (401, {"error": texts.NO_TOKEN})
            assert answer.headers["www-authenticate"] == "Bearer"
    assert gateway.count("inbox") == 0


BAD = {
    "nothing": (b"", texts.NOT_JSON),
    "no json": (b"hello", texts.NOT_JSON),
    "half": (b'{"text": "hel', texts.NOT_JSON),
    "no text at all": (b"\xff\xfe\x00\xd8", texts.NOT_JSON),
    "bad utf-8": (b'{"text": "\xff"}', texts.NOT_JSON),
    "deep": (b"[" * 100_000, texts.NOT_JSON),
    "deep and closed": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, texts.NOT_JSON),
    "a huge number": (b"1" * 100_000, texts.NOT_JSON),
    "a list": (b"[]", texts.NOT_AN_OBJECT),
    "null": (b"null", texts.NOT_AN_OBJECT),
    "no text": (b"{}", texts.NO_TEXT),
    "empty text": (b'{"text": ""}', texts.NO_TEXT),
    "blank text": (b'{"text": " \\n\\t "}', texts.NO_TEXT),
    "a number": (b'{"text": 5}', texts.NO_TEXT),
    "a list of texts": (b'{"text": ["a"]}', texts.NO_TEXT),
    "empty id": (b'{"text": "a", "message_id": ""}', texts.BAD_ID),
    "id with a slash": (b'{"text": "a", "message_id": "a/b"}', texts.BAD_ID),
    "id with NUL": (b'{"text": "a", "message_id": "a\\u0000"}', texts.BAD_ID),
    "id with half a pair": (b'{"text": "a", "message_id": "a\\ud800"}', texts.BAD_ID),
    "long id": (b'{"text": "a", "message_id": "' + b"x" * 201 + b'"}', texts.BAD_ID),
    "user with a slash": (b'{"text": "a", "user": "a/b"}', texts.BAD_USER),
    "user of half a pair": (b'{"text": "a", "user": "\\ud800"}', texts.BAD_USER),
    "a user of another channel": (b'{"text": "a", "user": "email:ann@example.org"}', texts.BAD_USER),
    "long thread": (b'{"text": "a", "thread": "' + b"x" * 201 + b'"}', texts.BAD_THREAD),
    "unknown field": (b'{"text": "a", "txt": 1}', texts.unknown_fields(["txt"])),
    "unknown half a pair": (b'{"text": "a", "\\ud800": 1}', texts.unknown_fields(["\ufffd"])),
}


async def test_what_is_asked_badly_is_told_what_is_wrong(gateway: Gateway) -> None:
    for name, (body, reason) in BAD.items():
        answer = await gateway.say(body)
        assert (name, answer.status_code, answer.json()) == (name, 400, {"error": reason})
    assert gateway.count("inbox") == 0
    assert (await gateway.say(text="still up")).status_code == 202


async def test_a_megabyte_is_accepted_whole(gateway: Gateway) -> None:
    words = "größer " * 150_000
    assert (await gateway.say(text=words, message_id="big")).status_code == 202
    stored = gateway.database.read_now(lambda c: c.execute(text("SELECT envelope FROM inbox")).scalar_one())
    assert json.loads(stored)["text"] == words


@pytest.mark.parametrize("chunked", [False, True])
async def test_five_megabytes_are_refused_and_said_to_be_too_long(gateway: Gateway, chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b"x" * (1 << 16)

    answer = await gateway.client.post("/v1/messages", content=chunks() if chunked else b"x" * (5 << 20))
    assert (answer.status_code, answer.json()["error"]) == (413, texts.too_long(4 << 20))
    assert (await gateway.say(text="still up")).status_code == 202


@pytest.mark.parametrize("odd", ["nul \\u0000", "half \\ud800 pair", "\\udfff\\ud800"])
@pytest.mark.parametrize("field", ["text", "thread"])
async def test_what_no_database_stores_is_replaced_not_refused(gateway: Gateway, odd: str, field: str) -> None:
    body = json.dumps({"text": "hello", "message_id": "m1"})[:-1] + f', "{field}": "{odd}"}}'
    assert (await gateway.say(body)).status_code == 202
    assert (await gateway.client.get("/v1/messages/m1")).json()["status"] == "pending"
    (event,) = await events(gateway, 1, after="0")
    assert "\ufffd" in event["data"]["text"] or field == "thread"


async def test_an_id_that_is_not_there_is_not_there(gateway: Gateway) -> None:
    for path in ("none", "%00", "a%2Fb", "%ff%fe", "x" * 5000, "..%2f..", "%ED%A0%80"):
        answer = await gateway.client.get(f"/v1/messages/{path}")
        assert (path, answer.status_code, answer.json()) == (path, 404, {"error": texts.NO_MESSAGE})


async def test_a_blocked_person_is_told(gateway: Gateway) -> None:
    assert (await gateway.say(text="hello", user="bob")).status_code == 202
    gateway.database.write_now(lambda c: c.execute(text("UPDATE user_account SET blocked = true")))
    answer = await gateway.say(text="hello", user="bob")
    assert (answer.status_code, answer.json()) == (403, {"error": texts.NOT_ADMITTED})


# Events


async def events(gateway: Gateway, count: int, last: str = "", **params: str) -> list[dict[str, Any]]:
    """The next ``count`` events of the stream."""
    headers = {"last-event-id": last} if last else {}
    found: list[dict[str, Any]] = []
    event: dict[str, Any] = {}
    stream = gateway.client.stream("GET", "/v1/events", headers=headers, params=params)
    async with asyncio.timeout(20), stream as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for chunk in lines(answer):
            name, _, value = chunk.partition(": ")
            if name in ("id", "event"):
                event[name] = value
            elif name == "data":
                event["data"] = json.loads(value)
            elif not chunk and event:
                found.append(event)
                event = {}
                if len(found) == count:
                    break
    return found


async def lines(answer: httpx.Response) -> AsyncIterator[str]:
    """Lines as a browser sees them: ended by a line feed, and by no other separator of Unicode."""
    waiting = ""
    async for chunk in answer.aiter_text():
        *whole, waiting = (waiting + chunk).split("\n")
        for line in whole:
            yield line


async def test_the_stream_goes_on_where_the_client_left_off(gateway: Gateway) -> None:
    for number in range(3):
        await gateway.say(text=f"number {number}", message_id=f"m{number}")
    owner = gateway.rung[0].principal
    first = await events(gateway, 2, after="0")
    assert [event["id"] for event in first] == [f"{owner}:1", f"{owner}:2"]
    assert [event["data"]["message_id"] for event in first] == ["m0", "m1"]
    (third,) = await events(gateway, 1, last=first[-1]["id"])
    assert (third["event"], third["data"]["text"], third["data"]["seq"]) == ("message.received", "number 2", 3)


async def test_without_an_id_the_stream_begins_now(gateway: Gateway) -> None:
    await gateway.say(text="before", message_id="m0")
    listening = asyncio.create_task(events(gateway, 1))
    await gateway.listened_for(gateway.rung[0].principal)
    await gateway.say(text="after", message_id="m1")
    (event,) = await listening
    assert (event["data"]["text"], event["data"]["message_id"]) == ("after", "m1")


async def test_a_long_history_comes_complete_and_in_order(gateway: Gateway) -> None:
    await gateway.say(text="hello", message_id="m0")
    owner = gateway.rung[0].principal
    more = [Event("tool.returned", {"text": f"{number}\n\u2028\r"}) for number in range(500)]
    gateway.database.write_now(lambda connection: journal.append(connection, owner, more, under=None))
    found = await events(gateway, 501, after="0")
    assert [event["data"]["seq"] for event in found] == list(range(1, 502))
    assert found[-1]["data"]["text"] == "499\n\u2028\r"


async def test_live_output_comes_between_events_without_an_id(gateway: Gateway) -> None:
    await gateway.say(text="hello", message_id="m0")
    owner = gateway.rung[0].principal
    listening = asyncio.create_task(events(gateway, 2))
    await gateway.listened_for(owner)
    for news in ({"bell": "outbox"}, {"output": "a\nb", "turn": "t"}, {"output": "more", "turn": "t"}):
        gateway.listeners.tell(owner, news)
    found = await listening
    told = [(event["event"], event["data"]["text"], "id" in event) for event in found]
    assert told == [("progress", "a\nb", False), ("progress", "more", False)]


async def test_a_stream_outlives_a_database_that_is_away(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    await gateway.say(text="hello", message_id="m0")
    real, failed = journal.read, []

    def away(*arguments: Any, **options: Any) -> Any:
        if len(failed) < 3:
            failed.append(1)
            raise DatabaseUnavailable("away")
        return real(*arguments, **options)

    monkeypatch.setattr(journal, "read", away)
    (event,) = await events(gateway, 1, after="0")
    assert (event["data"]["message_id"], len(failed)) == ("m0", 3)


async def test_who_leaves_is_listened_for_no_more(gateway: Gateway) -> None:
    await gateway.say(text="hello", message_id="m0")
    await events(gateway, 1, after="0")
    async with asyncio.timeout(20):
        while gateway.listeners._queues:
            await asyncio.sleep(0.005)


async def test_an_event_id_of_somebody_else_or_of_none_is_refused(gateway: Gateway) -> None:
    await gateway.say(text="hello")
    for last in ("x", "-1", "1e3", "\u00b2", "9" * 30, "00000000-0000-0000-0000-000000000000:1"):
        answer = await gateway.client.get("/v1/events", params={"after": last})
        assert (last, answer.status_code, answer.json()) == (last, 400, {"error": texts.BAD_EVENT_ID})


async def test_nobodys_events_are_not_there(gateway: Gateway) -> None:
    answer = await gateway.client.get("/v1/events", params={"user": "nobody"})
    assert (answer.status_code, answer.json()) == (404, {"error": texts.NO_USER})


# A database that is away, and health


async def test_while_the_database_is_away_the_sender_is_told_to_come_again(sqlite_url: str, tmp_path: Path) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    away = path.with_name("away")
    path.rename(away)
    path.mkdir()
    database = Database(sqlite_url)
    async with serving(database, tmp_path / "lives") as gateway:
        for answer in (
            await gateway.say(text="hello", message_id="m1"),
            await gateway.client.get("/v1/messages/m1"),
            await gateway.client.get("/v1/events"),
            await gateway.client.get("/metrics"),
        ):
            assert (answer.status_code, answer.json()) == (503, {"error": texts.TRY_AGAIN})
            assert answer.headers["retry-after"] == "1"
        assert "database" in (await gateway.client.get("/readyz")).json()["missing"]
        assert (await gateway.client.get("/healthz")).status_code == 200
        path.rmdir()
        away.rename(path)
        assert (await gateway.say(text="hello", message_id="m1")).status_code == 202
        assert (len(gateway.rung), gateway.count("inbox")) == (1, 1)
    database.close()


NOT_READY = {"ready": False, "missing": ["runner", "sandbox-manager"], "channels": []}


async def test_what_is_not_ready_is_named_until_it_is(sqlite: Database, valkey: Valkey, tmp_path: Path) -> None:
    async with serving(sqlite, tmp_path / "lives", str(valkey.socket)) as gateway:
        answer = await gateway.client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, NOT_READY)
        services = [Life(gateway.lives, role, "here") for role in ("runner", "sandbox-manager")]
        answer = await gateway.client.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "missing": [], "channels": []})
        valkey.kill()
        assert (await gateway.client.get("/readyz")).json()["missing"] == ["redis"]
        for service in services:
            service.end()


async def test_figures_tell_what_waits(gateway: Gateway) -> None:
    await gateway.say(text="hello", message_id="m0")
    await gateway.say(text="/help", message_id="m1")
    found = (await gateway.client.get("/metrics")).text.splitlines()
    assert "nightporter_inbox_waiting 1.0" in found
    assert 'nightporter_outbox_replies{status="queued"} 1.0' in found

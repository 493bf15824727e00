"""The proxy, asked over the socket that a sandbox has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nightporter.approval_hooks import HOOKS
from tests.sandbox_runner.egress.servers import plain, server
from tests.sandbox_runner.egress.yard import Yard, yard
from workspace_store import approvals, effects, egress_grants


async def test_an_allowed_host_is_reached_and_the_request_is_recorded(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        answer = await made.get(f"http://{outside.authority}/a?b=c")
        assert (answer.status, answer.body) == (200, b"hello from outside\n")
        assert outside.seen[0].first == "GET /a?b=c HTTP/1.1"
        (effect,) = await made.effects()
        assert (effect.method, effect.host, effect.port, effect.status) == ("GET", "127.0.0.1", outside.port, "settled")
        assert (effect.outcome, effect.bytes_in) == (200, 19)


async def test_everything_else_is_refused_with_a_reason_and_a_question(tmp_path: Path, database_url: str) -> None:
    async with yard(tmp_path, database_url) as made:
        await made.hear("please look at the weather")
        answer = await made.get("http://weather.example/")
        assert answer.status == 403
        (asked,) = await made.asked()
        assert answer.error["host"] == "weather.example"
        assert answer.error["approval"] == asked.code
        assert asked.code in answer.error["how"]
        assert made.lookups == []


async def test_what_may_change_something_is_written_down_before_it_goes_out(tmp_path: Path, database_url: str) -> None:
    yards: list[Yard] = []
    states: list[str] = []

    async def look(_: object) -> bytes:
        states.extend(effect.status for effect in await yards[0].effects())
        return plain(b"created", status=b"201 Created")

    async with (
        server(look) as outside,
        yard(tmp_path, database_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        yards.append(made)
        turn = await made.hear("order it")
        answer = await made.get(f"http://{outside.authority}/orders", method="POST", body=b"one")
        assert (answer.status, answer.body) == (201, b"created")
        assert states == ["intended"], "while the server had it"
        (effect,) = await made.effects()
        assert (effect.status, effect.outcome, effect.bytes_out) == ("settled", 201, 3)
        assert effect.turn is not None
        events = await made.events("effect.intended", "effect.settled")
        assert [(event.kind, event.turn) for event in events] == [
            ("effect.intended", effect.turn),
            ("effect.settled", effect.turn),
        ]
        await made.finish(turn)


async def test_it_is_settled_before_the_program_knows_that_it_is_over(tmp_path: Path, sqlite_url: str) -> None:
    """So a command that has ended has no request that is still under way in the ledger."""
    async with (
        server(plain(b"x" * 300_000)) as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        for _ in range(5):
            answer = await made.get(f"http://{outside.authority}/", method="PUT", body=b"y")
            assert len(answer.body) == 300_000
            found = await made.database.read(lambda c: effects.recent(c, made.owner, 1))
            assert found[0].status == "settled"


async def test_an_answer_before_the_whole_request_was_read(tmp_path: Path, sqlite_url: str) -> None:
    answered = plain(b"too large", status=b"413 Content Too Large")

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answered)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with yard(tmp_path, sqlite_url, allow=[f"127.0.0.1:{port}"], allow_private=["127.0.0.1"]) as made:
        reader, writer = await made.connect()
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9000000\r\n\r\n"
        writer.write(head.encode() + b"x" * 100_000)
        async with asyncio.timeout(10):
            assert await reader.readuntil(b"413 Content Too Large")
        writer.close()
    listening.close()


async def test_several_requests_on_one_connection(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        one = f"GET http://{outside.authority}/ HTTP/1.1\r\nHost: {outside.authority}\r\n".encode()
        answer = await made.say(one + b"\r\n", one + b"\r\n", one + b"Connection: close\r\n\r\n")
        assert answer.raw.count(b"HTTP/1.1 200 OK") == 3
        assert answer.raw.count(b"hello from outside") == 3


async def test_a_client_of_http_1_0(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        answer = await made.say(f"GET http://{outside.authority}/ HTTP/1.0\r\n\r\n".encode())
        assert "chunked" not in answer.head
        assert answer.body == b"hello from outside\n"


async def test_a_client_that_waits_for_a_word(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        reader, writer = await made.connect()
        lines = [f"POST http://{outside.authority}/ HTTP/1.1", f"Host: {outside.authority}", "Content-Length: 2"]
        writer.write("\r\n".join([*lines, "Expect: 100-continue", "Connection: close"]).encode() + b"\r\n\r\n")
        async with asyncio.timeout(10):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"ok")
            assert b"200 OK" in await reader.read()
        assert outside.seen[0].body == b"ok"
        writer.close()


@pytest.mark.slow
async def test_the_same_refusal_is_told_with_each_command(tmp_path: Path, sqlite_url: str) -> None:
    async with yard(tmp_path, sqlite_url) as made:
        for _ in range(2):
            await made.tunnel("other.example:443")
            await asyncio.sleep(1.1)  # a flood of the same within a second is told once
        assert [effect.status for effect in await made.effects()] == ["refused", "refused"]


async def test_a_question_takes_effect_when_it_is_answered(tmp_path: Path, database_url: str) -> None:
    async with server() as outside, yard(tmp_path, database_url, allow_private=["shop.example"]) as made:
        made.names["shop.example"] = [["127.0.0.1"]]
        url = f"http://shop.example:{outside.port}/"
        await made.hear("hello")
        assert (await made.get(url)).status == 403
        (asked,) = await made.asked()
        assert [choice.name for choice in asked.choices] == ["hour", "always", "deny"]
        decision = await made.database.write(
            lambda c: approvals.decide(c, asked.code, None, "approve", via="test", choice="hour", hooks=HOOKS)
        )
        assert "from now on" in decision.told
        assert (await made.get(url)).status == 200
        (grant,) = await made.database.read(lambda c: egress_grants.standing(c, made.owner))
        assert grant.until is not None
        assert 3500e6 < grant.until - grant.at <= 3600e6
        again = await made.database.write(
            lambda c: approvals.decide(c, asked.code, None, "approve", via="test", choice="always", hooks=HOOKS)
        )
        assert again.outcome == "already", "an answer is used once"

"""Requests that two parsers read differently: what is not plainly one request for one host never goes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox_runner.egress.servers import Server, server
from tests.sandbox_runner.egress.yard import Answered, yard


async def send(tmp_path: Path, url: str, raw: bytes, **settings: list[str]) -> tuple[Answered, Server]:
    """``raw`` sent as it is, PORT replaced; what came back, and the server that ``good.example:PORT`` is."""
    async with server() as outside:
        allow = [f"good.example:{outside.port}", *settings.get("allow", [])]
        async with yard(tmp_path, url, allow=allow, allow_private=["good.example"]) as made:
            made.names["good.example"] = [["127.0.0.1"]]
            return await made.say(raw.replace(b"PORT", str(outside.port).encode())), outside


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
TARGET = b"http://good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"POST " + TARGET + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Content-Length: 4\r\nContent-Length: 44\r\n\r\nabcd" + SMUGGLED,
        b"POST " + TARGET + b"Content-Length: 4, 44\r\n\r\nabcd" + SMUGGLED,
        b"POST " + TARGET + b"Content-Length: +4\r\n\r\nabcd" + SMUGGLED,
        b"POST " + TARGET + b"Content-Length: -1\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST " + TARGET + b"X: 1\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"GET " + TARGET + b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"GET " + TARGET + b"X: a\rY: b\r\n\r\n" + SMUGGLED,
        b"GET " + TARGET + b"X: a\x00b\r\n\r\n" + SMUGGLED,
        b"GET http://good.example:PORT/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"GET http://good.example:PORT/ HTTP/1.1\r\n\r\n" + SMUGGLED,
        b"GET  http://good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\n\r\n",
        b"GET http://good.example:PORT/ HTTP/2.0\r\nHost: good.example:PORT\r\n\r\n",
        b"GET\thttp://good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\n\r\n",
    ],
)
async def test_a_request_that_can_be_read_in_two_ways(tmp_path: Path, sqlite_url: str, raw: bytes) -> None:
    answer, outside = await send(tmp_path, sqlite_url, raw)
    assert answer.status == 400
    assert answer.raw.count(b"X-Nightporter-Egress") == 1
    assert outside.seen == []


@pytest.mark.parametrize(
    "raw",
    [
        b"GET http://good.example:PORT/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://good.example:PORT/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET http://good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\nHost: evil.example\r\n\r\n",
        b"GET http://good.example:PORT/ HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n",
        b"CONNECT good.example:PORT HTTP/1.1\r\nHost: evil.example:PORT\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: good.example:PORT\r\n\r\n",
        b"GET http:///good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\n\r\n",
    ],
)
async def test_a_host_header_other_than_the_target(tmp_path: Path, sqlite_url: str, raw: bytes) -> None:
    answer, outside = await send(tmp_path, sqlite_url, raw)
    assert answer.status == 400
    assert outside.seen == []


@pytest.mark.parametrize(
    "target",
    [
        "http://good.example:PORT@evil.example/", "http://good.example@evil.example/", "http://evil.example/good.example",
        "http://evil.example#@good.example:PORT/", "http://evil.example?@good.example:PORT/",
        "http://evil.example\\@good.example:PORT/", "http://good.example.evil.example/", "http://xgood.example:PORT/",
        "http://evil-good.example:PORT/", "http://good.example%2eevil.example/", "http://good.example:PORT:80/",
        "http://user:pass@good.example:PORT/", "http://good.example:/", "http://good.example:0/",
        "http://good.example:99999/", "http://good.example:80x/", "http://good.example/", "http://good.example:22/",
        "https://good.example:PORT/", "ftp://good.example:PORT/", "file:///etc/passwd", "http://göod.example/",
    ],
)  # fmt: skip
async def test_a_target_that_looks_like_the_allowed_one(tmp_path: Path, sqlite_url: str, target: str) -> None:
    named = target.partition("://")[2].partition("/")[0]
    raw = f"GET {target} HTTP/1.1\r\nHost: {named}\r\n\r\n".encode()
    answer, outside = await send(tmp_path, sqlite_url, raw)
    assert answer.status in (400, 403)
    assert outside.seen == []


async def test_a_second_request_in_a_body_stays_a_body(tmp_path: Path, sqlite_url: str) -> None:
    raw = b"POST " + TARGET + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(SMUGGLED) + SMUGGLED
    answer, outside = await send(tmp_path, sqlite_url, raw)
    assert answer.status == 200
    assert [seen.first for seen in outside.seen] == ["POST / HTTP/1.1"]
    assert outside.seen[0].body == SMUGGLED


async def test_a_chunk_extension_does_not_go_out(tmp_path: Path, sqlite_url: str) -> None:
    raw = (
        b"POST "
        + TARGET
        + b'Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;x="y"\r\nabc\r\n0\r\nT: 1\r\n\r\n'
    )
    _, outside = await send(tmp_path, sqlite_url, raw)
    assert outside.seen[0].body == b"3\r\nabc\r\n0\r\n\r\n"


async def test_the_next_request_on_the_connection_is_judged_anew(tmp_path: Path, sqlite_url: str) -> None:
    raw = b"GET " + TARGET + b"\r\nGET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    answer, outside = await send(tmp_path, sqlite_url, raw)
    assert answer.raw.count(b"HTTP/1.1 200") == 1
    assert b"HTTP/1.1 403" in answer.raw
    assert len(outside.seen) == 1


async def test_headers_for_the_proxy_alone_do_not_go_out(tmp_path: Path, sqlite_url: str) -> None:
    raw = (
        b"GET " + TARGET + b"Proxy-Authorization: Basic c2VjcmV0\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nKeep-Alive: 5\r\nTE: trailers\r\n\r\n"
    )
    _, outside = await send(tmp_path, sqlite_url, raw)
    assert set(outside.seen[0].headers) == {"host", "connection"}
    assert outside.seen[0].headers["connection"] == "close"


async def test_an_endless_head(tmp_path: Path, sqlite_url: str) -> None:
    answer, outside = await send(tmp_path, sqlite_url, b"GET " + TARGET + b"X: " + b"a" * (1 << 17) + b"\r\n\r\n")
    assert (answer.status, outside.seen) == (400, [])


async def test_trace(tmp_path: Path, sqlite_url: str) -> None:
    answer, outside = await send(tmp_path, sqlite_url, b"TRACE " + TARGET + b"\r\n")
    assert (answer.status, outside.seen) == (403, [])


async def test_a_method_that_is_not_allowed(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[f"GET|HEAD {outside.authority}"], allow_private=["127.0.0.1"]) as made,
    ):
        assert (await made.get(f"http://{outside.authority}/", method="DELETE")).error["error"] == "method_not_allowed"
        assert (await made.get(f"http://{outside.authority}/")).status == 200
        assert [seen.first for seen in outside.seen] == ["GET / HTTP/1.1"]


async def test_a_server_that_smuggles_a_second_response(tmp_path: Path, sqlite_url: str) -> None:
    twice = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    )
    async with (
        server(twice) as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        assert (await made.get(f"http://{outside.authority}/")).status == 502

"""Getting at a credential, or beyond what it was given for."""

from __future__ import annotations

import base64
import gzip
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox_runner.egress import trust
from tests.sandbox_runner.egress.servers import HELLO, Answer, Certificates, Server, plain, server
from tests.sandbox_runner.egress.yard import Answered, Yard, yard

SECRET = "s3cr3t-token-0123456789"
VALUE = f"Bearer {SECRET}"


class Api:
    """``api.example``, which has a credential, and what a sandbox asks of it."""

    def __init__(self, made: Yard, outside: Server, folder: Path) -> None:
        self.made, self.outside = made, outside
        self.authority = f"api.example:{outside.port}"
        self.trusting = ssl.create_default_context(cafile=str(trust.bundle_path(folder)))

    async def ask(self, first: str, *headers: str, body: str = "", host: str | None = None) -> Answered:
        """A request in TLS, the sandbox trusting what it is given to trust."""
        named = f"Host: {host or self.authority}"
        lines = [f"{first} HTTP/1.1", *([named] if host != "" else []), "Connection: close", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body.encode()
        return await self.made.secure(self.authority, self.trusting, request)


@asynccontextmanager
async def api(
    folder: Path,
    url: str,
    answer: Answer | bytes = HELLO,
    *,
    allow: tuple[str, ...] = (),
    speaks_for: str = "api.example",
    **credential: Any,
) -> AsyncIterator[Api]:
    certificates = Certificates(folder)
    async with server(answer, tls=certificates.context(speaks_for)) as outside:
        settings = {
            "credentials": [{"host": f"api.example:{outside.port}", "value": VALUE, **credential}],
            "allow": allow,
            "allow_private": ["api.example", "*.api.example"],
            "ca_file": str(certificates.path),
        }
        async with yard(folder, url, **settings) as made:
            made.names["api.example"] = [["127.0.0.1"]]
            yield Api(made, outside, folder)


async def test_it_is_added_outside_and_the_sandbox_sees_our_certificate(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        answer = await its.ask("GET /user?x=1")
        assert (answer.status, answer.body) == (200, b"hello from outside\n")
        (seen,) = its.outside.seen
        assert (seen.first, seen.headers["authorization"]) == ("GET /user?x=1 HTTP/1.1", VALUE)
        (effect,) = await its.made.effects()
        assert (effect.method, effect.host, effect.outcome) == ("GET", "api.example", 200)


async def test_a_value_of_ones_own_in_its_place(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        await its.ask("GET /", "Authorization: Bearer mine", "authorization: Basic bWluZQ==", "Proxy-Authorization: x")
        assert its.outside.seen[0].head.lower().count(b"authorization") == 1
        assert its.outside.seen[0].headers["authorization"] == VALUE


async def test_a_method_it_was_not_given_for(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        for method in ("POST", "DELETE", "PATCH", "get", "TRACE"):
            assert (await its.ask(f"{method} /")).status == 403
        assert its.outside.seen == []


async def test_another_method_behind_a_header(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        await its.ask("GET /", "X-HTTP-Method-Override: DELETE", "X-HTTP-Method: PUT", "X-Method-Override: PATCH")
        assert b"override" not in its.outside.seen[0].head.lower()
        assert b"x-http-method" not in its.outside.seen[0].head.lower()


@pytest.mark.parametrize(
    "path",
    ["/admin", "/repos", "/reposx/a", "/repos/../admin", "/repos/..", "/repos/%2e%2e/admin", "/repos/%2E./admin",
     "/repos/..%2fadmin", "/repos/..%5cadmin", "/repos\\..\\admin", "//repos/", "/repos//../admin", "/repos/..;/admin",
     "/REPOS/a", "/%72epos/a"],
)  # fmt: skip
async def test_a_path_it_was_not_given_for(tmp_path: Path, sqlite_url: str, path: str) -> None:
    async with api(tmp_path, sqlite_url, paths=["/repos/"]) as its:
        assert (await its.ask(f"GET {path}")).status in (400, 403)
        assert its.outside.seen == []
        assert (await its.ask("GET /repos/mine?path=/../x")).status == 200


async def test_a_request_for_another_host_in_its_tunnel(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        for host in ("evil.example", "api.example", f"api.example:{its.outside.port + 1}", "user@api.example"):
            assert (await its.ask("GET /", host=host)).status in (400, 421)
        assert (await its.ask("GET https://evil.example/", "X: 1")).status == 400
        assert (await its.ask("GET /", host="")).status == 400
        assert its.outside.seen == []


async def test_a_host_beside_the_one_it_is_for(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as beside, api(tmp_path, sqlite_url, allow=(f"www.api.example:{beside.port}",)) as its:
        its.made.names["www.api.example"] = [["127.0.0.1"]]
        assert (await its.made.get(f"http://www.api.example:{beside.port}/")).status == 200
        assert "authorization" not in beside.seen[0].headers


async def test_in_the_clear(tmp_path: Path, sqlite_url: str) -> None:
    """Over plain http to another machine it is not sent: here, this machine by an address that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has loopback only")
        address = probe.getsockname()[0]
    async with server(host=address) as outside:
        entry = {"host": f"api.example:{outside.port}", "value": VALUE}
        async with yard(
            tmp_path, sqlite_url, credentials=[entry], allow=[f"api.example:{outside.port}"],
            allow_private=["api.example"],
        ) as made:  # fmt: skip
            made.names["api.example"] = [[address]]
            await made.get(f"http://api.example:{outside.port}/")
            assert SECRET.encode() not in outside.seen[0].head


SPLITS = [1, 3, 7, 16]


def chunked(text: bytes, size: int) -> bytes:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


@pytest.mark.parametrize("size", SPLITS)
async def test_a_server_that_says_it_back_in_pieces(tmp_path: Path, sqlite_url: str, size: int) -> None:
    text = b"before " + VALUE.encode() + b" between " + SECRET.encode() + b" after"
    async with api(tmp_path, sqlite_url, chunked(text, size)) as its:
        answer = await its.ask("GET /echo")
        assert answer.body == b"before [redacted] between [redacted] after"


@pytest.mark.parametrize(
    "said",
    [SECRET, VALUE, base64.b64encode(SECRET.encode()).decode(), "Bearer%20s3cr3t-token-0123456789",
     f'{{"authorization": "{VALUE}"}}'],
)  # fmt: skip
async def test_a_server_that_says_it_back_in_another_spelling(tmp_path: Path, sqlite_url: str, said: str) -> None:
    async with api(tmp_path, sqlite_url, plain(said.encode(), b"X-Echo: " + said.encode())) as its:
        answer = await its.ask("GET /echo")
        assert SECRET.encode() not in answer.raw
        assert base64.b64encode(SECRET.encode()).rstrip(b"=") not in answer.raw
        assert answer.raw.count(b"[redacted]") >= 2


async def test_a_server_that_says_it_back_compressed(tmp_path: Path, sqlite_url: str) -> None:
    packed = gzip.compress(VALUE.encode() * 3)
    async with api(tmp_path, sqlite_url, plain(packed, b"Content-Encoding: gzip")) as its:
        answer = await its.ask("GET /echo", "Accept-Encoding: gzip, br")
        assert its.outside.seen[0].headers["accept-encoding"] == "identity"
        assert answer.body == b"[redacted]" * 3


async def test_a_server_that_says_it_back_in_a_coding_nobody_reads(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url, plain(b"\x0b\x02\x80", b"Content-Encoding: br")) as its:
        assert (await its.ask("GET /echo")).status == 502


async def test_asking_for_it_piece_by_piece(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url) as its:
        await its.ask("GET /echo", "Range: bytes=0-3", "If-Range: x")
        assert "range" not in its.outside.seen[0].headers


async def test_a_server_that_is_not_who_it_says(tmp_path: Path, sqlite_url: str) -> None:
    """Verified upstream: no byte of a request reaches a server without the right certificate."""
    async with api(tmp_path, sqlite_url, speaks_for="evil.example") as its:
        answer = await its.ask("GET /")
        assert answer.status == 502
        assert "certificate" in answer.error["reason"]
        assert its.outside.seen == []


async def test_reading_it_where_things_are_written_down(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url, methods=["POST"]) as its:
        await its.ask("POST /hook?key=in-the-query", body="in-the-body")
        assert [effect.status for effect in await its.made.effects()] == ["settled"]
        written = b"".join(path.read_bytes() for path in tmp_path.glob("nightporter.db*"))
        for secret in (SECRET, "in-the-query", "in-the-body"):
            assert secret.encode() not in written
        assert SECRET not in repr(its.made.settings)


async def test_the_authoritys_key_is_its_owners_alone(tmp_path: Path, sqlite_url: str) -> None:
    async with api(tmp_path, sqlite_url):
        key = tmp_path / trust.FOLDER / "ca.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        assert b"PRIVATE" not in trust.bundle_path(tmp_path).read_bytes()


async def test_a_host_without_credential_is_not_opened(tmp_path: Path, sqlite_url: str) -> None:
    """The sandbox trusts our authority; it is used for the hosts of the settings only."""
    certificates = Certificates(tmp_path)
    trusting = certificates.client()
    async with (
        server(tls=certificates.context("other.api.example")) as other,
        api(tmp_path, sqlite_url, allow=(f"other.api.example:{other.port}",)) as its,
    ):
        its.made.names["other.api.example"] = [["127.0.0.1"]]
        request = f"GET / HTTP/1.1\r\nHost: other.api.example:{other.port}\r\n\r\n".encode()
        answer = await its.made.secure(f"other.api.example:{other.port}", trusting, request)
        assert answer.body == b"hello from outside\n"

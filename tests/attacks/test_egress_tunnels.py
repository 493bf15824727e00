"""What is put into a tunnel: only TLS, and only for the host that was asked for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.sandbox_runner.egress.servers import Certificates, Server, server
from tests.sandbox_runner.egress.yard import Tls, Yard, yard

GET = b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"
DENIED = bytes((21, 3, 3, 0, 2, 2, 49))


@asynccontextmanager
async def tunnelling(folder: Path, url: str, *prefix: str) -> AsyncIterator[tuple[Yard, Server, Certificates]]:
    """A TLS server that ``good.example`` is, allowed by an entry that begins with ``prefix``."""
    certificates = Certificates(folder)
    async with server(tls=certificates.context("good.example", "other.example")) as outside:
        entry = f"{''.join(prefix)}good.example:{outside.port}"
        async with yard(folder, url, allow=[entry], allow_private=["good.example"]) as made:
            made.names["good.example"] = [["127.0.0.1"]]
            yield made, outside, certificates


async def test_tls_for_the_host_asked_for_passes_untouched(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        answer = await made.secure(f"good.example:{outside.port}", certificates.client(), GET)
        assert answer.body == b"hello from outside\n", "and its own certificate was accepted"
        (effect,) = await made.settled()
        assert (effect.host, effect.status) == ("good.example", "settled")
        assert effect.bytes_out > len(GET)


async def refused(made: Yard, outside: Server, first: bytes) -> bytes:
    """What comes back for these first bytes in a tunnel; nothing of them may have reached the server."""
    answer, reader, writer = await made.tunnel(f"good.example:{outside.port}")
    assert answer.status == 200
    writer.write(first)
    await writer.drain()
    async with asyncio.timeout(20):
        data = await reader.read()
    writer.close()
    assert outside.seen == []
    return data


@pytest.mark.parametrize(
    "first",
    [GET, b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\xff\xff" + b"a" * 100, b"\x00" * 64,
     b"\x16\x02\x00\x00\x04\x01\x00\x00\x00", b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"\x80\x2e\x01\x00\x02"],
)  # fmt: skip
async def test_something_other_than_tls(tmp_path: Path, sqlite_url: str, first: bytes) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, _):
        assert await refused(made, outside, first) == DENIED
        assert [each.status for each in await made.effects()] == ["refused"]


async def test_another_server_name(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
            await made.secure(f"good.example:{outside.port}", certificates.client(), GET, "other.example")
        assert outside.seen == []
        assert "other.example" in (await made.effects())[0].reason


async def test_no_server_name(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, _):
        careless = ssl.create_default_context()
        careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
            await made.secure(f"good.example:{outside.port}", careless, GET, None)
        assert outside.seen == []


def client_hello(context: ssl.SSLContext, name: str) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def with_extension(hello: bytes, kind: int, content: bytes) -> bytes:
    """A ClientHello with one more extension."""
    extension = kind.to_bytes(2, "big") + len(content).to_bytes(2, "big") + content
    body = hello[9:]
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    extensions = body[at + 2 :] + extension
    body = body[:at] + len(extensions).to_bytes(2, "big") + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


async def test_a_hidden_server_name(tmp_path: Path, sqlite_url: str) -> None:
    """Encrypted Client Hello: the name that can be read is not the one that counts."""
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        hello = client_hello(certificates.client(), "good.example")
        assert await refused(made, outside, with_extension(hello, 0xFE0D, b"\x00" * 32)) == DENIED
        assert "ECH" in (await made.effects())[0].reason


async def test_two_server_names(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        second = b"\x00\x10\x00\x00\x0devil.example0"
        hello = with_extension(client_hello(certificates.client(), "good.example"), 0, second)
        assert await refused(made, outside, hello) == DENIED


async def test_a_server_name_cut_into_pieces_is_read_whole(tmp_path: Path, sqlite_url: str) -> None:
    """Records of a byte each: a reader of first packets would see no name, and let it pass."""
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        message = client_hello(certificates.client(), "other.example")[5:]
        pieces = b"".join(b"\x16\x03\x01\x00\x01" + message[i : i + 1] for i in range(len(message)))
        assert await refused(made, outside, pieces) == DENIED


async def test_a_tunnel_to_a_port_that_is_not_allowed(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, _, _c):
        for port in (22, 25, 443, 6379):
            answer, _, _ = await made.tunnel(f"good.example:{port}")
            assert answer.status == 403


async def test_a_rule_for_tcp_lets_anything_through(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[f"tcp://{outside.authority}"], allow_private=["127.0.0.1"]) as made,
    ):
        answer, reader, writer = await made.tunnel(outside.authority)
        assert answer.status == 200
        writer.write(GET)
        async with asyncio.timeout(20):
            assert b"hello from outside" in await reader.read()
        writer.close()


async def test_a_tunnel_ends_with_its_sandbox(tmp_path: Path, sqlite_url: str) -> None:
    async with tunnelling(tmp_path, sqlite_url) as (made, outside, certificates):
        _, reader, writer = await made.tunnel(f"good.example:{outside.port}")
        tls = Tls(reader, writer, certificates.client(), "good.example")
        async with asyncio.timeout(20):
            await tls.handshake()
            made.door.close("sandbox-1")
            await reader.read()
        writer.close()
        assert [each.status for each in await made.settled()] == ["settled"]

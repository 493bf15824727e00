"""Hostile HTTP clients, without a token: what they can cost is bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.local.http_protocol import BoundedHttp

HEALTHZ = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Impatient(BoundedHttp):
    head_seconds = 0.3
    body_seconds = 0.3
    max_connections = 20


class Patient(BoundedHttp):
    head_seconds = body_seconds = 60.0
    max_connections = 20


async def healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


@asynccontextmanager
async def serving(protocol: type[BoundedHttp]) -> AsyncIterator[int]:
    app = Starlette(routes=[Route("/healthz", healthz), Route("/echo", echo, methods=["POST"])])
    config = uvicorn.Config(app, http=protocol, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running


async def connect(port: int, sent: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def rest(streams: Streams) -> bytes:
    """What still comes until the server hangs up."""
    async with asyncio.timeout(20):
        try:
            return await streams[0].read()
        except ConnectionError:
            return b""


async def sent_until_refused(streams: Streams, pieces: list[bytes], pause: float = 0.0) -> int:
    """How many bytes could be sent before the server hung up."""
    sent = 0
    try:
        for piece in pieces:
            streams[1].write(piece)
            await streams[1].drain()
            await asyncio.sleep(pause)
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


async def is_served(port: int) -> bool:
    reader, writer = await connect(port, HEALTHZ)
    async with asyncio.timeout(20):
        answer = await reader.readline()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [b"GET /healthz HTTP/1.1\r\nx: ", b"GET /", b"GET /healthz HTTP/1.1\r\n"])
async def test_a_head_without_end_is_refused_soon(start: bytes) -> None:
    async with serving(Patient) as port:
        piece = b"a: b\r\n" * 1000 if start.endswith(b"\n") else b"a" * 6000
        taken = await sent_until_refused(await connect(port, start), [piece] * 1000)
        assert taken < 4 << 20, "what sockets hold"
        assert await is_served(port)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\nx-",
        HEALTHZ + b"GET /",
        b"POST /echo HTTP/1.1\r\ncontent-length: 9\r\n\r\n1234",
        b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
async def test_a_client_that_does_not_go_on_is_left(sent: bytes) -> None:
    async with serving(Impatient) as port:
        answers = await rest(await connect(port, sent))
        assert answers.count(b"200 OK") == sent.count(HEALTHZ)


async def test_one_byte_at_a_time_gains_no_time() -> None:
    async with serving(Impatient) as port:
        streams = await connect(port, b"GET /healthz HTTP/1.1\r\nx: ")
        assert await sent_until_refused(streams, [b"a"] * 1000, pause=0.01) < 1000


async def test_those_who_keep_us_waiting_make_room_for_others() -> None:
    async with serving(Patient) as port, AsyncExitStack() as stack:
        for _ in range(3 * Patient.max_connections):
            _, writer = await connect(port, b"GET /healthz HTTP/1.1\r\nx-")
            stack.callback(writer.close)
        assert await is_served(port)


async def test_a_slow_answer_and_a_long_body_are_no_abuse() -> None:
    async with serving(Impatient) as port:
        body = b"x" * (3 << 20)
        head = b"POST /echo HTTP/1.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        streams = await connect(port, head + body)
        assert (await rest(streams)).endswith(b"%d" % len(body))

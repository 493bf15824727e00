"""Tunnels whose content passes untouched: only the first message of TLS is read, and bytes are counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sandbox_runner.egress import client_hello, names, texts
from sandbox_runner.egress.answers import Refused
from sandbox_runner.egress.budgets import OverBudget
from sandbox_runner.egress.client_hello import ClientHello, NotTls
from sandbox_runner.egress.ledger import Outgoing
from sandbox_runner.egress.names import BadHost
from sandbox_runner.egress.wire import Reading, Wire, WireEnded

HELLO_SECONDS = 20.0
IDLE_SECONDS = 900.0


async def server_name_checked(reading: Reading, host: str, port: int) -> ClientHello:
    """The client's first message, if it asks for the very host that the tunnel is for. Raises Refused, WireEnded."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = await client_hello.read(reading)
    except NotTls:
        raise Refused(403, "not_tls", texts.not_tls(host, port), texts.HOW_NOT_TLS, host, port) from None
    except TimeoutError:
        raise WireEnded("the client said nothing in its tunnel") from None
    if hello.encrypted:
        raise Refused(403, "hidden_server_name", texts.hidden_server_name(), texts.HOW_NOT_TLS, host, port)
    if hello.server_name is None:
        # RFC 6066 has no server name for an address: then the tunnel's own is all there is.
        if names.address_of(host) is None:
            raise Refused(403, "no_server_name", texts.no_server_name(host), texts.HOW_NOT_TLS, host, port)
        return hello
    try:
        asked = names.canonical(hello.server_name)
    except BadHost:
        asked = ""
    if asked != host:
        reason = texts.other_server_name(host, hello.server_name)
        raise Refused(403, "other_server_name", reason, texts.HOW_NOT_TLS, host, port)
    return hello


async def carry(reading: Reading, client: Wire, server: Wire, going: Outgoing, spend: Callable[[int], None]) -> str:
    """Carry bytes both ways until both sides have ended; why it ended otherwise, or "" . ``spend`` counts bytes."""
    loop = asyncio.get_running_loop()
    last = [loop.time()]

    def counted(data: bytes, *, out: bool) -> bytes:
        last[0] = loop.time()
        if out:
            going.bytes_out += len(data)
            going.sent = True
        else:
            going.bytes_in += len(data)
        spend(len(data))
        return data

    async def outward() -> None:
        while data := await reading.some():
            await server.send(counted(data, out=True))
        await server.finish()

    async def inward() -> None:
        while data := await server.receive():
            await client.send(counted(data, out=False))
        await client.finish()

    ways = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        while True:
            done, waiting = await asyncio.wait(ways, timeout=60, return_when=asyncio.FIRST_EXCEPTION)
            for way in done:
                error = way.exception()
                if isinstance(error, OverBudget):
                    return texts.over_budget("bytes")
                if isinstance(error, WireEnded):
                    return ""
                if error is not None:
                    raise error
            if not waiting:
                return ""
            if loop.time() - last[0] > IDLE_SECONDS:
                return f"nothing was carried for {IDLE_SECONDS:g} s"
    finally:
        for way in ways:
            way.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*ways, return_exceptions=True)

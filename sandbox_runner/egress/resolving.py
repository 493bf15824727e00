"""Names to addresses, outside the sandbox, and connections to exactly the address that was checked.

A name is looked up once per connection, every address it has is judged, and the connection goes to one of those very
addresses: what the name means a moment later (DNS rebinding) does not matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sandbox_runner.egress import names, texts
from sandbox_runner.egress.addresses import refusal
from sandbox_runner.egress.answers import Refused
from sandbox_runner.egress.names import Address
from sandbox_runner.egress.rules import Place
from sandbox_runner.egress.wire import StreamWire

LOOKUP_SECONDS = 8.0
CONNECT_SECONDS = 15.0
ATTEMPT_SECONDS = 6.0
_LOOKUPS = 8
_MOST_ADDRESSES = 16

Lookup = Callable[[str], Awaitable[Sequence[Address]]]


class SystemLookup:
    """The system's resolver, a few look-ups at a time."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._room = asyncio.Semaphore(_LOOKUPS)

    async def __call__(self, host: str) -> Sequence[Address]:
        """Raises OSError, TimeoutError."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_LOOKUPS, "egress-lookup")
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LOOKUP_SECONDS), self._room:
            found = await loop.run_in_executor(
                self._threads, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            )
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        return list(dict.fromkeys(addresses))

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class Dialer:
    """Finds and reaches hosts. ``private``: those that may be private."""

    def __init__(self, lookup: Lookup, private: Sequence[Place], context: Callable[[], ssl.SSLContext]) -> None:
        self._lookup = lookup
        self._private = private
        self._context = context

    def check_literal(self, host: str, port: int) -> None:
        """Raises Refused for an address that no rule and no person can allow."""
        address = names.address_of(host)
        if address is not None:
            self._check(host, port, [address])

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Every address of a host, all of them checked. Raises Refused."""
        literal = names.address_of(host)
        if literal is not None:
            found: Sequence[Address] = [literal]
        else:
            try:
                found = (await self._lookup(host))[:_MOST_ADDRESSES]
            except (OSError, TimeoutError, UnicodeError):
                found = []
        if not found:
            raise Refused(502, "not_found", texts.not_found(host), texts.HOW_AGAIN, host, port)
        self._check(host, port, found)
        return list(found)

    def is_private(self, host: str, port: int) -> bool:
        return any(place.pattern.matches(host) and place.port in (None, port) for place in self._private)

    def _check(self, host: str, port: int, found: Sequence[Address]) -> None:
        allowed = self.is_private(host, port)
        for address in found:
            # One bad address is enough: a name that means both is a trick, or a mistake that a person should see.
            why = refusal(address, private_allowed=allowed)
            if why:
                reason = texts.bad_address(host, str(address), why)
                raise Refused(403, "private_address", reason, texts.HOW_PRIVATE, host, port)

    async def connect(self, host: str, port: int, *, secure: bool) -> tuple[StreamWire, Address]:
        """Connect to a checked address; with ``secure`` TLS, the server's certificate checked against ``host``.

        Raises Refused.
        """
        addresses = await self.addresses(host, port)
        problem = "no answer"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                for address in addresses:
                    try:
                        async with asyncio.timeout(ATTEMPT_SECONDS):
                            return await self._open(address, host, port, secure), address
                    except TimeoutError:
                        problem = "no answer"
                    except ssl.SSLCertVerificationError as error:
                        problem = f"its certificate is not valid: {error.verify_message}"
                    except (OSError, ssl.SSLError) as error:
                        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Refused(502, "not_reached", texts.not_reached(host, port, problem), texts.HOW_AGAIN, host, port)

    async def _open(self, address: Address, host: str, port: int, secure: bool) -> StreamWire:
        if not secure:
            return StreamWire(*await asyncio.open_connection(str(address), port))
        return StreamWire(*await asyncio.open_connection(str(address), port, ssl=self._context(), server_hostname=host))

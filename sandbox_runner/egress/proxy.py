"""The proxy: what one connection from a sandbox may do, request by request.

Every request is judged by itself, also the next one on the same connection and one that follows a redirect. What goes
out is written anew from what was understood, to the very address that was checked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sandbox_runner.egress import credentials, http1, names, texts, tunnels
from sandbox_runner.egress.answers import Refused
from sandbox_runner.egress.authority import Authority
from sandbox_runner.egress.budgets import Budgets, OverBudget
from sandbox_runner.egress.client_hello import ACCESS_DENIED
from sandbox_runner.egress.clients import Client
from sandbox_runner.egress.credentials import Credential
from sandbox_runner.egress.exchange import Exchange
from sandbox_runner.egress.http1 import BadMessage, Request
from sandbox_runner.egress.ledger import Ledger, Outgoing, outgoing
from sandbox_runner.egress.names import BadHost
from sandbox_runner.egress.policy import Policy
from sandbox_runner.egress.redact import CannotLook, Redactor
from sandbox_runner.egress.resolving import Dialer
from sandbox_runner.egress.rules import SAFE_METHODS, Allowed
from sandbox_runner.egress.wire import Reading, TlsServerWire, TooLong, Wire, WireEnded

log = structlog.get_logger()

HEAD_SECONDS = 60.0

_BROKEN = (WireEnded, BadMessage, TooLong, CannotLook, OverBudget, TimeoutError)


@dataclass(frozen=True)
class Target:
    """Where a request goes. ``secure``: TLS is ended here, and begun anew to the server."""

    host: str
    port: int
    path: str
    secure: bool


@dataclass
class Proxy:
    """Everything that connections share."""

    policy: Policy
    dialer: Dialer
    ledger: Ledger
    budgets: Budgets
    authority: Callable[[], Authority]

    async def serve(self, client: Client, wire: Wire) -> None:
        """One connection, to its end. Never raises."""
        reading = Reading(wire)
        try:
            while await self._next(client, wire, reading):
                pass
        except (WireEnded, OSError):
            pass  # the client went away, or broke off: nobody is left to be told
        except Exception:
            log.exception("a connection failed", sandbox=client.sandbox_id)
        finally:
            wire.close()

    async def _next(self, client: Client, wire: Wire, reading: Reading) -> bool:
        request = await self._read(wire, reading)
        if request is None:
            return False
        try:
            if request.method == "CONNECT":
                await self._connect(client, wire, reading, request)
                return False
            return await self._request(client, wire, reading, request, _plain_target(request))
        except Refused as refused:
            await self._refuse(client, request, refused)
            await wire.send(refused.response(head_only=request.method == "HEAD"))
            return False

    @staticmethod
    async def _read(wire: Wire, reading: Reading) -> Request | None:
        """The next request; None at the end, or where it was none and that has been said."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                return await http1.read_request(reading)
        except TimeoutError:
            return None
        except (BadMessage, TooLong) as error:
            reason = str(error) or "the head of the request is too long"
            await wire.send(Refused(400, "bad_request", reason, texts.HOW_PLAIN).response())
            return None

    async def _refuse(self, client: Client, request: Request, refused: Refused) -> None:
        """Write a refusal down, so that the command's result can tell of it; not each of a flood."""
        if not client.is_worth_telling((refused.host, refused.port, refused.kind)):
            return
        log.info("refused", sandbox=client.sandbox_id, host=refused.host, port=refused.port, kind=refused.kind)
        if refused.host and refused.kind not in ("not_recorded", "stale_sandbox"):
            going = outgoing(client.tenancy, refused.host, refused.port, request.method, request.target)
            reason = f"{refused.reason}; approval {refused.approval}" if refused.approval else refused.reason
            with contextlib.suppress(Exception):
                await self.ledger.refuse(going, reason)

    # Tunnels

    async def _connect(self, client: Client, wire: Wire, reading: Reading, request: Request) -> None:
        host, port = _authority(request.target, None)
        if request.host is not None and _authority(request.host, port) != (host, port):
            raise Refused(400, "other_host", texts.other_host(host, request.host), texts.HOW_PLAIN, host, port)
        await self.budgets.begin(client.tenancy.principal, host, port)
        allowed = await self.policy.admit(client.tenancy, host, port, None, self.dialer.check_literal)
        keys = self.policy.keyring.at(host, port)
        if not allowed.opaque and (keys or allowed.methods is not None):
            await self.dialer.addresses(host, port)
            await self._terminated(client, wire, reading, host, port)
        else:
            await self._untouched(client, wire, reading, host, port, allowed)

    async def _untouched(
        self, client: Client, wire: Wire, reading: Reading, host: str, port: int, allowed: Allowed
    ) -> None:
        """Carry a tunnel's bytes as they are: TLS for the host that was asked for, or anything where a rule says so."""
        server, _ = await self.dialer.connect(host, port, secure=False)
        try:
            await wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            hello = b"" if allowed.opaque else await self._hello(client, wire, reading, host, port)
            if hello is not None:
                await self._carry(
                    client, wire, reading, server, hello, outgoing(client.tenancy, host, port, "CONNECT", "")
                )
        finally:
            server.close()

    async def _carry(
        self, client: Client, wire: Wire, reading: Reading, server: Wire, hello: bytes, going: Outgoing
    ) -> None:
        """What is in a tunnel cannot be seen, so it is written down as what may change something."""
        try:
            await self.ledger.intend(going)
        except Refused as refused:
            await self._refuse(client, _tunnel(going.host, going.port), refused)
            await wire.send(ACCESS_DENIED)
            return
        reason = "it was cut off"
        try:
            going.sent = bool(hello)
            going.bytes_out += len(hello)
            await server.send(hello)
            reason = await tunnels.carry(reading, wire, server, going, _spender(self.budgets, client))
        finally:
            await asyncio.shield(self.ledger.settle(going, "settled", reason))

    async def _hello(self, client: Client, wire: Wire, reading: Reading, host: str, port: int) -> bytes | None:
        """The checked ClientHello; None: refused, which the client was told in TLS's own words."""
        try:
            return (await tunnels.server_name_checked(reading, host, port)).raw
        except Refused as refused:
            await self._refuse(client, _tunnel(host, port), refused)
            await wire.send(ACCESS_DENIED)
            return None

    # Where TLS is ended

    async def _terminated(self, client: Client, wire: Wire, reading: Reading, host: str, port: int) -> None:
        await wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        hello = await self._hello(client, wire, reading, host, port)
        if hello is None:
            return
        context = await asyncio.to_thread(self.authority().context, host)
        inside = TlsServerWire(wire, context, hello + reading.rest())
        async with asyncio.timeout(tunnels.HELLO_SECONDS):
            await inside.handshake()
        plain = Reading(inside)
        while True:
            request = await self._read(inside, plain)
            if request is None:
                break
            try:
                target = _inside_target(request, host, port)
                if not await self._request(client, inside, plain, request, target):
                    break
            except Refused as refused:
                await self._refuse(client, request, refused)
                await inside.send(refused.response(head_only=request.method == "HEAD"))
                break
        await inside.finish()

    # Requests that are seen

    async def _request(self, client: Client, wire: Wire, reading: Reading, request: Request, target: Target) -> bool:
        """Judge and forward one request; whether the client may go on. Raises Refused, before anything went out."""
        host, port = target.host, target.port
        if request.method == "TRACE":
            raise Refused(403, "method_not_allowed", texts.method_not_allowed("TRACE", host), texts.HOW_METHOD, host,
                          port)  # fmt: skip
        await self.budgets.begin(client.tenancy.principal, host, port)
        allowed = await self.policy.admit(client.tenancy, host, port, request.method, self.dialer.check_literal)
        keys = self.policy.keyring.at(host, port)
        given = self.policy.keyring.covering(host, port, request.method, target.path)
        if not given and not allowed.takes(request.method):
            raise Refused(403, *_no_way(request.method, host, bool(keys)), host, port)
        server, address = await self.dialer.connect(host, port, secure=target.secure)
        try:
            if given and not target.secure and not address.is_loopback:
                # A secret never goes in the clear, except to this very machine.
                given = []
                if not allowed.takes(request.method):
                    raise Refused(403, *_no_way(request.method, host, True), host, port)
            going = outgoing(client.tenancy, host, port, request.method, target.path)
            return await self._forward(client, wire, reading, request, target, server, going, keys, given)
        finally:
            server.close()

    async def _forward(
        self, client: Client, wire: Wire, reading: Reading, request: Request, target: Target, server: Wire,
        going: Outgoing, keys: list[Credential], given: list[Credential],
    ) -> bool:  # fmt: skip
        safe = request.method in SAFE_METHODS
        if not safe:
            await self.ledger.intend(going)
        settled = False

        async def settle() -> None:
            nonlocal settled
            settled = True
            if safe:
                self.ledger.note(going)
            else:
                await self.ledger.settle(going, "settled")

        redactor = Redactor(self.policy.keyring.secrets()) if keys else None
        exchange = Exchange(
            request, wire, reading, server, going, _spender(self.budgets, client), settle, redactor
        )  # fmt: skip
        problem = "it was cut off"
        try:
            return await exchange.run(*_written(request, target, keys, given))
        except _BROKEN as error:
            problem = _problem(error)
            if exchange.begun:
                raise WireEnded(problem) from error
            await wire.send(_bad_gateway(error, problem, target).response(head_only=request.method == "HEAD"))
            return False
        finally:
            if not settled:
                await asyncio.shield(self._unanswered(going, problem, safe=safe))

    async def _unanswered(self, going: Outgoing, problem: str, *, safe: bool) -> None:
        """An end that the server did not confirm: with its status known it acted, without it nobody knows."""
        if safe:
            self.ledger.note(going, problem)
        elif going.outcome is not None or not going.sent:
            await self.ledger.settle(going, "settled", problem)
        else:
            await self.ledger.settle(going, "uncertain", texts.no_answer(problem))


def _tunnel(host: str, port: int) -> Request:
    return Request("CONNECT", names.authority(host, port), [], http1.Framing(), keep_alive=False)


def _spender(budgets: Budgets, client: Client) -> Callable[[int], None]:
    principal = client.tenancy.principal
    return lambda count: budgets.spend(principal, count)


def _authority(text: str, default: int | None) -> tuple[str, int]:
    try:
        return names.split(text, default)
    except BadHost as error:
        raise Refused(400, "bad_host", str(error), texts.HOW_PLAIN) from None


def _plain_target(request: Request) -> Target:
    """Of a request in absolute form (RFC 9112, 3.2.2); the Host header has to say the same. Raises Refused."""
    scheme, found, rest = request.target.partition("://")
    if not found or scheme.lower() != "http":
        reason = "a proxy is asked with an http:// URL, or with CONNECT for anything else"
        raise Refused(400, "bad_request", reason, texts.HOW_PLAIN)
    at = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
    host, port = _authority(rest[:at], 80)
    if request.host is not None and _authority(request.host, 80) != (host, port):
        raise Refused(400, "other_host", texts.other_host(host, request.host), texts.HOW_PLAIN, host, port)
    path = rest[at:].partition("#")[0]
    return Target(host, port, path if path.startswith("/") else f"/{path}", secure=False)


def _inside_target(request: Request, host: str, port: int) -> Target:
    """Of a request within ended TLS: for the very host that the tunnel and its certificate are for. Raises Refused."""
    named = request.host
    if named is None or _authority(named, 443) != (host, port):
        raise Refused(421, "other_host", texts.other_host(host, named or ""), texts.HOW_PLAIN, host, port)
    target = request.target
    if not target.startswith("/") and not (target == "*" and request.method == "OPTIONS"):
        raise Refused(400, "bad_request", "a request in TLS names a path alone", texts.HOW_PLAIN, host, port)
    return Target(host, port, target.partition("#")[0], secure=True)


def _written(
    request: Request, target: Target, keys: list[Credential], given: list[Credential]
) -> tuple[bytes, http1.Headers]:
    """First line and headers as they go out: the client's, without its own word on what the credentials say."""
    dropped = {b"host"} | (credentials.stripped(keys) if keys else set())
    headers = http1.end_to_end(request.headers, dropped)
    default = 443 if target.secure else 80
    host = names.authority(target.host, target.port)
    if target.port == default:
        host = host.rpartition(":")[0]
    own = [(b"host", host.encode())]
    if keys:
        # What cannot be read cannot be redacted.
        own.append((b"accept-encoding", b"identity"))
    own += [(each.header, each.value.encode("latin-1")) for each in given]
    return f"{request.method} {target.path} HTTP/1.1".encode(), [*own, *headers]


def _no_way(method: str, host: str, has_credential: bool) -> tuple[str, str, str]:
    reason = texts.not_granted(method, host) if has_credential else texts.method_not_allowed(method, host)
    return "method_not_allowed", reason, texts.HOW_METHOD


def _problem(error: BaseException) -> str:
    if isinstance(error, OverBudget):
        return texts.over_budget("bytes")
    if isinstance(error, CannotLook):
        return f"it is in a coding that cannot be looked into ({error})"
    if isinstance(error, TooLong):
        return "its head is too long"
    return str(error) or "it took too long"


def _bad_gateway(error: BaseException, problem: str, target: Target) -> Refused:
    if isinstance(error, OverBudget):
        return Refused(429, "over_budget", problem, texts.HOW_BUDGET, target.host, target.port)
    reason = texts.no_answer(problem)
    return Refused(502, "no_answer", reason, texts.HOW_AGAIN, target.host, target.port)

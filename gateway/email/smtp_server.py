"""The door for mail: SMTP or LMTP on aiosmtpd, in the gateway's own loop. A mail is acknowledged only after `accept`.

Only mail for our own address comes in, so this is never an open relay. Memory is bounded per message and in total.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import structlog
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from gateway.email import texts
from gateway.email.addresses import is_deliverable
from gateway.email.config import EmailConfig
from gateway.email.smtp_protocol import Porter, PorterLmtp

log = structlog.get_logger(__name__)

MAX_CONNECTIONS = 100
MAX_RECIPIENTS = 100
MAX_HOPS = 50
LOGIN_WINDOW_SECONDS = 300.0
FREE_LOGIN_FAILURES = 5
"""How many wrong logins an address has in that time before its logins are taken slowly, one after the other."""
LOGIN_SECONDS = 0.2
MESSAGES_IN_FLIGHT = 4
"""How many messages of the largest size may be in memory at once."""


@dataclass(frozen=True)
class ReceivedMail:
    """A mail as it came in, not yet read."""

    raw: bytes = field(repr=False)
    envelope_from: str | None
    """Empty for the null sender; None where no envelope is known (a mailbox)."""
    recipients: tuple[str, ...]
    peer: str
    """The address of the client, without its port."""
    helo: str
    authenticated: bool
    """SMTP AUTH as `owner` with the local token: the mail is the owner's whatever its From."""
    encrypted: bool
    protocol: Literal["smtp", "lmtp", "imap"]
    received_at: datetime | None = None
    """When a mailbox of ours got it, for a mail fetched from there; None: now."""


@dataclass(frozen=True)
class Accepted:
    """The mail is durably kept, or a duplicate of one that is."""


@dataclass(frozen=True)
class Refused:
    """The mail will never be taken. `reason` is one line for the sender's bounce, `code` what stands before it."""

    reason: str = ""
    code: str = ""


@dataclass(frozen=True)
class TryLater:
    """The mail cannot be kept now; the sender keeps it and tries again."""

    reason: str = ""
    code: str = ""


Verdict = Accepted | Refused | TryLater
Accept = Callable[[ReceivedMail], Awaitable[Verdict]]


class EmailServer:
    """Listens and hands each mail to `accept`. `token` is the local token that proves the owner; empty: no logins."""

    def __init__(
        self,
        config: EmailConfig,
        accept: Accept,
        *,
        token: str = "",
        timeout: float = 120.0,
        max_connections: int = MAX_CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.max_connections = max_connections
        self.timeout = timeout
        self._accept = accept
        self._token = token.encode()
        self._clock = clock
        self._failures: dict[str, list[float]] = {}
        """Times of wrong logins, by the client's address."""
        self._turns: dict[str, asyncio.Lock] = {}
        self._connections: set[Porter] = set()
        self._accepting: set[asyncio.Task[str]] = set()
        self._bytes_in_flight = 0
        self._server: asyncio.Server | None = None
        self._tls = _tls_context(config)

    async def start(self, sock: socket.socket | None = None) -> None:
        """Listen, on ``sock`` where it is bound already. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        if sock is not None:
            self._server = await loop.create_server(self._protocol, sock=sock)
        else:
            self._server = await loop.create_server(self._protocol, self.config.host, self.config.port)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._server is None:
            raise RuntimeError("the mail server is not started")
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self, *, grace: float = 5.0) -> None:
        """Stop listening, let mails that are being accepted get their answer, then close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.leave(texts.SHUTTING_DOWN)
        if self._accepting:
            await asyncio.wait(set(self._accepting), timeout=grace)
            await asyncio.sleep(0)  # their answers are written
        for connection in list(self._connections):
            connection.drop()
        for _ in range(20):
            if all(connection.gone for connection in self._connections):
                break
            await asyncio.sleep(0.01)
        self._server = None

    def _protocol(self) -> Porter:
        kind = PorterLmtp if self.config.protocol == "lmtp" else Porter
        return kind(
            self,
            max_bytes=self.config.max_bytes,
            timeout=self.timeout,
            tls_context=self._tls,
            hostname=self.config.domain,
            auth_require_tls=not self.config.on_loopback,
            authenticator=self._authenticate,
            auth_exclude_mechanism=() if self._token else ("PLAIN", "LOGIN"),
        )

    # What the protocol asks of its server.

    def opened(self, connection: Porter) -> str | None:
        """Count a new connection; the refusal if there are too many."""
        self._connections = {other for other in self._connections if not other.gone}
        if len(self._connections) >= self.max_connections:
            return texts.TOO_MANY_CONNECTIONS
        self._connections.add(connection)
        return None

    def closed(self, connection: Porter) -> None:
        self._connections.discard(connection)

    def reserve(self, size: int) -> bool:
        """Take `size` bytes of the room for messages under way; a negative size gives them back."""
        if size > 0 and self._bytes_in_flight + size > MESSAGES_IN_FLIGHT * self.config.max_bytes:
            return False
        self._bytes_in_flight += size
        return True

    async def received(self, session: Session, envelope: Envelope, raw: bytes) -> str:
        """The SMTP answer to a whole message. Goes on if the client hangs up meanwhile: its retry is a duplicate."""
        task = asyncio.create_task(self._judge(session, envelope, raw))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        return await asyncio.shield(task)

    async def _judge(self, session: Session, envelope: Envelope, raw: bytes) -> str:
        if not raw.strip():
            return texts.NOTHING_TO_KEEP
        if raw[:65536].lower().count(b"\nreceived:") > MAX_HOPS:
            return texts.TOO_MANY_HOPS
        mail = ReceivedMail(
            raw=raw,
            envelope_from=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            peer=_peer(session),
            helo=(session.host_name or "")[:255],
            authenticated=bool(session.authenticated),
            encrypted=session.ssl is not None,
            protocol=self.config.protocol,
        )
        try:
            verdict = await self._accept(mail)
        except Exception:
            log.exception("mail not accepted", peer=mail.peer)
            return texts.TRY_LATER
        if isinstance(verdict, Accepted):
            return texts.ACCEPTED
        if isinstance(verdict, Refused):
            return _one_line(verdict.code or texts.REFUSED, verdict.reason)
        return _one_line(verdict.code or texts.TRY_LATER, verdict.reason)

    # Handler hooks of aiosmtpd.

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return texts.TOO_MANY_RECIPIENTS
        if not is_deliverable(address, self.config.address):
            return texts.UNKNOWN_RECIPIENT
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_exception(self, error: Exception) -> str:
        log.error("mail session failed", error=repr(error))
        return texts.TRY_LATER

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        """SMTP AUTH (RFC 4954): user `owner`, password the local token, compared in constant time.

        An address is shared by everyone behind it, this machine's by all its programs: whoever has the token is let in
        whatever others guessed, if a little later (`login_turn`).
        """
        peer = _peer(session)
        if isinstance(data, LoginPassword) and self._token:
            user = hmac.compare_digest(data.login, b"owner")
            secret = hmac.compare_digest(data.password, self._token)
            if user and secret:
                return AuthResult(success=True, auth_data="owner")
        self._failures.setdefault(peer, []).append(self._clock())
        if len(self._failures) > 10_000:
            self._failures.pop(next(iter(self._failures)))
        return AuthResult(success=False, handled=False, message=texts.BAD_LOGIN)

    async def login_turn(self, session: Session) -> None:
        """Wait until the client may try a login: after some wrong ones, an address has one try at a time, slowly."""
        peer = _peer(session)
        if self._wrong_logins(peer) < FREE_LOGIN_FAILURES:
            self._turns.pop(peer, None)
            return
        async with self._turns.setdefault(peer, asyncio.Lock()):
            await asyncio.sleep(LOGIN_SECONDS)

    def _wrong_logins(self, peer: str) -> int:
        """How many wrong logins came from an address in the last minutes."""
        recent = [at for at in self._failures.get(peer, []) if at > self._clock() - LOGIN_WINDOW_SECONDS]
        if recent:
            self._failures[peer] = recent
        else:
            self._failures.pop(peer, None)
        return len(recent)


def _peer(session: Session) -> str:
    peer: Any = session.peer
    return str(peer[0]) if isinstance(peer, tuple) and peer else str(peer or "")


def _one_line(answer: str, reason: str) -> str:
    """A reply line with the verdict's own words after its codes; never two lines (RFC 5321, 4.2)."""
    clean = " ".join("".join(c if c.isprintable() and c.isascii() else " " for c in reason).split())
    return " ".join([*answer.split(" ", 2)[:2], clean[:400]]) if clean else answer


def _tls_context(config: EmailConfig) -> ssl.SSLContext | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.tls_certificate, config.tls_key)
    return context

"""One SMTP or LMTP conversation: aiosmtpd's, with its DATA replaced by one whose memory is bounded.

aiosmtpd keeps every fragment of an endless line, refuses lines over 1,001 octets that real mail has, shares its
command limits between connections, and answers LMTP once for several recipients.
"""

from __future__ import annotations

import asyncio
import collections
from typing import Any, Protocol

from aiosmtpd.smtp import SMTP, Envelope, Session, syntax

from gateway.email import texts

COMMAND_OCTETS = 4096
MAX_FAILED_LOGINS = 5
DRAIN_FACTOR = 3
"""How many times the largest message is read and thrown away before the connection is cut."""


class Host(Protocol):
    """What a conversation needs of its server."""

    def opened(self, connection: Porter) -> str | None: ...
    def closed(self, connection: Porter) -> None: ...
    def reserve(self, size: int) -> bool: ...
    async def login_turn(self, session: Session) -> None: ...
    async def received(self, session: Session, envelope: Envelope, raw: bytes) -> str: ...


class Porter(SMTP):
    """SMTP (RFC 5321)."""

    line_length_limit = 65_536  # the size of a fragment: longer lines come in several

    def __init__(self, host: Host, *, max_bytes: int, **options: Any) -> None:
        super().__init__(
            host,
            data_size_limit=max_bytes,
            enable_SMTPUTF8=True,
            ident=texts.GREETING,
            loop=asyncio.get_running_loop(),
            command_call_limit={"AUTH": 10, "*": 1000},
            **options,
        )
        self.command_size_limits = collections.defaultdict(lambda: COMMAND_OCTETS)
        self._host = host
        self._max_bytes = max_bytes
        self._turned_away = False
        self._socket: asyncio.Transport | None = None
        self.receiving = False
        self._failed_logins = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._socket is None and isinstance(transport, asyncio.Transport):
            self._socket = transport
            refusal = self._host.opened(self)
            if refusal:
                self._turned_away = True
                transport.write(refusal.encode() + b"\r\n")
                transport.close()
                return
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._turned_away:
            return
        self._host.closed(self)
        super().connection_lost(error)

    @property
    def gone(self) -> bool:
        """Whether the socket is closed. After a failed TLS handshake asyncio does not tell by `connection_lost`."""
        return self._socket is None or self._socket.is_closing()

    def leave(self, words: str) -> None:
        """Say goodbye and close, unless a message is under way."""
        if not self.receiving and not self.gone and isinstance(self.transport, asyncio.Transport):
            self.transport.write(words.encode() + b"\r\n")
            self.transport.close()

    def drop(self) -> None:
        """Close, message or not; what was written is still sent."""
        if not self.gone and isinstance(self.transport, asyncio.Transport):
            self.transport.close()

    @syntax("AUTH <mechanism>")
    async def smtp_AUTH(self, arg: str | None) -> None:
        """A login, when it is the client's turn; a connection has a few tries."""
        assert self.session is not None
        await self._host.login_turn(self.session)
        self._reset_timeout()
        await super().smtp_AUTH(arg)
        if not self.session.authenticated:
            self._failed_logins += 1
            if self._failed_logins >= MAX_FAILED_LOGINS:
                self.leave(texts.TOO_MANY_LOGINS)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:
        """Take a message up to the line with a single dot (RFC 5321, 4.5.2); only CR LF ends a line here, so that a
        dot between bare line feeds or carriage returns never ends a message (SMTP smuggling).
        """
        if await self.check_helo_needed():
            return
        assert self.envelope is not None
        assert self.session is not None
        if not self.envelope.rcpt_tos:
            await self.push("503 5.5.1 Error: need RCPT command")
            return
        if arg:
            await self.push("501 5.5.4 Syntax: DATA")
            return
        self.receiving = True
        taken = _Room(self._host)
        try:
            await self.push("354 End data with <CR><LF>.<CR><LF>")
            self._reset_timeout()
            answer = await self._take(taken)
            await self.push(self._for_each_recipient(answer))
        finally:
            self.receiving = False
            taken.free()
            if self.envelope is not None:
                self._set_post_data_state()  # type: ignore[no-untyped-call]

    async def _take(self, room: _Room) -> str:
        assert self.envelope is not None
        assert self.session is not None
        content = bytearray()
        refusal = ""
        total = 0
        line_start = True
        while True:
            try:
                piece = await self._reader.readuntil(b"\r\n")
            except asyncio.LimitOverrunError as error:
                piece = await self._reader.readexactly(error.consumed)
            if line_start and piece == b".\r\n":
                break
            total += len(piece)
            if total > DRAIN_FACTOR * self._max_bytes:
                self.drop()
                return texts.TOO_LARGE
            if line_start and piece.startswith(b"."):
                piece = piece[1:]
            line_start = piece.endswith(b"\r\n")
            if refusal:
                continue
            if len(content) + len(piece) > self._max_bytes:
                refusal = texts.TOO_LARGE
            elif not room.take(len(piece)):
                refusal = texts.NO_ROOM
            if refusal:
                content = bytearray()
                room.free()
            else:
                content += piece
        if refusal:
            return refusal
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()  # how long accepting takes is ours to bound, not the client's
        raw = bytes(content)
        del content
        answer = await self._host.received(self.session, self.envelope, raw)
        self._reset_timeout()
        return answer

    def _for_each_recipient(self, answer: str) -> str:
        return answer


class PorterLmtp(Porter):
    """LMTP (RFC 2033): LHLO instead of EHLO, and after the data one answer for each accepted recipient."""

    show_smtp_greeting = False

    @syntax("LHLO hostname")
    async def smtp_LHLO(self, arg: str) -> None:
        await super().smtp_EHLO(arg)

    async def smtp_HELO(self, arg: str) -> None:
        await self.push('500 5.5.1 Error: command "HELO" not recognized; this is LMTP')

    async def smtp_EHLO(self, arg: str) -> None:
        await self.push('500 5.5.1 Error: command "EHLO" not recognized; this is LMTP')

    def _for_each_recipient(self, answer: str) -> str:
        count = len(self.envelope.rcpt_tos) if self.envelope is not None else 1
        return "\r\n".join([answer] * max(count, 1))


class _Room:
    """The bytes of one message, booked with the server until freed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._size = 0

    def take(self, size: int) -> bool:
        if not self._host.reserve(size):
            return False
        self._size += size
        return True

    def free(self) -> None:
        self._host.reserve(-self._size)
        self._size = 0

"""One connection to a mailbox: what is new in it, mails as they are, and waiting for more. Blocks; for a thread.

Nothing here marks a mail as read but ``seen``, which is for after it was recorded. Other people's flags are left alone.
"""

from __future__ import annotations

import contextlib
import imaplib
import re
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

from imap_tools.errors import ImapToolsError
from imap_tools.mailbox import BaseMailBox, MailBox, MailBoxStartTls, MailBoxUnencrypted
from imap_tools.utils import encode_folder

from gateway.email import texts
from gateway.email.config import is_loopback

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 120.0
IDLE_SECONDS = 240.0
"""How long one IDLE lasts: less than the half hour after which servers hang up, and the minutes of a home router."""

Failure = (imaplib.IMAP4.error, ImapToolsError, OSError, ssl.SSLError, ValueError)
"""What a server or the network can do to a session. (``imaplib``'s abort is one of its errors.)"""

_NEW = re.compile(rb"^\* \d+ (?:EXISTS|RECENT)", re.IGNORECASE)
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")


class NoFolder(Exception):
    """The mailbox has no such folder, or it cannot be opened."""


@dataclass(frozen=True)
class Account:
    """``email.imap_url`` in parts. ``name`` says which mailbox it is, without the password."""

    host: str
    port: int
    user: str
    password: str
    folder: str
    tls: bool

    @classmethod
    def of(cls, url: str) -> Account:
        """``imaps://user:password@host[:port][/folder]``, or ``imap://`` with STARTTLS. Raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme not in {"imap", "imaps"} or not parts.hostname or not parts.username:
            raise ValueError(texts.BAD_IMAP_URL)
        tls = parts.scheme == "imaps"
        return cls(
            parts.hostname,
            parts.port or (993 if tls else 143),
            unquote(parts.username),
            unquote(parts.password or ""),
            unquote(parts.path.strip("/")) or "INBOX",
            tls,
        )

    @property
    def name(self) -> str:
        return f"{self.user}@{self.host}:{self.port}/{self.folder}"


@dataclass(frozen=True)
class Listed:
    """A mail of the mailbox: its UID, size in bytes, and when the server got it."""

    uid: int
    size: int
    at: datetime | None


class Session:
    """A connection that has logged in and opened the folder."""

    def __init__(self, account: Account) -> None:
        """Connect. Raises one of ``Failure``, or NoFolder."""
        self.account = account
        self._box = _connect(account)
        client = self._box.client
        client.sock.settimeout(ANSWER_SECONDS)
        login = self._box.login if (account.user + account.password).isascii() else self._box.login_utf8
        login(account.user, account.password, None)
        self.can_idle = "IDLE" in _capabilities(client)
        status, answer = client.select(encode_folder(account.folder))  # type: ignore[arg-type]
        if status != "OK":
            raise NoFolder(str(answer))
        self.uid_validity = self._number("UIDVALIDITY")
        self.uid_next = self._number("UIDNEXT")

    def _number(self, name: str) -> int:
        _, answer = self._box.client.response(name)
        if not answer or not answer[-1]:
            raise ValueError(f"the server does not tell {name}")
        return int(answer[-1])

    def after(self, uid: int) -> list[int]:
        """The UIDs above ``uid``, in order."""
        return [found for found in self._search(f"UID {uid + 1}:*") if found > uid]

    def unread_of_late(self, age: timedelta) -> list[int]:
        """The UIDs of what nobody has read and the server got within ``age``."""
        return self._search(f"UNSEEN {_since(age)}")

    def of_late(self, age: timedelta) -> list[int]:
        """The UIDs of all that the server got within ``age``."""
        return self._search(_since(age))

    def _search(self, criteria: str) -> list[int]:
        self._box.client.untagged_responses.pop("EXISTS", None)
        status, answer = self._box.client.uid("SEARCH", criteria)
        if status != "OK":
            raise ValueError(f"SEARCH: {answer}")
        return sorted({int(word) for line in answer if line for word in line.split()})

    def listed(self, uid: int) -> Listed | None:
        """What the server says of a mail; None if it is gone."""
        for item in self._fetch(uid, "(UID RFC822.SIZE INTERNALDATE)"):
            line = item if isinstance(item, bytes) else item[0]
            named, size = _UID.search(line), _SIZE.search(line)
            if named and int(named.group(1)) == uid and size:
                at = imaplib.Internaldate2tuple(line)
                return Listed(uid, int(size.group(1)), datetime(*at[:6]).astimezone(UTC) if at else None)
        return None

    def mail(self, uid: int) -> bytes | None:
        """A mail's bytes, without marking it as read; None if it is gone."""
        return next((bytes(item[1]) for item in self._fetch(uid, "(BODY.PEEK[])") if isinstance(item, tuple)), None)

    def _fetch(self, uid: int, parts: str) -> list[bytes | tuple[bytes, bytes]]:
        status, answer = self._box.client.uid("FETCH", str(uid), parts)
        if status != "OK":
            raise ValueError(f"FETCH: {answer}")
        return [item for item in answer if item]

    def seen(self, uid: int) -> None:
        """Mark a mail as read. A folder that may not be changed stays as it is."""
        with contextlib.suppress(imaplib.IMAP4.readonly):
            self._box.client.uid("STORE", str(uid), "+FLAGS.SILENT", "(\\Seen)")

    def told_of_more(self) -> bool:
        """Whether the server has said since the last search that there is more: IDLE would not say it again."""
        return "EXISTS" in self._box.client.untagged_responses

    def idle(self) -> None:
        """Begin to wait (RFC 2177)."""
        self._box.idle.start()  # type: ignore[no-untyped-call]

    def wait(self, seconds: float) -> bool:
        """Whether something new came within ``seconds`` of waiting. Raises one of Failure when the server hangs up."""
        lines = self._buffered() or self._box.idle.poll(seconds)
        if any(line.upper().startswith(b"* BYE") for line in lines):
            raise ConnectionResetError("the server says goodbye")
        if not lines:
            self._check_open()
        return any(_NEW.match(line) for line in lines)

    def _buffered(self) -> list[bytes]:
        """Lines that came together with an earlier one: they are read already, and no poll sees them."""
        client = self._box.client
        client.sock.settimeout(0)
        lines = []
        try:
            while True:
                lines.append(client._get_line())
        except (OSError, imaplib.IMAP4.abort):
            return lines
        finally:
            client.sock.settimeout(ANSWER_SECONDS)

    def _check_open(self) -> None:
        """The library takes the end of a connection for silence."""
        try:
            # Below TLS, which has no look ahead.
            ended = socket.socket.recv(self._box.client.sock, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return
        if ended:
            raise ConnectionResetError("the server hung up")

    def idle_end(self) -> None:
        self._box.idle.stop()  # type: ignore[no-untyped-call]

    def still_there(self) -> None:
        """Ask the server for a sign of life."""
        self._box.client.noop()

    def close(self) -> None:
        """Hang up; a thread that waits in this session fails at once."""
        with contextlib.suppress(OSError):
            self._box.client.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._box.client.shutdown()


def _since(age: timedelta) -> str:
    """Days of the server's zone: a day more, so that none is missed."""
    day = datetime.now(UTC) - age - timedelta(days=1)
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[day.month - 1]
    return f"SINCE {day.day:02d}-{month}-{day.year}"


def _capabilities(client: imaplib.IMAP4) -> set[str]:
    """What the server can do for who has logged in, which may be more than before."""
    _, answer = client.capability()
    return {word.upper() for line in answer if line for word in line.decode("ascii", "replace").split()}


def _connect(account: Account) -> BaseMailBox:
    """With TLS whose certificate is checked; without any only on this machine."""
    if account.tls:
        return MailBox(account.host, account.port, CONNECT_SECONDS, ssl_context=ssl.create_default_context())
    if is_loopback(account.host):
        return MailBoxUnencrypted(account.host, account.port, CONNECT_SECONDS)
    return MailBoxStartTls(account.host, account.port, CONNECT_SECONDS, ssl_context=ssl.create_default_context())

"""A mailbox for tests: the IMAP server ``pymap`` as a process of its own, over a Maildir that outlives it."""

from __future__ import annotations

import contextlib
import imaplib
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

USER, PASSWORD = "porter", "mailbox-secret"
PATIENCE = 60.0


class ImapServer:
    """One mailbox under ``folder``, at ``url``. Needs the package ``pymap``."""

    def __init__(self, folder: Path, *, certificate: Path | None = None, key: Path | None = None) -> None:
        from pysasl.hashing import BuiltinHash

        self.folder = folder
        self.port = _free_port()
        self.mailbox = "INBOX"
        self._tls = ["--cert", str(certificate), "--key", str(key)] if certificate else ["--no-tls"]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pymap-etc-passwd").write_text(f"{USER}::1000:1000::{USER}:\n")
        (folder / "pymap-etc-shadow").write_text(f"{USER}:{BuiltinHash(rounds=1000).hash(PASSWORD)}:::::::\n")

    @property
    def url(self) -> str:
        return f"imap://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{self.mailbox}"

    def open(self, mailbox: str) -> ImapServer:
        """Go on with another, empty mailbox of the same server, which is made now."""
        with self.client() as connection:
            connection.create(mailbox)
        self.mailbox = mailbox
        return self

    def start(self) -> ImapServer:
        where = ["--host", "127.0.0.1", "--port", str(self.port), *self._tls, "maildir", str(self.folder)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from pymap.main import main; main()", *where],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "pymap.log").open("wb"),
        )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), self.client():
                return self
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError((self.folder / "pymap.log").read_text())

    def stop(self) -> None:
        """Ended at once, as by a power cut; mails stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def number_anew(self) -> None:
        """What servers do after a restored backup: every mail gets another UID, under another UIDVALIDITY."""
        was_running = self._process is not None
        self.stop()
        inside = "" if self.mailbox == "INBOX" else f".{self.mailbox}"
        (self.folder / USER / inside / "dovecot-uidlist").unlink(missing_ok=True)
        if was_running:
            self.start()

    @contextlib.contextmanager
    def client(self):  # type: ignore[no-untyped-def]
        """Another program of the mailbox's owner."""
        connection = imaplib.IMAP4("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.login(USER, PASSWORD)
            connection.select(self.mailbox)
            yield connection
        finally:
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                connection.logout()

    def deliver(self, mail: bytes, *, at: datetime | None = None, flags: str = "") -> None:
        """Put a mail into the mailbox; ``at``: when the server got it."""
        when = imaplib.Time2Internaldate(at.timestamp()) if at else None
        with self.client() as connection:
            status, answer = connection.append(self.mailbox, flags or None, when, mail)
        assert status == "OK", answer

    def seen(self) -> list[bool]:
        """For each mail, in order, whether it is marked as read."""
        with self.client() as connection:
            _, found = connection.uid("FETCH", "1:*", "(UID FLAGS)")
        return [b"\\Seen" in line for line in found if line]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])

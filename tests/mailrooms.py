"""The whole way in for mail as an outsider meets it: a real SMTP server, senders checked by a real DNS server, and the
inbox on a real database."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text

from gateway.email.channel import EmailChannel
from gateway.email.config import EmailConfig
from gateway.email.maildir import Maildir
from gateway.email.senders import senders
from gateway.email.sent_mail import SentMail
from gateway.email.smtp_server import EmailServer
from identity.access import Access
from nightporter.testing.dns import DnsServer
from nightporter.testing.mail import MailDomain
from router.inbox import Inbox
from workspace_store.blobs import DirectoryBlobs
from workspace_store.database import Database

OWN = "porter@agent.example"
TOKEN = "local-token-0123456789"
HERE = "v=spf1 ip4:127.0.0.1 -all"
"""An SPF record that lets the tests' own address send."""


class Mailroom:
    """``example.org`` signs its mail and sends from elsewhere; its Ann may use the agent."""

    def __init__(self, channel: EmailChannel, server: EmailServer, database: Database, dns: DnsServer) -> None:
        self.channel, self.server, self.database, self.dns = channel, server, database, dns
        self.ann = MailDomain(dns, "example.org")

    async def send(
        self,
        mail: bytes,
        *,
        envelope_from: str = "someone@relay.test",
        to: str = OWN,
        helo: str = "relay.test",
        login: bool = False,
    ) -> tuple[int, str]:
        """Hand a mail over by SMTP; the server's last answer."""
        return await asyncio.to_thread(self._send, mail, envelope_from, to, helo, login)

    def _send(self, mail: bytes, envelope_from: str, to: str, helo: str, login: bool) -> tuple[int, str]:
        with smtplib.SMTP("127.0.0.1", self.server.port, local_hostname=helo, timeout=60) as client:
            if login:
                client.login("owner", TOKEN)
            try:
                client.sendmail(envelope_from, [to], mail)
            except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as error:
                return int(error.smtp_code), str(error.smtp_error, "utf-8", "replace")
            except smtplib.SMTPRecipientsRefused as error:
                [(code, words)] = error.recipients.values()
                return int(code), str(words, "utf-8", "replace")
        return 250, ""

    def messages(self) -> list[dict[str, Any]]:
        """What is in the inbox."""
        rows = self.database.read_now(
            lambda connection: connection.execute(text("SELECT * FROM inbox ORDER BY received_at, seq")).all()
        )
        return [dict(row._mapping) for row in rows]

    def nothing_is_kept(self) -> bool:
        """Whether no trace of a mail is in any table, and so nothing will be answered."""
        tables = ("user_account", "identity", "principal", "inbox", "journal_event", "outbox")
        return not any(
            self.database.read_now(lambda c, table=table: c.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())  # type: ignore[misc]
            for table in tables
        )


@contextlib.asynccontextmanager
async def mailroom(
    database: Database, outgoing: Path, policy: str = "open", **settings: Any
) -> AsyncIterator[Mailroom]:
    with DnsServer() as dns:
        config = replace(EmailConfig(port=0, address=OWN, dns_server=("127.0.0.1", dns.port)), **settings)
        inbox = Inbox(
            database, Access(policy, []), lambda accepted: None, blobs=DirectoryBlobs(outgoing.parent / "blobs")
        )  # type: ignore[arg-type]
        proof = senders(config)
        sent = SentMail(database, OWN)
        channel = EmailChannel(
            config, inbox.accept, proof, Maildir(outgoing), lambda: datetime.now(UTC), repeats=False, sent=sent
        )
        server = EmailServer(config, channel.received, token=TOKEN)
        await server.start()
        try:
            yield Mailroom(channel, server, database, dns)
        finally:
            await server.close(grace=0.2)
            proof.close()

"""Makes what fetches mail, where ``email.imap_url`` is set; only then its library is imported."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from gateway.email.channel import EmailChannel
from gateway.reading import Reading
from workspace_store.blobs import Blobs
from workspace_store.database import Database

if TYPE_CHECKING:
    from gateway.email.imap.pull import Puller

log = structlog.get_logger()


def puller_for(mail: EmailChannel, database: Database, reading: Reading, blobs: Blobs) -> Puller | None:
    """What hands the mails of the mailbox to the channel; None where no mailbox is set."""
    config = mail.config
    if not config.imap_url:
        return None
    from gateway.email.imap.pull import Puller
    from gateway.email.imap.session import Account

    async def aside(raw: bytes, why: str) -> None:
        blob = await asyncio.to_thread(blobs.quarantine, "email", raw)
        log.error("a mail could not be recorded and was kept aside", channel="email", why=why, blob=blob)

    account, fresh = Account.of(config.imap_url), timedelta(hours=config.fresh_hours)
    return Puller(account, mail.received, aside, database, reading, config.max_bytes, fresh)

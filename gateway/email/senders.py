"""Who a mail is from, by what ``email.authentication`` takes as proof."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from gateway.email.config import EmailConfig
from gateway.email.smtp_server import ReceivedMail

if TYPE_CHECKING:
    from gateway.email.proof.prover import Prover


class Unproven(Exception):
    """The mail does not prove its author; its words are for the sender's bounce and the log."""


class TryAgain(Exception):
    """Whether the mail proves its author cannot be told now, since DNS does not answer."""


@dataclass(frozen=True)
class Sender:
    """``proof`` is a word of ``Claim``. ``seen_as``: what tells a repetition where the Message-ID does not."""

    address: str
    name: str
    proof: str
    seen_as: str = ""


class Senders(Protocol):
    """Tells who wrote a mail."""

    async def prove(self, mail: ReceivedMail) -> Sender:
        """Raises Unproven, TryAgain."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class OnTrust:
    """The From is believed: a relay checked it (``trusted_relay``), or nobody did (``unchecked``)."""

    proof: str

    async def prove(self, mail: ReceivedMail) -> Sender:
        from gateway.email.proof.author import author_of, read_strictly

        author = author_of(read_strictly(mail.raw))
        return Sender(author.address, author.name, self.proof)

    def close(self) -> None:
        pass


@dataclass
class ByDmarc:
    """SPF, DKIM and DMARC alignment, checked here or by one's own server."""

    config: EmailConfig
    _prover: Prover | None = None

    async def prove(self, mail: ReceivedMail) -> Sender:
        from gateway.email.proof.prover import Evidence

        if self._prover is None:
            self._prover = await asyncio.to_thread(self._make)
        at = mail.received_at or datetime.now(UTC)
        evidence = Evidence(mail.raw, mail.peer, mail.helo, mail.envelope_from or "", at)
        proven = await self._prover.prove(evidence)
        return Sender(proven.author.address, proven.author.name, "dmarc", proven.seen_as)

    def _make(self) -> Prover:
        # DNS, DKIM and the list of public suffixes take 15 MB and a quarter of a second: at the first mail.
        from gateway.email.proof.lookups import Resolver
        from gateway.email.proof.prover import Prover

        config = self.config
        return Prover(
            config.address,
            Resolver(config.dns_server),
            timedelta(hours=config.fresh_hours),
            config.authserv_id,
            [ipaddress.ip_network(peer) for peer in config.authserv_peers],
        )

    def close(self) -> None:
        if self._prover is not None:
            self._prover.close()


def senders(config: EmailConfig) -> Senders:
    """What ``email.authentication`` asks for."""
    if config.authentication == "dmarc":
        return ByDmarc(config)
    return OnTrust("trusted_relay" if config.authentication == "trusted_relay" else "unchecked")

"""Whether a mail proves who wrote it: own server's word, or DKIM and SPF checked here; aligned, fresh, meant for us."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from gateway.email import texts
from gateway.email.addresses import is_ours
from gateway.email.headers import date, mailboxes, message_ids
from gateway.email.proof import dkim_check, spf_check
from gateway.email.proof.alignment import Alignment, aligned, alignment_of
from gateway.email.proof.author import Author, StrictMail, ascii_domain, author_of, read_strictly
from gateway.email.proof.dkim_check import BodyHashes, Rejected, Signature
from gateway.email.proof.lookups import Lookups, Resolver, TooManyLookups
from gateway.email.proof.results import Result, own_results
from gateway.email.senders import TryAgain, Unproven
from gateway.email.threads import Threads

log = structlog.get_logger()

THREADS = 8
MOST_WAITING = 64
"""Mails whose check waits for DNS; more than that is put off, so that slow servers of senders hold nobody up."""
CLOCK_AHEAD = timedelta(hours=24)
"""How far the Date of a mail may lie ahead: clocks of people's machines are wrong by zones and days."""


@dataclass(frozen=True)
class Evidence:
    """A mail and how it came. ``peer`` is empty where no host connected to us (a mailbox that is fetched)."""

    raw: bytes
    peer: str
    helo: str
    envelope_from: str
    at: datetime
    """When our side received it."""


@dataclass(frozen=True)
class Proven:
    """``seen_as``: what makes the mail the same one, if its Message-ID may have been changed since it was signed."""

    author: Author
    seen_as: str = ""


@dataclass
class Prover:
    """``authserv_id``: own server whose results are believed, from ``peers`` only. ``fresh``: how old a mail may be."""

    own_address: str
    resolver: Resolver
    fresh: timedelta
    authserv_id: str = ""
    peers: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
    waiting: int = 0

    def __post_init__(self) -> None:
        self._threads = Threads(THREADS, "mail-proof")

    async def prove(self, evidence: Evidence) -> Proven:
        """Raises Unproven, or TryAgain where it cannot be told now."""
        if self.waiting >= MOST_WAITING:
            raise TryAgain("too many mails wait for DNS")
        self.waiting += 1
        try:
            return await self._threads.run(partial(self.judge, evidence))
        except TooManyLookups as error:
            raise Unproven(texts.UNPROVEN_LOOKUPS) from error
        finally:
            self.waiting -= 1

    def close(self) -> None:
        self._threads.close()

    def judge(self, evidence: Evidence) -> Proven:
        """The same, blocking. Raises Unproven, TryAgain, TooManyLookups."""
        mail = read_strictly(evidence.raw)
        author = author_of(mail)
        self._fresh(mail, evidence.at)
        if self.authserv_id and self._believes(evidence.peer):
            results = own_results(mail, self.authserv_id)
            if results is not None:
                return self._by_results(mail, author, results)
            # It came past our server: its own word for itself is all there is.
            evidence = Evidence(evidence.raw, "", "", evidence.envelope_from, evidence.at)
        return self._by_dns(mail, author, evidence)

    def _believes(self, peer: str) -> bool:
        """Whether our own server may have handed this over; a mailbox of ours always is its work."""
        if not peer:
            return True
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.peers)

    def _fresh(self, mail: StrictMail, at: datetime) -> None:
        for value in mail.values("date"):
            written = date(value.strip().replace(b"\r\n", b""))
            if written is None:
                raise Unproven(texts.UNPROVEN_NO_DATE)
            if written < at - self.fresh:
                raise Unproven(texts.UNPROVEN_STALE)
            if written > at + CLOCK_AHEAD:
                raise Unproven(texts.UNPROVEN_FUTURE)

    def _by_results(self, mail: StrictMail, author: Author, results: Sequence[Result]) -> Proven:
        verdicts = [result for result in results if result.method == "dmarc"]
        said = verdicts[0].properties.get("header.from", "") if verdicts else ""
        named = _domain(said.rpartition("@")[2])
        if not verdicts or any(result.result != "pass" for result in verdicts) or named != author.domain:
            raise Unproven(texts.UNPROVEN_RESULTS)
        if not any(_sent_by(author.domain, result) for result in results):
            self._meant_for_us(mail)
        return Proven(author)

    def _by_dns(self, mail: StrictMail, author: Author, evidence: Evidence) -> Proven:
        lookups = Lookups(self.resolver)
        alignment = alignment_of(author.domain, lookups)
        unsure: TryAgain | None = None
        signature: Signature | None = None
        try:
            signature = self._signature(mail, alignment, lookups, evidence.at)
        except TryAgain as error:
            unsure = error
        spf = False
        try:
            spf = self._spf(evidence, alignment, lookups)
        except TryAgain as error:
            unsure = unsure or error
        if signature is None and not spf:
            if unsure is not None:
                raise unsure
            raise Unproven(texts.UNPROVEN_ALIGNMENT.format(domain=author.domain))
        if not spf:
            self._meant_for_us(mail, signature)
        return Proven(author, _seen_as(mail, signature))

    def _signature(self, mail: StrictMail, alignment: Alignment, lookups: Lookups, at: datetime) -> Signature | None:
        """A signature of the author's domain that holds and is fresh. TryAgain only if no other one holds."""
        unsure: TryAgain | None = None
        body = BodyHashes(mail.body)
        values = mail.values("dkim-signature")
        candidates = [i for i, value in enumerate(values) if alignment.for_dkim(dkim_check.domain_of(value))]
        for index in candidates[: dkim_check.MAX_SIGNATURES]:
            try:
                found = dkim_check.verify(mail, body, index, lookups, int(at.timestamp()))
            except TryAgain as error:
                unsure = error
                continue
            if isinstance(found, Rejected):
                log.info("a signature counts for nothing", domain=found.domain, reason=found.reason)
            elif found.at is None and not ("date" in found.signed and mail.values("date")):
                log.info("a signature counts for nothing", domain=found.domain, reason="nothing says when it was made")
            elif found.at is not None and found.at < (at - self.fresh).timestamp():
                raise Unproven(texts.UNPROVEN_STALE)
            else:
                return found
        if unsure is not None:
            raise unsure
        return None

    @staticmethod
    def _spf(evidence: Evidence, alignment: Alignment, lookups: Lookups) -> bool:
        if not evidence.peer:
            return False
        domain = _domain(spf_check.identity(evidence.envelope_from, evidence.helo))
        if not domain or not alignment.for_spf(domain):
            return False
        local = evidence.envelope_from.strip("<> ").rpartition("@")[0]
        sender = f"{local}@{domain}" if local else ""
        return spf_check.passes(evidence.peer, sender, domain if not sender else evidence.helo, lookups)

    def _meant_for_us(self, mail: StrictMail, signature: Signature | None = None) -> None:
        """A signature says who wrote a mail, not to whom: what was written to others may be sent on to us by any of
        them. Where only a signature speaks, the mail itself has to name us, in a field that is signed if one is."""
        readers = {"to", "cc"}
        for name in (signature.signed & readers if signature else ()) or readers:
            for value in mail.values(name):
                if any(is_ours(box.address, self.own_address) for box in mailboxes(value.replace(b"\r\n", b""))):
                    return
        raise Unproven(texts.UNPROVEN_NOT_FOR_US)


def _sent_by(domain: str, result: Result) -> bool:
    """Whether a result says that the domain's own host delivered the mail."""
    named = result.properties.get("smtp.mailfrom", "") or result.properties.get("smtp.helo", "")
    passed = result.method == "spf" and result.result == "pass"
    return passed and aligned(domain, _domain(named.rpartition("@")[2]), strict=False)


def _domain(text: str) -> str:
    try:
        return ascii_domain(text.strip().rstrip("."))
    except Unproven:
        return ""


def _seen_as(mail: StrictMail, signature: Signature | None) -> str:
    """Empty where the Message-ID tells a repetition: it is signed, or the mail came from its author's own host."""
    if signature is None or ("message-id" in signature.signed and any(map(message_ids, mail.values("message-id")))):
        return ""
    return f"dkim:{signature.digest}"

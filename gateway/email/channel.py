"""The email channel: a mail that came in becomes an envelope, a reply becomes a mail in its thread.

Nothing unproven is answered, at all: forged mail must not make us write to its victim. Machines, lists, bounces and
ourselves are acknowledged and dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

import structlog

from gateway.channel import Outcome, Refused, Sent
from gateway.email.compose import ComposedMail, Thread, UnusableAddress, compose
from gateway.email.config import EmailConfig
from gateway.email.parse import parse
from gateway.email.parsed import ParsedMail
from gateway.email.policy import should_not_answer
from gateway.email.render import render
from gateway.email.smtp_server import Accepted, ReceivedMail, TryLater, Verdict
from identity.access import OWNER, email_key
from identity.users import Claim
from router import inbox
from router.envelope import Envelope, clean
from workspace_store.database import DatabaseUnavailable
from workspace_store.outbox import Reply

log = structlog.get_logger()

NAME = "email"
PROOFS = {"trusted_relay": "trusted_relay", "none": "unchecked", "dmarc": ""}
"""What a From proves under each ``email.authentication``; ``dmarc`` is not checked here yet and proves nothing."""

AcceptEnvelope = Callable[[Envelope], Awaitable[inbox.Accepted | None]]


class Carrier(Protocol):
    """Takes a composed mail: a relay or a Maildir."""

    async def deliver(self, mail: ComposedMail) -> Outcome: ...


@dataclass
class EmailChannel:
    """``now`` is the time a reply is dated with; ``repeats``: whether a second delivery can be seen by the reader."""

    config: EmailConfig
    accept: AcceptEnvelope
    carrier: Carrier
    now: Callable[[], datetime]
    repeats: bool
    name: str = NAME

    async def received(self, mail: ReceivedMail) -> Verdict:
        """Record a mail durably, or drop what must not be answered; only then is it acknowledged."""
        parsed = await asyncio.to_thread(parse, mail.raw)
        reason = should_not_answer(parsed, mail.envelope_from, self.config.address)
        if reason is not None:
            log.info("mail dropped", reason=reason, message_id=parsed.message_id)
            return Accepted()
        envelope = self._envelope(mail, parsed)
        if not envelope.sender.proof:
            log.info("mail dropped", reason="its sender is not proven", message_id=parsed.message_id)
            return Accepted()
        try:
            await self.accept(envelope)
        except DatabaseUnavailable:
            return TryLater()
        return Accepted()

    def _envelope(self, mail: ReceivedMail, parsed: ParsedMail) -> Envelope:
        claim = self._claim(mail, parsed)
        address = (parsed.reply_to or (parsed.from_address or "",))[0]
        thread = (*parsed.references, parsed.in_reply_to, parsed.message_id)
        reply: dict[str, Any] = {"to": address, "to_name": parsed.from_name, **asdict(_thread(parsed))}
        return Envelope(
            channel=NAME,
            account="",
            external_id=f"{claim.external_id}/{_identity(mail, parsed)}",
            sender=claim,
            conversation=email_key(address),
            thread=next((part for part in thread if part), ""),
            text=clean(parsed.reply_text.strip() or parsed.subject.strip()),
            context=clean(parsed.context),
            sent_at=int(parsed.date.timestamp() * 1e6) if parsed.date else None,
            reply=reply,
        )

    def _claim(self, mail: ReceivedMail, parsed: ParsedMail) -> Claim:
        if mail.authenticated:
            # The login proves the owner; the From stays unproven and is only where the answer goes.
            return Claim("local", "", OWNER, OWNER, "smtp_auth")
        if parsed.from_address is None or len(parsed.from_addresses) != 1:
            return Claim(NAME, "", "", "", "")
        proof = PROOFS[self.config.authentication]
        return Claim(NAME, "", email_key(parsed.from_address), parsed.from_name, proof)

    async def send(self, reply: Reply) -> Outcome:
        """Send a reply in its thread, under a Message-ID that is the same at every try."""
        if reply.edits is not None:
            # A mail that went out stays as it is.
            return Sent(None)
        data = reply.content["reply"]
        try:
            mail = await asyncio.to_thread(self._compose, reply, data)
        except UnusableAddress as error:
            return Refused(str(error))
        outcome = await self.carrier.deliver(mail)
        if isinstance(outcome, Sent):
            # A new try carries the same Message-ID, by which receivers recognise the repetition.
            return Sent(mail.message_id, repeated=reply.was_sending and self.repeats)
        return outcome

    def _compose(self, reply: Reply, data: dict[str, Any]) -> ComposedMail:
        parts = render(reply.content["text"])
        thread = Thread(data["subject"], data["message_id"], data["in_reply_to"], tuple(data["references"]))
        return compose(
            key=reply.key,
            own_address=self.config.address,
            own_name="Nightporter",
            to=[data["to"]],
            to_name=data["to_name"],
            thread=thread,
            text=parts.text,
            html=parts.html,
            now=self.now(),
        )


def _thread(parsed: ParsedMail) -> Thread:
    return Thread(parsed.subject, parsed.message_id, parsed.in_reply_to, list(parsed.references))


def _identity(mail: ReceivedMail, parsed: ParsedMail) -> str:
    """The mail's own id, or the digest of its bytes where it has none."""
    return parsed.message_id or f"sha256:{sha256(mail.raw).hexdigest()}"

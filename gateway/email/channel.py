"""The email channel: a mail that came in becomes an envelope, a reply becomes a mail in its thread.

Nothing unproven is answered, at all: forged mail must not make us write to its victim. Machines, lists, bounces and
ourselves are acknowledged and dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

import structlog

from gateway.channel import Outcome, Refused, Sent
from gateway.email import parsed as parsed_mail
from gateway.email import texts
from gateway.email.addresses import plus_part
from gateway.email.compose import ComposedMail, File, Thread, UnusableAddress, compose
from gateway.email.config import EmailConfig
from gateway.email.parse import parse
from gateway.email.parsed import ParsedMail
from gateway.email.policy import should_not_answer
from gateway.email.readers import others
from gateway.email.render import render
from gateway.email.senders import Sender, Senders, TryAgain, Unproven
from gateway.email.sent_mail import SentMail, Strand
from gateway.email.smtp_server import Accepted, ReceivedMail, TryLater, Verdict
from gateway.email.smtp_server import Refused as RefusedMail
from gateway.files import NoFile, Read, files_of, nothing_kept
from gateway.texts import file_not_sent
from identity import codes
from identity.access import OWNER, email_key
from identity.users import Claim
from router import inbox
from router.envelope import Attachment, Envelope, clean
from workspace_store.blobs import blob_name
from workspace_store.database import DatabaseUnavailable
from workspace_store.disk_room import DiskFull
from workspace_store.outbox import Reply

log = structlog.get_logger()

NAME = "email"
AcceptEnvelope = Callable[[Envelope, Mapping[str, bytes]], Awaitable[inbox.Accepted | None]]


class Carrier(Protocol):
    """Takes a composed mail: a relay or a Maildir."""

    async def deliver(self, mail: ComposedMail) -> Outcome: ...


@dataclass
class EmailChannel:
    """``now`` is the time a reply is dated with; ``repeats``: whether a second delivery can be seen by the reader."""

    config: EmailConfig
    accept: AcceptEnvelope
    senders: Senders
    carrier: Carrier
    now: Callable[[], datetime]
    repeats: bool
    sent: SentMail
    sign: Callable[[bytes], bytes] = bytes
    """Puts a signature on a mail that goes out; by default there is none."""
    files: Read = nothing_kept
    name: str = NAME

    async def received(self, mail: ReceivedMail) -> Verdict:
        """Record a mail durably, or drop what must not be answered; only then is it acknowledged."""
        parsed = await asyncio.to_thread(parse, mail.raw)
        reason = should_not_answer(parsed, mail.envelope_from, self.config.address)
        if reason is not None:
            log.info("mail dropped", reason=reason, message_id=parsed.message_id)
            return await self._dropped(mail, parsed)
        try:
            sender = None if mail.authenticated else await self.senders.prove(mail)
        except Unproven as error:
            return self._unproven(str(error), mail, parsed)
        except TryAgain as error:
            log.warning("a sender cannot be checked now", reason=str(error), message_id=parsed.message_id)
            return TryLater(texts.PROOF_LATER.format(reason=error), texts.NOT_PROVEN_YET)
        try:
            await self.accept(await self._envelope(mail, parsed, sender), _contents(mail, parsed))
        except DiskFull as error:
            log.warning("no room for a mail; it has to come again", reason=str(error))
            return TryLater(texts.DISK_FULL, texts.DISK_FULL_CODE)
        except (DatabaseUnavailable, OSError) as error:
            log.warning("a mail could not be recorded; it has to come again", reason=str(error))
            return TryLater()
        return Accepted()

    async def _dropped(self, mail: ReceivedMail, parsed: ParsedMail) -> Verdict:
        """What is never answered; but a mail of ours that came back is one that did not arrive."""
        if parsed.failed_delivery is not None:
            try:
                await self.sent.came_back(parsed.failed_delivery, _addressed(mail, parsed))
            except DatabaseUnavailable:
                return TryLater()
        return Accepted()

    def _unproven(self, reason: str, mail: ReceivedMail, parsed: ParsedMail) -> Verdict:
        """Refused while the sender's own server is connected: an honest sender learns of it, and nobody else does.

        A server of our own would make a bounce of the refusal, to a victim: it is told nothing.
        """
        log.info("mail dropped", reason="its sender is not proven", detail=reason, message_id=parsed.message_id)
        returned = self.config.behind_own_server and mail.protocol != "imap"
        return Accepted() if returned else RefusedMail(reason, texts.NOT_PROVEN)

    async def _envelope(self, mail: ReceivedMail, parsed: ParsedMail, sender: Sender | None) -> Envelope:
        """``sender`` is None for the owner, who logged in: their From is unproven and only where the answer goes."""
        if sender is None:
            claim = Claim("local", "", OWNER, OWNER, "smtp_auth")
            address = (parsed.reply_to or (parsed.from_address or "",))[0]
        else:
            # Never to a Reply-To: who can write one could have the answers of someone else's agent.
            claim = Claim(NAME, "", email_key(sender.address), sender.name, sender.proof)
            address = sender.address
        seen_as = sender.seen_as if sender else ""
        named = (parsed.in_reply_to, *reversed(parsed.references))
        strand = await self.sent.strand(claim, named, _addressed(mail, parsed))
        thread = (strand.thread if strand else "", *parsed.references, parsed.in_reply_to, parsed.message_id)
        reply: dict[str, Any] = {"to": address, "to_name": parsed.from_name, **asdict(_thread(parsed, strand))}
        if self.config.reply_all:
            reply["cc"] = others(parsed, self.config.address, address)
        return Envelope(
            channel=NAME,
            account="",
            external_id=f"{claim.external_id}/{seen_as or _identity(mail, parsed)}",
            sender=claim,
            conversation=email_key(address),
            thread=next((part for part in thread if part), ""),
            text=self._linking(mail, parsed) or clean(parsed.reply_text.strip() or parsed.subject.strip()),
            context=clean(parsed.context),
            sent_at=int(parsed.date.timestamp() * 1e6) if parsed.date else None,
            reply=reply,
            attachments=tuple(
                Attachment(file.name, file.content_type, len(file.content), blob_name(file.content))
                for file in _attached(parsed)
            ),
            raw=blob_name(mail.raw),
        )

    def _linking(self, mail: ReceivedMail, parsed: ParsedMail) -> str:
        """The command that writing to ``porter+CODE@`` is; whatever the mail says besides is not read."""
        for address in _addressed(mail, parsed):
            code = codes.typed(plus_part(address, self.config.address))
            if len(code) == codes.LINK_CHARACTERS:
                return f"/link {code}"
        return ""

    async def send(self, reply: Reply) -> Outcome:
        """Send a reply in its thread, under a Message-ID that is the same at every try."""
        if reply.edits is not None:
            # A mail that went out stays as it is.
            return Sent(None)
        data = reply.content.get("reply") or {}
        files, notes = await self._files_of(reply)
        try:
            mail = await asyncio.to_thread(self._compose, reply, data, files, notes)
            outcome = await self.carrier.deliver(mail)
            if isinstance(outcome, Refused) and files:
                # Too large, or of a kind that is not let through: the words arrive, and say so.
                notes += [file_not_sent(file.name, outcome.reason) for file in files]
                mail = await asyncio.to_thread(self._compose, reply, data, [], notes)
                outcome = await self.carrier.deliver(mail)
        except UnusableAddress as error:
            return Refused(str(error))
        if isinstance(outcome, Sent):
            # A new try carries the same Message-ID, by which receivers recognise the repetition.
            return Sent(mail.message_id, repeated=reply.was_sending and self.repeats)
        return outcome

    async def _files_of(self, reply: Reply) -> tuple[list[File], list[str]]:
        """The files of a reply, and words about those that are not there any more."""
        found, notes = [], []
        for file in files_of(reply):
            try:
                found.append(File(file.name, file.content_type, await self.files(reply.principal, file)))
            except NoFile as error:
                notes.append(file_not_sent(file.name, str(error)))
        return found, notes

    def _compose(self, reply: Reply, data: dict[str, Any], files: Sequence[File], notes: Sequence[str]) -> ComposedMail:
        parts = render("\n\n".join([reply.content["text"], *notes]))
        # Without a mail that is answered it begins a thread of its own.
        subject = data.get("subject") or reply.content.get("subject") or texts.NEW_THREAD
        given = (data.get("message_id"), data.get("in_reply_to"), tuple(data.get("references") or ()))
        thread = Thread(str(subject), *given, begins=not data.get("to"))
        mail = compose(
            key=reply.key,
            own_address=self.config.address,
            own_name="Nightporter",
            to=[data.get("to") or reply.conversation],
            to_name=data.get("to_name") or "",
            cc=data.get("cc", []) if reply.turn is not None and not reply.content.get("buttons") else [],
            thread=thread,
            text=parts.text,
            html=parts.html,
            now=self.now(),
            files=files,
            plus_address=self.config.plus_addresses,
        )
        return replace(mail, data=self.sign(mail.data))


def _attached(parsed: ParsedMail) -> list[parsed_mail.Attachment]:
    """What a person attached, or put into the text as a picture."""
    return [file for file in parsed.attachments if not file.incidental]


def _contents(mail: ReceivedMail, parsed: ParsedMail) -> dict[str, bytes]:
    """The bytes to be kept: the files, and the mail as it came."""
    return {blob_name(content): content for content in (mail.raw, *(file.content for file in _attached(parsed)))}


def _thread(parsed: ParsedMail, strand: Strand | None) -> Thread:
    """What is answered. A program that leaves References out is given those of the thread."""
    earlier = parsed.references or (strand.references if strand else ())
    return Thread(parsed.subject, parsed.message_id, parsed.in_reply_to, list(earlier))


def _addressed(mail: ReceivedMail, parsed: ParsedMail) -> tuple[str, ...]:
    """Whom the mail was for: by its envelope, or by its fields where a mailbox knows no envelope."""
    return mail.recipients or (*parsed.to, *parsed.cc)


def _identity(mail: ReceivedMail, parsed: ParsedMail) -> str:
    """The mail's own id, or the digest of its bytes where it has none."""
    return parsed.message_id or f"sha256:{sha256(mail.raw).hexdigest()}"

"""What a mail says, once read: the values that the rest of the channel works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Kind = Literal["reply", "new", "list", "forward", "empty", "calendar", "auto", "bounce"]


MAX_LOGO_BYTES = 20_000


@dataclass(frozen=True)
class Attachment:
    """One attached file. `claimed_name` is the sender's word, `name` is safe to store and unique in its mail."""

    name: str
    claimed_name: str
    content_type: str
    content: bytes = field(repr=False)
    inline: bool = False
    """Part of the text, such as an image shown in it."""
    content_id: str = ""
    incidental: bool = False
    """Not what a person attached: a cryptographic signature or the machine-readable half of an invitation."""

    @property
    def announced(self) -> bool:
        """Whether a person would speak of it as attached. A small image that the text itself shows (inline, with a
        Content-ID, of at most 20 KB) is a logo of a signature; a screenshot in the text is larger."""
        logo = self.content_type.startswith("image/") and self.content_id and len(self.content) <= MAX_LOGO_BYTES
        return not (self.incidental or (self.inline and logo))


@dataclass(frozen=True)
class FailedDelivery:
    """What a bounce says (RFC 3464): the message that failed, whom it was for, and why."""

    message_id: str | None
    recipients: tuple[str, ...]
    status: str
    action: Literal["failed", "delayed", "other"]
    diagnostic: str


@dataclass(frozen=True)
class Invitation:
    """A calendar object (RFC 5545, 5546) in short."""

    method: str
    summary: str
    starts: str
    ends: str
    location: str
    organizer: str
    uid: str


@dataclass(frozen=True)
class ParsedMail:
    """One mail, read. Texts hold neither NUL nor lone surrogates; header values hold no line breaks."""

    kind: Kind
    reply_text: str
    """What the sender newly wrote: no quotes, signature or legal footer."""
    context: str
    """Quoted or forwarded text, answers in place between the questions; empty if there is none."""
    from_address: str | None
    from_name: str
    from_addresses: tuple[str, ...]
    """Every address that any From field holds. More than one: the sender is ambiguous and proves nothing."""
    reply_to: tuple[str, ...]
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    message_id: str | None
    in_reply_to: str | None
    references: tuple[str, ...]
    date: datetime | None
    attachments: tuple[Attachment, ...] = ()
    auto_submitted: str = "no"
    """The keyword of Auto-Submitted (RFC 3834), `no` if absent."""
    automatic_because: str | None = None
    """Why the kind is auto, bounce or list, in words for a log."""
    return_path: str | None = None
    """The address of Return-Path; an empty string is the null sender."""
    precedence: str = ""
    list_id: str = ""
    failed_delivery: FailedDelivery | None = None
    invitation: Invitation | None = None
    encrypted: bool = False
    limits_reached: tuple[str, ...] = ()
    """Names of the limits that cut the reading short; empty for an ordinary mail."""

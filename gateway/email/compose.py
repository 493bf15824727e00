"""An outgoing mail: multipart/alternative in the thread it answers, with an id that is the same at every try.

The header block is written here and not by the standard library, whose folding breaks long ids and has let line
breaks through (CVE-2024-6923). Whatever is put in, each field is one field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.header import Header
from email.message import EmailMessage
from email.utils import format_datetime, formataddr

from gateway.email import kinds, texts
from gateway.email.addresses import is_address
from gateway.email.filenames import safe_name

MAX_REFERENCES = 20
MAX_ID_CHARS = 250
MAX_SUBJECT_CHARS = 400

_CONTROL = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]+")
_ID = re.compile(rf"<[!-;=?-~]{{1,{MAX_ID_CHARS}}}>")
_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}")
_POLICY = policy.SMTP.clone(cte_type="7bit", max_line_length=76)


class UnusableAddress(ValueError):
    """An address that cannot stand in a mail; its words name it."""


@dataclass(frozen=True)
class File:
    """A file to attach."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True)
class Thread:
    """What is answered: the fields of the mail that came, as parsed."""

    subject: str
    message_id: str | None = None
    in_reply_to: str | None = None
    references: Sequence[str] = ()
    begins: bool = False
    """Nothing is answered: a thread of its own begins."""


@dataclass(frozen=True)
class ComposedMail:
    """A mail ready for the wire: CRLF line ends, at most 998 octets a line, seven bits unless `smtputf8`."""

    message_id: str
    sender: str
    """The envelope sender, our own address: a bounce comes back to us."""
    recipients: tuple[str, ...]
    data: bytes
    smtputf8: bool = False
    """An address is not ASCII: the relay must know SMTPUTF8 (RFC 6531)."""


def message_id(key: str, domain: str) -> str:
    """The Message-ID of the outbox row `key`: the same key gives the same id at every try."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, person=b"np-message-id").hexdigest()
    return f"<np.{digest}@{_ascii_domain(domain)}>"


def compose(
    *,
    key: str,
    own_address: str,
    own_name: str = "",
    to: Sequence[str],
    to_name: str = "",
    cc: Sequence[str] = (),
    thread: Thread,
    text: str,
    html: str = "",
    now: datetime,
    plus_address: bool = False,
    files: Sequence[File] = (),
) -> ComposedMail:
    """An answer in `thread`. `key` is the outbox row's idempotency key, `now` has a time zone.

    `plus_address`: answers and bounces are asked for at our address with the Message-ID's token after a plus.
    `Auto-Submitted: auto-replied` tells other machines not to answer (RFC 3834, 5.1.7). Raises UnusableAddress.
    """
    for address in (own_address, *to, *cc):
        if not is_address(address):
            raise UnusableAddress(texts.BAD_ADDRESS.format(address=address))
    if not to:
        raise UnusableAddress(texts.BAD_ADDRESS.format(address=""))
    identity = message_id(key, own_address.rpartition("@")[2])
    references = reference_chain(thread)
    fields = [
        ("Message-ID", identity),
        ("Date", format_datetime(now)),
        ("From", _mailbox(own_name, own_address)),
        ("To", ",\r\n ".join(_mailbox(to_name if len(to) == 1 else "", address) for address in to)),
    ]
    if cc:
        fields.append(("Cc", ",\r\n ".join(_mailbox("", address) for address in cc)))
    sender = _plus(own_address, identity) if plus_address else own_address
    if plus_address:
        fields.append(("Reply-To", _mailbox(own_name, sender)))
    subject = " ".join(_CONTROL.sub(" ", thread.subject).split())[:MAX_SUBJECT_CHARS]
    fields.append(("Subject", _unstructured(subject if thread.begins else reply_subject(thread.subject), "Subject")))
    if thread.message_id and _ID.fullmatch(thread.message_id):
        fields.append(("In-Reply-To", thread.message_id))
    if references:
        fields.append(("References", "\r\n ".join(references)))
    fields += [
        ("Auto-Submitted", "auto-generated" if thread.begins else "auto-replied"),
        ("X-Auto-Response-Suppress", "All"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    utf8 = not head.isascii()
    return ComposedMail(identity, sender, (*to, *cc), head.encode() + _body(text, html, files), utf8)


def _plus(address: str, identity: str) -> str:
    """`address` with the token of a Message-ID of ours (RFC 5233)."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0]}+{identity.partition('@')[0].removeprefix('<np.')}@{domain}"


def reply_subject(subject: str) -> str:
    """`subject` with exactly one `Re:`; replies' marks of other languages (AW:, SV:, 回复:) are taken off."""
    rest = " ".join(_CONTROL.sub(" ", subject).split())
    for _ in range(20):
        if not kinds.subject_says_reply(rest):
            break
        rest = re.split("[:：]", rest, maxsplit=1)[1].strip()
    return f"Re: {rest[:MAX_SUBJECT_CHARS] or texts.NO_SUBJECT}"


def reference_chain(thread: Thread) -> tuple[str, ...]:
    """References for an answer (RFC 5322, 3.6.4): the parent's, or its In-Reply-To, then its id.

    Bounded: the first, which names the thread, and the newest; ids that cannot stand in a header are left out.
    """
    earlier = list(thread.references) or ([thread.in_reply_to] if thread.in_reply_to else [])
    chain = [item for item in [*earlier, thread.message_id] if item and _ID.fullmatch(item)]
    chain = list(dict.fromkeys(reversed(chain)))[::-1]
    if len(chain) > MAX_REFERENCES:
        chain = [chain[0], *chain[-(MAX_REFERENCES - 1) :]]
    return tuple(chain)


def _mailbox(name: str, address: str) -> str:
    local, _, domain = address.rpartition("@")
    if local.isascii():
        address = f"{local}@{_ascii_domain(domain)}"
    plain = " ".join(_CONTROL.sub(" ", name).split())[:200]
    if not plain:
        return address
    if address.isascii():
        return formataddr((plain, address), "utf-8").replace("\n", "")
    quoted = plain.replace("\\", "").replace('"', "'")
    return f'"{quoted}" <{address}>'  # formataddr refuses an address of RFC 6532


def _ascii_domain(domain: str) -> str:
    try:
        return domain.encode("idna").decode("ascii")
    except UnicodeError:
        return "localhost"


def _unstructured(value: str, name: str) -> str:
    clean = _CONTROL.sub(" ", value)
    charset = "us-ascii" if clean.isascii() else "utf-8"
    folded = Header(clean, charset, maxlinelen=76, header_name=name).encode(linesep="\r\n")
    return folded if all(line.startswith((" ", "\t")) for line in folded.split("\r\n")[1:]) else clean


def _body(text: str, html: str, files: Sequence[File]) -> bytes:
    """The MIME fields and the content."""
    message = EmailMessage(policy=_POLICY)
    message.set_content(_storable(text) or "\n", charset="utf-8")
    if html:
        message.add_alternative(_storable(html), subtype="html", charset="utf-8")
    for number, file in enumerate(files, start=1):
        content_type = file.content_type.lower()
        maintype, _, subtype = (
            content_type if _TYPE.fullmatch(content_type) else "application/octet-stream"
        ).partition("/")
        if maintype in {"multipart", "message"}:
            maintype, subtype = "application", "octet-stream"
        name = safe_name(file.name, content_type, number)
        message.add_attachment(file.content, maintype=maintype, subtype=subtype, filename=name)
    return message.as_bytes()


def _storable(text: str) -> str:
    """Without NUL and lone surrogates, line ends made one."""
    text = re.sub("[\x00\ud800-\udfff]", "�", text)
    return re.sub("\r\n|\r", "\n", text)

"""The one author a mail names: read strictly, since what two readers read differently can be forged.

Mail that names its author in an unusual way proves nothing, however well it is signed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

import idna

from gateway.email import limits, texts
from gateway.email.headers import mailboxes
from gateway.email.senders import Unproven

_FIELD = re.compile(rb"([!-9;-~]{1,200}):")
_ONCE = frozenset(
    {
        "from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references",
        "mime-version", "content-type", "content-transfer-encoding",
    }
)  # fmt: skip
"""Fields that stand once at most (RFC 5322, 3.6; RFC 2045, 3): of two, one reader sees the first, another the last."""
_LOCAL = re.compile(r"[^\s<>()\[\]\\,;:@\"\x00-\x1f\x7f-\x9f]{1,64}")
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"|\((?:[^()\\]|\\.)*\)')
_ADDRESS = rb"[^<>@\s,;:\"()]{1,64}@[^<>@\s,;:\"()]{1,255}"
_ONE_MAILBOX = re.compile(rb"[^<>@,;:\"()]*<" + _ADDRESS + rb">|" + _ADDRESS)
_OTHER_DOTS = frozenset("。．｡")
"""What IDNA would take for a dot, so that one label becomes two."""
_AT_SIGN = re.compile(r"[^\s@<>\"'(),;:]{1,64}@[^\s@<>\"'(),;:]{1,255}")


@dataclass(frozen=True)
class Field:
    """One header field as it stands: ``value`` is what follows the colon, folded with CRLF, which also ends it."""

    name: bytes
    value: bytes

    @property
    def key(self) -> str:
        return self.name.decode("ascii").lower()


@dataclass(frozen=True)
class Author:
    """``domain`` in its ASCII form, lower case. ``name`` is what they call themselves, and proves nothing."""

    address: str
    local: str
    domain: str
    name: str


@dataclass(frozen=True)
class StrictMail:
    """A mail whose header can be read in one way only."""

    fields: tuple[Field, ...]
    body: bytes

    def values(self, name: str) -> list[bytes]:
        return [field.value for field in self.fields if field.key == name]


def read_strictly(raw: bytes) -> StrictMail:
    """Header and body of a mail. Raises Unproven where readers could differ on where a field or the header ends."""
    fields: list[list[bytes]] = []
    position, length = 0, len(raw)
    while position < length:
        newline = raw.find(b"\n", position)
        end = length if newline < 0 else newline + 1
        line = raw[position:end].removesuffix(b"\n").removesuffix(b"\r")
        if not line:
            position = end
            break
        if end > limits.MAX_HEADER_BYTES or len(fields) > limits.MAX_FIELDS_PROVEN:
            raise Unproven(texts.UNPROVEN_HEADER)
        if b"\r" in line or b"\0" in line or not line.strip(b" \t"):
            raise Unproven(texts.UNPROVEN_HEADER)
        found = _FIELD.match(line)
        if line[:1] in b" \t" and fields:
            fields[-1][1] += line + b"\r\n"
        elif found:
            fields.append([found.group(1), line[found.end() :] + b"\r\n"])
        else:
            raise Unproven(texts.UNPROVEN_HEADER)
        position = end
    body = raw[position:]
    if body.count(b"\n") != body.count(b"\r\n"):
        body = body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    read = StrictMail(tuple(Field(name, value) for name, value in fields), body)
    doubled = [name for name, count in Counter(field.key for field in read.fields).items() if count > 1]
    for name in doubled:
        if name in _ONCE:
            raise Unproven(texts.UNPROVEN_TWICE.format(field=name.title()))
    return read


def author_of(mail: StrictMail) -> Author:
    """The author. Raises Unproven for none, for several, and for one who shows another's address as their name."""
    values = mail.values("from")
    if len(values) != 1:
        raise Unproven(texts.UNPROVEN_NO_AUTHOR)
    name, local, domain = _only_mailbox(values[0])
    author = Author(f"{local}@{domain}", local, domain, name)
    for shown in _AT_SIGN.findall(unicodedata.normalize("NFKC", name)):
        if shown.strip("[]{}.").casefold() != author.address.casefold():
            raise Unproven(texts.UNPROVEN_DISPLAY)
    for sender in mail.values("sender"):
        if _only_mailbox(sender)[1:] != (local, domain):
            raise Unproven(texts.UNPROVEN_SENDER)
    return author


def _only_mailbox(value: bytes) -> tuple[str, str, str]:
    """(name, local part, domain) of a field that holds one plain mailbox and nothing else."""
    found = mailboxes(re.sub(rb"\r\n", b"", value), limit=3)
    if len(found) != 1:
        raise Unproven(texts.UNPROVEN_SEVERAL)
    local, _, domain = found[0].address.rpartition("@")
    if not _LOCAL.fullmatch(local):
        raise Unproven(texts.UNPROVEN_ADDRESS)
    # The lenient reader must not have chosen one of several: outside of quotes and comments stands one address.
    if not _ONE_MAILBOX.fullmatch(_QUOTED.sub(b"", value).strip()):
        raise Unproven(texts.UNPROVEN_SEVERAL)
    return found[0].name, local, ascii_domain(domain)


def ascii_domain(domain: str) -> str:
    """A domain as DNS has it: A-labels, lower case. Raises Unproven for what is no domain (RFC 5890, 5321)."""
    if not domain.isascii():
        if _OTHER_DOTS & set(domain):
            raise Unproven(texts.UNPROVEN_ADDRESS)
        try:
            domain = idna.encode(unicodedata.normalize("NFC", domain).lower()).decode("ascii")
        except (idna.IDNAError, UnicodeError) as error:
            raise Unproven(texts.UNPROVEN_ADDRESS) from error
    domain = domain.lower()
    if len(domain) > 253 or not all(_HOST.fullmatch(label) for label in domain.split(".")):
        raise Unproven(texts.UNPROVEN_ADDRESS)
    return domain

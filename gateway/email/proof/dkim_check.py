"""DKIM (RFC 6376): which signatures of an author's domain hold, and what of the mail they vouch for.

The signing itself is checked by dkimpy; what it lets pass and a careful reader would not is refused here: bodies signed
in part, weak or test keys, expired or old signatures, fields that were added to what was signed.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import dkim
from dkim.util import InvalidTagValueList, parse_tag_value

from gateway.email.headers import parameters
from gateway.email.proof.author import StrictMail
from gateway.email.proof.lookups import Lookups

MAX_SIGNATURES = 5
"""How many signatures of the author's domain are tried: each hashes the whole mail."""
MAX_SIGNATURE_BYTES = 8192
MAX_BLANKS = re.compile(rb"\s{100}")
"""dkimpy's patterns take the square of a run of blanks."""
MIN_KEY_BITS = 1024
MAX_KEY_BYTES = 1500
"""Base64 of an RSA key of 8,192 bits; a larger one only costs time."""
CLOCK_SECONDS = 3600
"""How far the signer's clock may be ahead of ours."""

_TAGS = (b"v", b"a", b"d", b"s", b"h", b"b", b"bh")


@dataclass(frozen=True)
class Signature:
    """A signature that holds. ``signed`` are the fields it covers, ``at`` its ``t=`` in seconds, ``digest`` of it."""

    domain: str
    signed: frozenset[str]
    at: int | None
    digest: str


@dataclass(frozen=True)
class Rejected:
    """Why a signature counts for nothing, in words for a log."""

    domain: str
    reason: str


class BodyHashes:
    """The hashes of a body in its two canonical forms (RFC 6376, 3.4), made once for all signatures of a mail.

    dkimpy makes them anew for each, with patterns that take gigabytes for megabytes of line ends.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._known: dict[bool, bytes] = {}

    def of(self, *, relaxed: bool) -> bytes:
        if relaxed not in self._known:
            self._known[relaxed] = hashlib.sha256(_canonical(self._body, relaxed=relaxed)).digest()
        return self._known[relaxed]


def _canonical(body: bytes, *, relaxed: bool) -> bytes:
    if relaxed:
        body = body.replace(b"\t", b" ")
        while b"  " in body:
            body = body.replace(b"  ", b" ")
        body = body.replace(b" \r\n", b"\r\n")
    end, step = len(body), 1 << 22
    while step:
        lines = b"\r\n" * step
        while body.endswith(lines, 0, end):
            end -= len(lines)
        step >>= 1
    return b"" if relaxed and not end else body[:end] + b"\r\n"


class _HeaderOnly(dkim.DKIM):  # type: ignore[misc]
    """dkimpy's check of the signed header, which holds the hash of the body."""

    def verify_headerprep(self, idx: int = 0) -> Any:
        found = super().verify_headerprep(idx)
        if found:
            found[0].pop(b"bh")
        return found


def domain_of(value: bytes) -> str:
    """The ``d=`` of a signature field; empty if it has none that can be read."""
    tags = _tags_of(value)
    return tags[b"d"].decode("ascii", "replace").lower().rstrip(".") if tags else ""


def _tags_of(value: bytes) -> dict[bytes, bytes] | None:
    if len(value) > MAX_SIGNATURE_BYTES or MAX_BLANKS.search(value):
        return None
    try:
        tags: dict[bytes, bytes] = parse_tag_value(value)
    except InvalidTagValueList:
        return None
    return tags if all(tag in tags for tag in _TAGS) else None


def verify(mail: StrictMail, body: BodyHashes, index: int, lookups: Lookups, now: int) -> Signature | Rejected:
    """Check the signature field at ``index`` among those of the mail. Raises TryAgain, TooManyLookups."""
    value = mail.values("dkim-signature")[index]
    domain = domain_of(value)
    tags = _tags_of(value)
    if tags is None:
        return Rejected(domain, "cannot be read")
    wrong = _wrong_tags(tags, now) or _wrong_coverage(mail, _signed(tags))
    if wrong:
        return Rejected(domain, wrong)
    selector = tags[b"s"].decode("ascii", "replace")
    records = lookups.texts(f"{selector}._domainkey.{domain}")
    if not records:
        return Rejected(domain, f"has no key at {selector}._domainkey.{domain}")
    wrong = _wrong_key(records[0], tags)
    if wrong:
        return Rejected(domain, wrong)
    if not _holds(mail, body, index, tags, records[0]):
        return Rejected(domain, "does not fit the mail")
    at = int(tags[b"t"]) if b"t" in tags else None
    digest = hashlib.sha256(re.sub(rb"\s+", b"", tags[b"b"])).hexdigest()
    return Signature(domain, frozenset(_signed(tags)), at, digest)


def _signed(tags: dict[bytes, bytes]) -> list[str]:
    return [name.strip().decode("ascii", "replace").lower() for name in tags[b"h"].split(b":")]


def _wrong_tags(tags: dict[bytes, bytes], now: int) -> str:
    """What is wrong with a signature before any key is fetched; empty if nothing."""
    for name in (b"t", b"x"):
        if name in tags and not re.fullmatch(rb"\d{1,12}", tags[name]):
            return f"has a {name.decode()}= that is no time"
    if tags[b"a"].lower() not in (b"rsa-sha256", b"ed25519-sha256"):
        return "uses an algorithm that is not secure (RFC 8301)"
    if b"l" in tags:
        return "covers the body in part only (l=)"
    if b"x" in tags and int(tags[b"x"]) < now:
        return "has expired (x=)"
    if b"t" in tags and int(tags[b"t"]) > now + CLOCK_SECONDS:
        return "was made in the future (t=)"
    return ""


def _wrong_coverage(mail: StrictMail, signed: list[str]) -> str:
    """What a forger could add or change without breaking the signature (RFC 6376, 8.2 and 8.15)."""
    present = {field.key for field in mail.fields}
    if "from" not in signed:
        return "does not cover From"
    if "subject" in present and "subject" not in signed:
        return "does not cover Subject"
    if "content-type" in present and "content-type" not in signed and not _content_type_is_bound(mail):
        return "leaves open how the body is to be read (Content-Type)"
    return ""


def _content_type_is_bound(mail: StrictMail) -> bool:
    """Whether the body itself says how it is to be read: it opens with the boundary, or the type is plain text."""
    content_type, given = parameters(b"".join(mail.values("content-type")).replace(b"\r\n", b" ").strip())
    if content_type == "text/plain":
        return True
    boundary = given.get("boundary", "").encode("utf-8", "replace")
    opening = mail.body.lstrip(b"\r\n")[: len(boundary) + 4]
    return content_type.startswith("multipart/") and bool(boundary) and opening.startswith(b"--" + boundary)


def _wrong_key(record: bytes, tags: dict[bytes, bytes]) -> str:
    """What is wrong with a key record for this signature (RFC 6376, 3.6.1); empty if nothing."""
    try:
        key: dict[bytes, bytes] = parse_tag_value(record)
    except InvalidTagValueList:
        return "has a key that cannot be read"
    algorithm = tags[b"a"].lower()
    kind, digest = algorithm.split(b"-")
    if len(key.get(b"p", b"")) > MAX_KEY_BYTES:
        return "has a key that is too large"
    if not key.get(b"p"):
        return "has a key that was revoked"
    if key.get(b"k", b"rsa").lower() != kind:
        return "has a key of another kind"
    if b"h" in key and digest not in _list(key[b"h"]):
        return "has a key for another algorithm"
    if b"s" in key and not _list(key[b"s"]) & {b"*", b"email"}:
        return "has a key that is not for mail"
    flags = _list(key.get(b"t", b""))
    if b"y" in flags:
        return "has a key that its domain is only testing (t=y)"
    if b"s" in flags and b"i" in tags and tags[b"i"].rpartition(b"@")[2].lower() != tags[b"d"].lower():
        return "speaks for a subdomain that its key does not allow (t=s)"
    return ""


def _list(value: bytes) -> set[bytes]:
    return {item.strip().lower() for item in value.split(b":")}


def _holds(mail: StrictMail, body: BodyHashes, index: int, tags: dict[bytes, bytes], record: bytes) -> bool:
    checker = _HeaderOnly(minkey=MIN_KEY_BITS)
    checker.headers = [[field.name, field.value] for field in mail.fields]
    form = tags.get(b"c", b"simple/simple").partition(b"/")[2] or b"simple"
    try:
        if form not in (b"simple", b"relaxed"):
            return False
        if b64decode(re.sub(rb"\s+", b"", tags[b"bh"])) != body.of(relaxed=form == b"relaxed"):
            return False
        if tags[b"a"].lower() == b"ed25519-sha256" and len(b64decode(re.sub(rb"\s+", b"", tags[b"b"]))) != 64:
            return False
        return bool(checker.verify(index, dnsfunc=lambda name, timeout=0: record))
    except Exception:  # whatever a hostile field does to the library: it proves nothing
        return False

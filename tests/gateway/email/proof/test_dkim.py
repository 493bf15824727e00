"""DKIM as proof: what signers really do is taken, and what a careful reader would not believe is not."""

from __future__ import annotations

import base64
import hashlib
import random
import resource

import dkim
import pytest
from dkim.canonicalization import Relaxed, Simple
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from gateway.email.proof.dkim_check import BodyHashes
from gateway.email.senders import TryAgain, Unproven
from nightporter.testing.dns import DnsServer
from nightporter.testing.mail import MailDomain, letter

from .conftest import OWN, Judge


def short_key(half: int) -> tuple[bytes, str]:
    """An RSA key too short for today's libraries, by hand: private (PKCS #1, PEM) and public (base64)."""
    p, q = prime(half), prime(half)
    e = 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    private = sequence(*map(integer, (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))))
    pem = "-----BEGIN RSA PRIVATE KEY-----\n" + base64.encodebytes(private).decode() + "-----END RSA PRIVATE KEY-----\n"
    return pem.encode(), base64.b64encode(sequence(integer(p * q), integer(e))).decode()


def prime(bits: int) -> int:
    while True:
        found = random.getrandbits(bits) | 1 | (3 << (bits - 2))
        if found % 65537 != 1 and all(pow(base, found - 1, found) == 1 for base in (2, 3, 5, 7, 11, 13)):
            return found


def integer(value: int) -> bytes:
    return tagged(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def sequence(*parts: bytes) -> bytes:
    return tagged(0x30, b"".join(parts))


def tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


GMAIL = [
    "to",
    "subject",
    "message-id",
    "date",
    "from",
    "mime-version",
    "from",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "reply-to",
]
MICROSOFT = ["from", "date", "subject", "message-id", "content-type", "mime-version"]
YAHOO = ["date", "from", "to", "subject", "references", "from", "subject", "reply-to"]


@pytest.mark.parametrize("fields", [None, GMAIL, MICROSOFT, YAHOO, ["From", "To", "Subject"]])
@pytest.mark.parametrize("canonical", [("relaxed", "relaxed"), ("simple", "simple"), ("relaxed", "simple")])
def test_what_large_signers_sign(
    ann: MailDomain, judge: Judge, fields: list[str] | None, canonical: tuple[str, str]
) -> None:
    mail = letter("Grüße\n\n  zwei   Leerzeichen  \n\n\n", to=f"Porter <{OWN}>", subject="Über uns")
    mail.add_alternative("<p>Grüße</p>", subtype="html")
    assert judge(ann.sign(mail, fields=fields, canonical=canonical)) == "ann@example.org"


def test_a_key_of_ed25519(dns: DnsServer, judge: Judge) -> None:
    key = SigningKey.generate()
    public = base64.b64encode(bytes(key.verify_key)).decode()
    dns.txt("e._domainkey.example.org", f"v=DKIM1; k=ed25519; p={public}")
    dns.txt("_dmarc.example.org", "v=DMARC1; p=none")
    raw = bytes(letter(to=OWN))
    private = base64.b64encode(bytes(key))
    signature = dkim.DKIM(raw, signature_algorithm=b"ed25519-sha256").sign(b"e", b"example.org", private)
    assert judge(signature + raw) == "ann@example.org"


def test_one_good_signature_among_others_is_enough(dns: DnsServer, ann: MailDomain, judge: Judge) -> None:
    relay = MailDomain(dns, "relay.test", serial=1)
    broken = MailDomain(dns, "example.org", selector="old", dmarc=None, spf=None, serial=2)
    dns.remove("old._domainkey.example.org", "TXT")
    assert judge(relay.sign(broken.sign(ann.sign(letter(to=OWN))))) == "ann@example.org"


def test_a_relay_that_changes_line_ends_and_adds_its_fields(ann: MailDomain, judge: Judge) -> None:
    signed = b"Received: from x by y\r\n\tfor z\r\nX-Spam: no\r\n" + ann.sign(letter(to=OWN))
    assert judge(signed.replace(b"\r\n", b"\n")) == "ann@example.org"


@pytest.mark.parametrize(
    "tags",
    [
        "v=DKIM1; k=rsa; t=y",
        "v=DKIM1; k=rsa; t=y:s",
        "v=DKIM1; k=rsa; s=tlsrpt",
        "v=DKIM1; k=rsa; h=sha1",
        "v=DKIM2; k=rsa",
        "v=DKIM1; k=ed25519",
    ],
)
def test_a_key_that_is_not_for_this(dns: DnsServer, judge: Judge, tags: str) -> None:
    other = MailDomain(dns, "other.test", key_tags=tags)
    with pytest.raises(Unproven):
        judge(other.sign(letter(to=OWN, sender="a@other.test")))


def test_a_revoked_and_a_garbled_key(dns: DnsServer, ann: MailDomain, judge: Judge) -> None:
    signed = ann.sign(letter(to=OWN))
    for record in ("v=DKIM1; k=rsa; p=", "v=DKIM1; k=rsa; p=AAAA", "p=!!!", "", "=", "v=DKIM1; p=" + "A" * 60_000):
        dns.remove("key1._domainkey.example.org", "TXT")
        dns.txt("key1._domainkey.example.org", record)
        with pytest.raises(Unproven):
            judge(signed)


def test_a_short_key(dns: DnsServer, judge: Judge) -> None:
    """768 bits were forged long ago (RFC 8301); today's key makers refuse to make them."""
    private, public = short_key(384)
    other = MailDomain(dns, "other.test")
    dns.remove("key1._domainkey.other.test", "TXT")
    dns.txt("key1._domainkey.other.test", f"v=DKIM1; k=rsa; p={public}")
    other.private = private
    signed = other.sign(letter(to=OWN, sender="a@other.test"))
    assert dkim.DKIM(signed, minkey=512).verify(dnsfunc=lambda name, timeout=5: f"v=DKIM1; k=rsa; p={public}".encode())
    with pytest.raises(Unproven):
        judge(signed)


def test_sha1_is_not_believed(dns: DnsServer, ann: MailDomain, judge: Judge) -> None:
    raw = bytes(letter(to=OWN))
    signature = dkim.DKIM(raw, signature_algorithm=b"rsa-sha1").sign(b"key1", b"example.org", ann.private)
    with pytest.raises(Unproven):
        judge(signature + raw)


def test_an_identity_in_a_subdomain_where_the_key_forbids_it(dns: DnsServer, judge: Judge) -> None:
    other = MailDomain(dns, "other.test", key_tags="v=DKIM1; k=rsa; t=s")
    mail = letter(to=OWN, sender="a@other.test")
    assert judge(other.sign(mail)) == "a@other.test"
    with pytest.raises(Unproven):
        judge(other.sign(mail, identity="@sub.other.test"))


@pytest.mark.parametrize("trouble", ["silent", "servfail"])
def test_no_answer_is_no_verdict(dns: DnsServer, ann: MailDomain, judge: Judge, trouble: str) -> None:
    dns.trouble["key1._domainkey.example.org."] = trouble  # type: ignore[assignment]
    with pytest.raises(TryAgain):
        judge(ann.sign(letter(to=OWN)))


def test_spf_alone_is_enough_while_the_key_cannot_be_fetched(dns: DnsServer, ann: MailDomain, judge: Judge) -> None:
    dns.remove("example.org", "TXT")
    dns.txt("example.org", "v=spf1 ip4:192.0.2.1 -all")
    dns.trouble["key1._domainkey.example.org."] = "silent"
    assert judge(ann.sign(letter(to=OWN)), "192.0.2.1", "ann@example.org") == "ann@example.org"


@pytest.mark.parametrize(
    "field",
    [
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=key1; h=from" + b" " * 60_000 + b"; bh=AAAA; b=AAAA\r\n",
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=key1; h=from; bh=AAAA; b="
        + b"A \r\n " * 10_000
        + b"\r\n",
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=key1; h=" + b"from:" * 30_000 + b"; bh=AA; b=AA\r\n",
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=key1; h=from; bh=AAAA; b=AAAA; t="
        + b"9" * 9_000
        + b"\r\n",
        b"DKIM-Signature: \xff\xfe\r\nDKIM-Signature: d=example.org\r\nDKIM-Signature:\r\n",
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=\xff..; h=from; bh=AAAA; b=AAAA\r\n" * 200,
    ],
)
def test_a_hostile_signature_costs_little(ann: MailDomain, judge: Judge, field: bytes) -> None:
    with pytest.raises(Unproven):
        judge(field + bytes(letter(to=OWN)))


def test_a_body_of_blanks_costs_little(ann: MailDomain, judge: Judge) -> None:
    """dkimpy takes the square of a run of blanks: a minute for this one."""
    raw = bytes(letter("hello", to=OWN))
    signed = ann.sign(raw)
    with pytest.raises(Unproven):
        judge(signed + b" " * 2_000_000 + b"x\r\n")


@given(st.lists(st.sampled_from([b"a", b" ", b"\t", b"\r\n", b"\r", b"bc", b"\r\n\r\n", b" \r\n"]), max_size=30))
def test_bodies_are_hashed_as_dkimpy_does(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    for relaxed, form in ((True, Relaxed), (False, Simple)):
        assert BodyHashes(body).of(relaxed=relaxed) == hashlib.sha256(form.canonicalize_body(body)).digest()


@pytest.mark.slow
def test_megabytes_of_line_ends_cost_little(ann: MailDomain, judge: Judge) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signed = ann.sign(letter("hello", to=OWN))
    for body in (b"\n" * 20_000_000, b"a \t\r\n" * 4_000_000):
        with pytest.raises(Unproven):
            judge(signed + body + b"x")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000

"""Senders of mail for tests: a domain with keys and records of its own, which signs what its people write."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid
from functools import lru_cache
from typing import Any

import dkim

from nightporter.testing.dns import DnsServer


@lru_cache(maxsize=8)
def rsa_key(bits: int = 2048, serial: int = 0) -> tuple[bytes, str]:
    """A new RSA key: private in PEM (PKCS #1), public in base64. The same ``serial`` gives the same key again.

    Needs the package ``cryptography``.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, base64.b64encode(public).decode()


def letter(
    text: str = "hello",
    *,
    sender: str = "Ann <ann@example.org>",
    to: str = "porter@localhost",
    subject: str = "A question",
    **headers: str,
) -> EmailMessage:
    """A plain mail, as a person's program writes it. Further headers by name, ``_`` for ``-``."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = subject
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = make_msgid(domain="example.org")
    for name, value in headers.items():
        header = name.replace("_", "-")
        del mail[header]
        mail[header] = value
    mail.set_content(text)
    return mail


class MailDomain:
    """A domain that publishes DMARC, SPF and a DKIM key in a DnsServer, and signs."""

    def __init__(
        self,
        dns: DnsServer,
        name: str,
        *,
        dmarc: str | None = "v=DMARC1; p=reject",
        spf: str | None = "v=spf1 -all",
        selector: str = "key1",
        bits: int = 2048,
        key_tags: str = "v=DKIM1; k=rsa",
        serial: int = 0,
    ) -> None:
        self.name = name
        self.selector = selector
        self.private, public = rsa_key(bits, serial)
        dns.txt(f"{selector}._domainkey.{name}", f"{key_tags}; p={public}")
        if dmarc is not None:
            dns.txt(f"_dmarc.{name}", dmarc)
        if spf is not None:
            dns.txt(name, spf)

    def sign(
        self,
        mail: EmailMessage | bytes,
        *,
        fields: Sequence[str] | None = None,
        identity: str | None = None,
        length: bool = False,
        expires: datetime | None = None,
        canonical: tuple[str, str] = ("relaxed", "relaxed"),
    ) -> bytes:
        """The mail as bytes, with a signature on top. ``fields``: what is signed; as RFC 6376 recommends if None."""
        data = mail if isinstance(mail, bytes) else mail.as_bytes(policy=SMTP)
        signer = _Expiring(data, expires) if expires else dkim.DKIM(data)
        signature: bytes = signer.sign(
            self.selector.encode(),
            self.name.encode(),
            self.private,
            identity=identity.encode() if identity else None,
            canonicalize=(canonical[0].encode(), canonical[1].encode()),
            include_headers=None if fields is None else [field.encode() for field in fields],
            length=length,
        )
        return signature + data


class _Expiring(dkim.DKIM):  # type: ignore[misc]
    """dkimpy's signer with an ``x=``, which it reads and does not write."""

    def __init__(self, data: bytes, expires: datetime) -> None:
        super().__init__(data)
        self._expires = str(int(expires.timestamp())).encode()

    def gen_header(self, fields: list[tuple[bytes, bytes]], *rest: Any, **more: Any) -> Any:
        # t= goes: it would have to lie before x=.
        kept = [field for field in fields if field[0] != b"t"]
        return super().gen_header([*kept[:-1], (b"x", self._expires), kept[-1]], *rest, **more)

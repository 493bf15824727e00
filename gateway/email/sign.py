"""Signs what goes out (DKIM, RFC 6376), so that its readers' servers see that the agent's domain sent it."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

import dkim

from gateway.email import texts
from gateway.email.config import BadEmailSetting

_SIGNED = (
    b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"in-reply-to", b"references",
    b"mime-version", b"content-type", b"content-transfer-encoding", b"auto-submitted",
)  # fmt: skip
_NEVER_ADDED = (b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"content-type")
"""Signed once more than they are there, so that a second one breaks the signature."""
_ED25519 = bytes.fromhex("302e020100300506032b657004220420")
"""What stands before the key in PKCS #8 (RFC 8410)."""


@dataclass(frozen=True)
class Signer:
    """``key`` is an RSA or Ed25519 private key in PEM."""

    key: bytes
    selector: str
    domain: str
    algorithm: str

    @classmethod
    def of(cls, key: str, selector: str, domain: str) -> Signer:
        """Raises BadEmailSetting for a key that cannot sign."""
        pem = key.strip().replace("\r\n", "\n").encode()
        body = re.sub(rb"-----[^-]+-----|\s", b"", pem)
        try:
            der = base64.b64decode(body, validate=True)
        except binascii.Error as error:
            raise BadEmailSetting(texts.BAD_DKIM_KEY) from error
        if der.startswith(_ED25519) and len(der) == len(_ED25519) + 32:
            signer = cls(base64.b64encode(der[-32:]), selector, domain, "ed25519-sha256")
        else:
            signer = cls(pem + b"\n", selector, domain, "rsa-sha256")
        try:
            signer.sign(b"From: a@example.org\r\n\r\n")
        except Exception as error:  # the library raises whatever its parts do at a key that is none
            raise BadEmailSetting(texts.BAD_DKIM_KEY) from error
        return signer

    def sign(self, data: bytes) -> bytes:
        """The mail with a signature on top."""
        signing = dkim.DKIM(data, signature_algorithm=self.algorithm.encode())
        there = [name.lower() for name, _ in signing.headers if name.lower() in _SIGNED]
        signature: bytes = signing.sign(
            self.selector.encode(),
            self.domain.encode("idna"),
            self.key,
            canonicalize=(b"relaxed", b"relaxed"),
            include_headers=[*there, *_NEVER_ADDED],
        )
        return signature + data

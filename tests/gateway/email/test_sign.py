"""What goes out is signed with the agent's key, as its readers' servers check it."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from gateway.email.compose import ComposedMail, File, Thread, compose
from gateway.email.config import BadEmailSetting, EmailConfig
from gateway.email.proof.lookups import Lookups, Resolver
from gateway.email.sign import Signer
from nightporter.testing.dns import DnsServer


def composed(text: str = "Grüße\n") -> ComposedMail:
    return compose(
        key="k", own_address="porter@agent.example", own_name="Nightporter", to=["ann@example.org"], to_name="Ännchen",
        thread=Thread("Über uns", "<a@x>", None, ["<b@x>"]), text=text, html="<p>Grüße</p>", now=datetime.now(UTC),
        plus_address=True, files=[File("ü.txt", "text/plain", b"x" * 3000)],
    )  # fmt: skip


def private_pem(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, form: serialization.PrivateFormat) -> str:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()


def verified(mail: bytes, record: str) -> bool:
    with DnsServer() as dns:
        dns.txt("s1._domainkey.agent.example", record)
        lookups = Lookups(Resolver(("127.0.0.1", dns.port)))
        return bool(dkim.DKIM(mail).verify(dnsfunc=lambda name, timeout=5: lookups.texts(name.decode())[0]))


@pytest.mark.parametrize("form", ["TraditionalOpenSSL", "PKCS8"])
def test_a_mail_is_signed_with_an_rsa_key(form: str) -> None:
    signer = Signer.of(private_pem(RSA, getattr(serialization.PrivateFormat, form)), "s1", "agent.example")
    der = RSA.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    record = f"v=DKIM1; k=rsa; p={base64.b64encode(der).decode()}"
    signed = signer.sign(composed().data)
    assert verified(signed, record)
    assert not verified(signed.replace(b"Nightporter", b"Someone else"), record)
    for added in (b"Subject: x\r\n", b"From: x@y.test\r\n", b"Cc: x@y.test\r\n", b"Reply-To: x@y.test\r\n"):
        assert not verified(added + signed, record)
    assert max(map(len, signed.split(b"\r\n"))) <= 998


def test_a_mail_is_signed_with_an_ed25519_key() -> None:
    signer = Signer.of(private_pem(ED, serialization.PrivateFormat.PKCS8), "s1", "agent.example")
    raw = ED.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signed = signer.sign(composed().data)
    assert verified(signed, f"v=DKIM1; k=ed25519; p={base64.b64encode(raw).decode()}")


@pytest.mark.parametrize("key", ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
def test_a_key_that_is_none_is_told_at_the_start(key: str) -> None:
    with pytest.raises(BadEmailSetting, match="dkim_key"):
        Signer.of(key, "s1", "agent.example")


def test_a_key_without_a_selector_is_told() -> None:
    with pytest.raises(BadEmailSetting, match="dkim_selector"):
        replace(EmailConfig(), dkim_key="x")

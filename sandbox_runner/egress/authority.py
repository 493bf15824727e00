"""The certificate authority that a sandbox trusts where TLS is terminated, and certificates for single hosts.

Its key never leaves the home, is readable by its owner alone, and signs nothing but certificates for hosts that the
settings name. ``cryptography`` is imported only here, and only when a certificate is really made.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import os
import secrets
import ssl
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

KEY, CERTIFICATE = "ca.key", "ca.pem"
_YEARS = 10
_LEAF_DAYS = 7
_KEPT = 64


def ensure(folder: Path) -> Path:
    """Make the authority unless it is there; the path of its certificate. One process at a time, on any host."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key = folder / CERTIFICATE, folder / KEY
    with (folder / "lock").open("w") as lock:
        # A key of one maker beside the certificate of another would sign what no sandbox trusts.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (certificate.exists() and key.exists()):
            made_key, made = _make()
            _write(key, made_key, 0o600)
            _write(certificate, made, 0o644)
    return certificate


def _write(path: Path, data: bytes, mode: int) -> None:
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    partial.replace(path)


def _make() -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Nightporter egress {secrets.token_hex(4)}")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(pem)


def _usage(*, certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not certificates, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=certificates, crl_sign=certificates, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


class Authority:
    """Makes server contexts for hosts, and keeps the last few."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contexts: OrderedDict[str, tuple[dt.datetime, ssl.SSLContext]] = OrderedDict()
        self._own: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None

    def context(self, host: str) -> ssl.SSLContext:
        """A TLS server's context that speaks for ``host``. Blocking for a few milliseconds the first time."""
        now = dt.datetime.now(dt.UTC)
        found = self._contexts.get(host)
        if found is not None and found[0] > now:
            self._contexts.move_to_end(host)
            return found[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load(context, self._issue(host, now))
        self._contexts[host] = (now + dt.timedelta(days=_LEAF_DAYS - 1), context)
        while len(self._contexts) > _KEPT:
            self._contexts.popitem(last=False)
        return context

    def _issue(self, host: str, now: dt.datetime) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        from sandbox_runner.egress.names import address_of

        authority, authority_key = self._loaded()
        key = ec.generate_private_key(ec.SECP256R1())
        address = address_of(host)
        name: x509.GeneralName = x509.DNSName(host) if address is None else x509.IPAddress(address)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=_LEAF_DAYS))
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .sign(authority_key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return private + certificate.public_bytes(pem)

    def _loaded(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        if self._own is None:
            from cryptography import x509
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            key = serialization.load_pem_private_key((self._folder / KEY).read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError(f"{self._folder / KEY} is not the key that was made here")
            self._own = x509.load_pem_x509_certificate((self._folder / CERTIFICATE).read_bytes()), key
        return self._own


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Python's ssl reads certificates from files only; this one is in memory."""
    descriptor = os.memfd_create("nightporter", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)

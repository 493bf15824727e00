"""Servers of the outside world, on loopback: they keep every request as it came, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = Callable[["Seen"], "bytes | Awaitable[bytes]"]


def plain(body: bytes = b"hello from outside\n", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole response."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


HELLO = plain()


@dataclass
class Seen:
    """A request as it arrived. ``body``: of its Content-Length or its chunks, still framed."""

    head: bytes
    body: bytes
    server_name: str | None = None

    @property
    def first(self) -> str:
        return self.head.split(b"\r\n")[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


@dataclass
class Server:
    host: str
    port: int
    answer: Answer
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = await reader.readuntil(b"\r\n\r\n")
            seen = Seen(head, b"")
            self.seen.append(seen)
            if "content-length" in seen.headers:
                seen.body = await reader.readexactly(int(seen.headers["content-length"]))
            elif seen.headers.get("transfer-encoding") == "chunked":
                seen.body = await reader.readuntil(b"0\r\n\r\n")
            answer = self.answer(seen)
            writer.write(answer if isinstance(answer, bytes) else await answer)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def server(
    answer: Answer | bytes = HELLO, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    """A server that gives ``answer`` to every request."""
    made = Server(host, 0, (lambda _: answer) if isinstance(answer, bytes) else answer)
    listening = await asyncio.start_server(made.serve, host, 0, ssl=tls)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listening.close()


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


class Certificates:
    """An authority made for one test, and certificates of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        self.path = folder / "test-ca.pem"
        made = self._build(self._name, self._key.public_key(), [], authority=True)
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def _build(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, names: list[x509.GeneralName], *, authority: bool = False
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            # From Python 3.13 on no certificate without these is trusted (RFC 5280, 4.2.1).
            .add_extension(_usage(authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def context(self, *hosts: str) -> ssl.SSLContext:
        """A server's context that speaks for ``hosts``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        made = self._build(name, key.public_key(), [_general(host) for host in hosts])
        pem = serialization.Encoding.PEM
        path = self._folder / f"{hosts[0]}.pem"
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(private + made.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.path))


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)

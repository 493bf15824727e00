"""``imaps://``: the certificate of the mailbox's server is checked before the password is sent."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nightporter.testing.imap import ImapServer

from .conftest import Start, Taken, mail


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    found = (tmp_path / "cert.pem", tmp_path / "key.pem")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-out", str(found[0]), "-keyout", str(found[1])]
    subprocess.run(command, check=True, capture_output=True)
    return found


@pytest.fixture
async def tls_port(server: ImapServer, certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """TLS in front of the server, as providers have it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield proxy.sockets[0].getsockname()[1]
    proxy.close()


@pytest.mark.slow
async def test_mail_comes_over_tls(
    server: ImapServer, start: Start, taken: Taken, tls_port: int, certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    await start(f"imaps://porter:mailbox-secret@localhost:{tls_port}/{server.mailbox}")
    await asyncio.to_thread(server.deliver, mail("one"))
    await taken.until(lambda: len(taken.mails) == 1)
    await asyncio.sleep(0.5)
    await asyncio.to_thread(server.deliver, mail("two"))
    await taken.until(lambda: taken.subjects() == ["one", "two"])


async def test_a_certificate_that_nobody_vouches_for_gets_no_password(
    server: ImapServer, start: Start, taken: Taken, tls_port: int
) -> None:
    puller = await start(f"imaps://porter:mailbox-secret@localhost:{tls_port}/{server.mailbox}")
    await taken.until(lambda: "certificate" in puller.wrong.lower())

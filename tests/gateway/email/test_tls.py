"""STARTTLS on the way in and out, with a certificate made for the test."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import aiosmtplib
import pytest
from aiosmtpd.smtp import SMTP

from gateway.channel import Retry, Sent
from gateway.email.compose import Thread, compose
from gateway.email.config import BadEmailSetting, EmailConfig, parse_listen
from gateway.email.send import SmtpRelay

from .conftest import OWN, TOKEN, Inbox, Relay, StartServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    names = (folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        [
            openssl,
            *["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"],
            "-out",
            str(names[0]),
            "-keyout",
            str(names[1]),
        ],
        check=True,
        capture_output=True,
    )
    return names


async def test_with_a_certificate_logins_are_offered_after_starttls_only(
    start_server: StartServer, inbox: Inbox, certificate: tuple[Path, Path]
) -> None:
    config = EmailConfig(host="0.0.0.0", port=0, address=OWN, tls_certificate=certificate[0], tls_key=certificate[1])
    server = await start_server(config)
    client = aiosmtplib.SMTP(hostname="127.0.0.1", port=server.port, start_tls=False, validate_certs=False)
    await client.connect()
    await client.ehlo()
    assert not client.supports_extension("auth")
    await client.starttls()
    await client.ehlo()
    await client.login("owner", TOKEN)
    await client.sendmail("ann@example.com", [OWN], "Subject: x\r\n\r\nhi\r\n")
    await client.quit()
    assert (inbox.mails[0].authenticated, inbox.mails[0].encrypted) == (True, True)


async def test_commands_injected_before_starttls_are_dropped(
    start_server: StartServer, inbox: Inbox, certificate: tuple[Path, Path]
) -> None:
    server = await start_server(
        EmailConfig(port=0, address=OWN, tls_certificate=certificate[0], tls_key=certificate[1])
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b"EHLO x\r\n")
    while not (await reader.readline()).startswith(b"250 "):
        pass
    writer.write(b"STARTTLS\r\nMAIL FROM:<injected@example.com>\r\nRCPT TO:<porter@example.org>\r\n")
    assert (await reader.readline()).startswith(b"220")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        await asyncio.wait_for(writer.start_tls(context), 3)
        writer.write(b"EHLO x\r\nDATA\r\n")
        await writer.drain()
        said = await asyncio.wait_for(reader.read(4096), 3)
        await asyncio.sleep(0.2)
        assert b"354" not in said
    except (ssl.SSLError, ConnectionError, TimeoutError):
        pass  # the handshake fails on the injected bytes: as good
    finally:
        writer.close()
    assert not inbox.mails


async def test_failed_handshakes_use_up_no_connections(
    start_server: StartServer, inbox: Inbox, certificate: tuple[Path, Path]
) -> None:
    config = EmailConfig(port=0, address=OWN, tls_certificate=certificate[0], tls_key=certificate[1])
    server = await start_server(config, max_connections=3)
    for _ in range(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"220")
        writer.write(b"EHLO x\r\nSTARTTLS\r\n")
        await reader.readuntil(b"220")
        writer.write(b"this is no handshake\r\n\r\n")
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.05)


async def test_a_relay_that_offers_tls_gets_it(relay: Relay, certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(relay, loop=loop, hostname="relay.example.org", tls_context=context, require_starttls=True),
        "127.0.0.1",
        0,
    )
    port = server.sockets[0].getsockname()[1]
    mail = compose(
        key="k",
        own_address=OWN,
        to=["ann@example.com"],
        thread=Thread("x"),
        text="hi",
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert isinstance(await SmtpRelay(f"smtp://127.0.0.1:{port}", timeout=5).deliver(mail), Sent)
    assert isinstance(await SmtpRelay(f"smtp://u:p@127.0.0.1:{port}", timeout=5).deliver(mail), Retry)  # not verified
    server.close()


def test_settings_say_what_is_wrong() -> None:
    assert parse_listen("[::1]:25") == ("::1", 25)
    with pytest.raises(BadEmailSetting, match=r"127\.0\.0\.1:8025"):
        parse_listen("localhost")
    with pytest.raises(BadEmailSetting, match="smtp or lmtp"):
        EmailConfig(protocol="pop3")  # type: ignore[arg-type]
    with pytest.raises(BadEmailSetting, match="no mail address"):
        EmailConfig(address="porter")
    with pytest.raises(BadEmailSetting, match="both"):
        EmailConfig(tls_certificate=Path("x"))

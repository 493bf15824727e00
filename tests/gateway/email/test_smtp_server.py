"""The mail door, over real sockets: an answer only after the mail is kept, and only for our own address."""

from __future__ import annotations

import asyncio
import smtplib
from typing import Any

import aiosmtplib
import pytest

from gateway.email.config import EmailConfig
from gateway.email.smtp_server import Refused, TryLater

from .conftest import OWN, TOKEN, Inbox, StartServer

MAIL = b"From: ann@example.com\r\nTo: porter@example.org\r\nSubject: Hello\r\n\r\nHello there\r\n"


async def in_thread(call: Any, *args: Any) -> Any:
    return await asyncio.to_thread(call, *args)


def send(
    port: int, mail: bytes = MAIL, *, to: str | list[str] = OWN, login: tuple[str, str] | None = None
) -> dict[str, Any]:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        if login:
            client.login(*login)
        return dict(client.sendmail("ann@example.com", to, mail))


async def test_a_mail_is_handed_over_as_it_came(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    await in_thread(send, server.port)
    [mail] = inbox.mails
    assert mail.raw == MAIL
    assert (mail.envelope_from, mail.recipients, mail.peer) == ("ann@example.com", (OWN,), "127.0.0.1")
    assert not mail.authenticated


async def test_the_answer_waits_until_the_mail_is_kept(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    inbox.gate = asyncio.Event()
    sending = asyncio.create_task(in_thread(send, server.port))
    await asyncio.sleep(0.2)
    assert not sending.done()
    inbox.gate.set()
    await sending
    assert len(inbox.mails) == 1


@pytest.mark.parametrize(
    ("verdict", "code", "words"),
    [(Refused("not known here"), 550, "not known here"), (TryLater("database away"), 451, "database away")],
)
async def test_a_verdict_becomes_an_smtp_answer(
    start_server: StartServer, inbox: Inbox, verdict: Any, code: int, words: str
) -> None:
    server = await start_server()
    inbox.verdict = verdict
    with pytest.raises(smtplib.SMTPDataError) as caught:
        await in_thread(send, server.port)
    assert caught.value.smtp_code == code
    assert words in str(caught.value.smtp_error)


async def test_the_sender_keeps_the_mail_when_accepting_fails(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    inbox.fails = True
    with pytest.raises(smtplib.SMTPDataError) as caught:
        await in_thread(send, server.port)
    assert caught.value.smtp_code == 451
    inbox.fails = False
    await in_thread(send, server.port)
    assert len(inbox.mails) == 1


async def test_a_mail_being_kept_is_kept_even_if_the_client_hangs_up(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    inbox.gate = asyncio.Event()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for line in (b"EHLO x", b"MAIL FROM:<a@example.com>", b"RCPT TO:<porter@example.org>", b"DATA"):
        writer.write(line + b"\r\n")
    writer.write(MAIL + b".\r\n")
    await writer.drain()
    await asyncio.sleep(0.2)
    writer.close()
    await asyncio.sleep(0.1)
    inbox.gate.set()
    await asyncio.sleep(0.1)
    assert len(inbox.mails) == 1
    assert reader is not None


@pytest.mark.parametrize(
    "to", ["porter@example.org", "PORTER@Example.ORG", "porter+abc123@example.org", "postmaster@example.org"]
)
async def test_our_addresses_are_taken(start_server: StartServer, inbox: Inbox, to: str) -> None:
    server = await start_server()
    await in_thread(lambda: send(server.port, to=to))
    assert inbox.mails[0].recipients == (to,)


async def test_the_postmaster_needs_no_domain(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    await in_thread(lambda: send(server.port, to="postmaster"))
    assert len(inbox.mails) == 1


async def test_many_clients_at_once_are_all_served(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    await asyncio.gather(*(in_thread(send, server.port) for _ in range(20)))
    assert len(inbox.mails) == 20


async def test_the_local_token_proves_the_owner(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    await in_thread(lambda: send(server.port, login=("owner", TOKEN)))
    assert inbox.mails[0].authenticated


async def test_login_by_both_mechanisms(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    for mechanism in ("auth_plain", "auth_login"):
        client = aiosmtplib.SMTP(hostname="127.0.0.1", port=server.port, start_tls=False)
        await client.connect()
        await client.ehlo()
        response = await getattr(client, mechanism)("owner", TOKEN)
        assert response.code == 235
        await client.quit()


@pytest.mark.parametrize("login", [("owner", "wrong"), ("root", TOKEN), ("owner", "")])
async def test_a_wrong_login_is_refused(start_server: StartServer, inbox: Inbox, login: tuple[str, str]) -> None:
    server = await start_server()
    with pytest.raises(smtplib.SMTPAuthenticationError) as caught:
        await in_thread(lambda: send(server.port, login=login))
    assert caught.value.smtp_code == 535
    assert not inbox.mails


async def test_no_login_is_offered_beyond_loopback_without_tls(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server(EmailConfig(host="0.0.0.0", port=0, address=OWN))
    client = aiosmtplib.SMTP(hostname="127.0.0.1", port=server.port, start_tls=False)
    await client.connect()
    await client.ehlo()
    assert not client.supports_extension("auth")
    assert (await client.execute_command(b"AUTH", b"PLAIN", b"AG93bmVyAHg=")).code == 538
    await client.quit()


async def test_lmtp_answers_for_each_recipient(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server(EmailConfig(port=0, address=OWN, protocol="lmtp"))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b"LHLO mx.example.com\r\n")
    while not (await reader.readline()).startswith(b"250 "):
        pass
    answers = []
    for line in (
        b"MAIL FROM:<ann@example.com>",
        b"RCPT TO:<porter@example.org>",
        b"RCPT TO:<stranger@example.org>",
        b"RCPT TO:<porter+x@example.org>",
        b"DATA",
    ):
        writer.write(line + b"\r\n")
        answers.append((await reader.readline())[:3])
    assert answers == [b"250", b"250", b"550", b"250", b"354"]
    writer.write(MAIL + b".\r\n")
    assert [(await reader.readline())[:3] for _ in range(2)] == [b"250", b"250"]
    writer.write(b"QUIT\r\n")
    assert (await reader.readline())[:3] == b"221"
    writer.close()
    assert inbox.mails[0].recipients == ("porter@example.org", "porter+x@example.org")


async def test_lmtp_speaks_no_ehlo(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server(EmailConfig(port=0, address=OWN, protocol="lmtp"))
    client = aiosmtplib.SMTP(hostname="127.0.0.1", port=server.port, start_tls=False)
    await client.connect()
    assert (await client.execute_command(b"EHLO", b"x")).code == 500
    await client.quit()


async def test_a_closing_server_answers_what_it_is_keeping(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server()
    inbox.gate = asyncio.Event()
    sending = asyncio.create_task(in_thread(send, server.port))
    await asyncio.sleep(0.2)
    closing = asyncio.create_task(server.close(grace=5))
    await asyncio.sleep(0.1)
    inbox.gate.set()
    await closing
    await sending
    assert len(inbox.mails) == 1


async def test_too_many_connections_are_turned_away(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server(max_connections=2)
    held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
    for reader, _ in held:
        assert (await reader.readline()).startswith(b"220")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert (await reader.readline()).startswith(b"421")
    for _, other in [*held, (reader, writer)]:
        other.close()
    await asyncio.sleep(0.1)
    await in_thread(send, server.port)


async def test_an_idle_client_is_closed(start_server: StartServer, inbox: Inbox) -> None:
    server = await start_server(timeout=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert (await reader.readline()).startswith(b"220")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()

# ruff: noqa: E501
"""What is tried on a mail server: relaying, smuggling a second message, exhausting memory, guessing the token."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import resource
from collections.abc import AsyncIterator

import pytest

from gateway.email.config import EmailConfig
from gateway.email.smtp_server import Accepted, EmailServer, ReceivedMail, Verdict

OWN = "porter@example.org"


class Kept:
    """A server and what it kept."""

    def __init__(self) -> None:
        self.mails: list[ReceivedMail] = []
        self.server = EmailServer(
            EmailConfig(port=0, address=OWN, max_bytes=1_000_000), self.accept, token="right-token"
        )

    async def accept(self, mail: ReceivedMail) -> Verdict:
        self.mails.append(mail)
        return Accepted()


@pytest.fixture
async def kept() -> AsyncIterator[Kept]:
    kept = Kept()
    await kept.server.start()
    yield kept
    await kept.server.close(grace=0.2)


class Client:
    """Speaks SMTP by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, kept: Kept) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", kept.server.port))
        await client.answer()
        await client.say(b"EHLO attacker")
        return client

    async def answer(self) -> bytes:
        while True:
            line = await asyncio.wait_for(self.reader.readline(), 10)
            if line[3:4] != b"-":
                return line

    async def say(self, line: bytes) -> bytes:
        self.writer.write(line + b"\r\n")
        await self.writer.drain()
        return await self.answer()

    async def begin_data(self) -> None:
        await self.say(b"MAIL FROM:<a@example.com>")
        await self.say(b"RCPT TO:<porter@example.org>")
        assert (await self.say(b"DATA")).startswith(b"354")


@pytest.mark.parametrize(
    "recipient",
    [
        b"victim@example.com", b"porter@evil.example.com", b"porter%victim.example.com@evil.org", b"victim@example.com@example.org",
        b"victim%example.com@example.org", b"@example.org:victim@example.com", b'"victim@example.com"@example.org', b"example.com!victim",
        b"porter", b"porterx@example.org", b"postmaster@example.com", b"+x@example.org", b"@example.org",
    ],
)  # fmt: skip
async def test_it_is_no_open_relay(kept: Kept, recipient: bytes) -> None:
    client = await Client.of(kept)
    await client.say(b"MAIL FROM:<a@example.com>")
    assert (await client.say(b"RCPT TO:<" + recipient + b">")).startswith(b"5")
    assert (await client.say(b"DATA")).startswith(b"503")
    assert not kept.mails
    client.writer.close()


async def test_a_login_does_not_make_it_a_relay(kept: Kept) -> None:
    client = await Client.of(kept)
    assert (await client.say(b"AUTH PLAIN " + base64.b64encode(b"\0owner\0right-token"))).startswith(b"235")
    await client.say(b"MAIL FROM:<a@example.com>")
    assert (await client.say(b"RCPT TO:<victim@example.com>")).startswith(b"550")
    client.writer.close()


@pytest.mark.parametrize(
    "end",
    [
        b"\n.\n",
        b"\n.\r\n",
        b"\r\n.\n",
        b"\r.\r",
        b"\r\n.\r",
        b"\n.\r",
        b"\r.\n",
        b"\r\n\x00.\r\n",
        b"\r\n.\x00\r\n",
        b"\r\r\n.\r\r\n",
    ],
)
async def test_a_smuggled_message_stays_part_of_the_first(kept: Kept, end: bytes) -> None:
    client = await Client.of(kept)
    await client.begin_data()
    smuggled = b"MAIL FROM:<b@example.com>\r\nRCPT TO:<porter@example.org>\r\nDATA\r\nSubject: smuggled\r\n\r\nevil"
    client.writer.write(b"Subject: one\r\n\r\nhi" + end + smuggled + b"\r\n.\r\n")
    assert (await client.answer()).startswith(b"250")
    assert (await client.say(b"NOOP")).startswith(b"250")
    assert len(kept.mails) == 1
    assert smuggled in kept.mails[0].raw
    client.writer.close()


async def test_dot_stuffing_is_undone_only_at_line_starts(kept: Kept) -> None:
    client = await Client.of(kept)
    await client.begin_data()
    line = b"x" * 65_534  # the next piece of this line begins with a dot
    client.writer.write(b"..a\r\n" + line + b".." + line + b"\r\n.\r\n")
    assert (await client.answer()).startswith(b"250")
    assert kept.mails[0].raw == b".a\r\n" + line + b".." + line + b"\r\n"
    client.writer.close()


async def test_pipelined_commands_after_a_message_are_a_message_of_their_own(kept: Kept) -> None:
    client = await Client.of(kept)
    for number in range(2):
        await client.begin_data()
        client.writer.write(b"Subject: %d\r\n\r\nhi\r\n.\r\n" % number)
        assert (await client.answer()).startswith(b"250")
    assert [mail.raw for mail in kept.mails] == [b"Subject: 0\r\n\r\nhi\r\n", b"Subject: 1\r\n\r\nhi\r\n"]
    client.writer.close()


async def test_a_declared_size_too_large_is_refused_at_once(kept: Kept) -> None:
    client = await Client.of(kept)
    assert (await client.say(b"MAIL FROM:<a@example.com> SIZE=50000000")).startswith(b"552")
    client.writer.close()


@pytest.mark.parametrize("line", [b"x" * 998 + b"\r\n", b"x" * 1000], ids=["many lines", "one endless line"])
async def test_a_large_mail_is_refused_in_bounded_memory(kept: Kept, line: bytes) -> None:
    client = await Client.of(kept)
    await client.begin_data()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2_500):  # 2.5 MB, over the limit of 1 MB
        client.writer.write(line)
        await client.writer.drain()
    client.writer.write(b"\r\n.\r\n")
    assert (await client.answer()).startswith(b"552")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    assert (await client.say(b"NOOP")).startswith(b"250")
    assert not kept.mails
    client.writer.close()


async def test_a_mail_without_end_is_cut_off(kept: Kept) -> None:
    client = await Client.of(kept)
    await client.begin_data()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(ConnectionError):
        for _ in range(50):  # 50 MB
            client.writer.write(b"x" * 1_000_000)
            await client.writer.drain()
            await asyncio.sleep(0)
    for _ in range(50):
        if not kept.server._connections:
            break
        await asyncio.sleep(0.1)
    assert not kept.server._connections
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    assert not kept.mails


async def test_the_room_for_messages_under_way_is_bounded_and_given_back(kept: Kept) -> None:
    clients = [await Client.of(kept) for _ in range(5)]
    for client in clients:
        await client.begin_data()
        client.writer.write(b"x" * 900_000)
        await client.writer.drain()
    await asyncio.sleep(0.3)
    answers = []
    for client in clients:
        client.writer.write(b"\r\n.\r\n")
        answers.append((await client.answer())[:3])
        client.writer.close()
    assert sorted(answers) == [b"250"] * 4 + [b"452"]
    assert kept.server._bytes_in_flight == 0


def login(password: bytes) -> bytes:
    return b"AUTH PLAIN " + base64.b64encode(b"\0owner\0" + password)


async def test_guessing_the_token_ends_a_connection(kept: Kept) -> None:
    client = await Client.of(kept)
    answers = [(await client.say(login(b"guess%d" % number)))[:3] for number in range(5)]
    assert answers == [b"535"] * 5
    assert (await client.answer()).startswith(b"421")
    assert await client.reader.read() == b""


@pytest.mark.slow
async def test_guessing_is_slow_from_any_number_of_connections(kept: Kept) -> None:
    async def guess(number: int) -> None:
        client = await Client.of(kept)
        await client.say(login(b"guess%d" % number))
        client.writer.close()

    await asyncio.gather(*(guess(number) for number in range(5)))
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(guess(number) for number in range(10)))
    assert asyncio.get_running_loop().time() - began >= 10 * 0.2


@pytest.mark.slow
async def test_who_has_the_token_is_not_locked_out_by_who_guesses(kept: Kept) -> None:
    """This machine's address is shared by all its programs."""

    async def guess_on() -> None:
        while True:
            client = await Client.of(kept)
            with contextlib.suppress(ConnectionError):
                await client.say(login(b"guess"))
            client.writer.close()

    guessers = [asyncio.create_task(guess_on()) for _ in range(5)]
    await asyncio.sleep(2)
    owner = await Client.of(kept)
    async with asyncio.timeout(10):
        assert (await owner.say(login(b"right-token"))).startswith(b"235")
    owner.writer.close()
    for task in guessers:
        task.cancel()
    await asyncio.gather(*guessers, return_exceptions=True)


@pytest.mark.parametrize(
    "command",
    [
        b"x" * 100_000,
        b"\xff\xfe",
        b"AUTH PLAIN ====",
        b"MAIL FROM:<" + b"a" * 10_000 + b"@x>",
        b"RCPT TO:<" + b"\x00" + b">",
    ],
)
async def test_an_odd_command_is_refused_and_the_server_stays(kept: Kept, command: bytes) -> None:
    client = await Client.of(kept)
    assert (await client.say(command))[:1] in b"5"
    assert (await client.say(b"NOOP")).startswith(b"250")
    client.writer.close()


async def test_a_mail_loop_ends(kept: Kept) -> None:
    client = await Client.of(kept)
    await client.begin_data()
    client.writer.write(b"Received: from x\r\n" * 60 + b"\r\nhi\r\n.\r\n")
    assert (await client.answer()).startswith(b"554")
    client.writer.close()

"""``Authentication-Results`` written by the sender: only our own server's word counts, and only what it handed over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nightporter.testing.mail import letter
from tests.mailrooms import OWN, Mailroom, mailroom
from workspace_store.database import Database

OURS = b"Authentication-Results: mx.agent.example"
PASS = b"; dmarc=pass header.from=example.org; dkim=pass header.d=example.org\r\n"


@pytest.fixture
async def behind(sqlite: Database, tmp_path: Path) -> AsyncIterator[Mailroom]:
    """A server behind one of our own, which writes its results as ``mx.agent.example``."""
    async with mailroom(sqlite, tmp_path / "outgoing", authserv_id="mx.agent.example") as found:
        yield found


async def test_our_server_is_believed(behind: Mailroom) -> None:
    await behind.send(OURS + PASS + bytes(letter("kept", to=OWN)))
    [message] = behind.messages()
    assert message["conversation"] == "ann@example.org"


@pytest.mark.parametrize(
    "fields",
    [
        b"Authentication-Results: mx.mallory.test" + PASS,
        b"Authentication-Results: mx.agent.example.mallory.test" + PASS,
        b"Authentication-Results: xmx.agent.example" + PASS,
        b"Authentication-Results: (mx.agent.example) mx.mallory.test" + PASS,
        b'Authentication-Results: "mx.agent.example;" x' + PASS,
        b"X-Authentication-Results: mx.agent.example" + PASS,
        b"ARC-Authentication-Results: i=1; mx.agent.example" + PASS,
        OURS + b"; dmarc=fail header.from=example.org\r\n",
        OURS + b"; none\r\n",
        OURS + b"; dmarc=pass header.from=mallory.test\r\n",
        OURS + b"; dmarc=pass\r\n",
        OURS + b"; spf=pass smtp.mailfrom=ann@example.org; dkim=pass header.d=example.org\r\n",
        OURS + b"; dmarc=none header.from=example.org; x-dmarc=pass (dmarc=pass header.from=example.org)\r\n",
        OURS + b'; dmarc=fail reason="dmarc=pass; dmarc=pass header.from=example.org" header.from=example.org\r\n',
        OURS + b"; dmarc=fail header.from=example.org\r\n" + OURS + PASS,
        OURS + b"; dmarc=fail header.from=example.org\r\nReceived: from x\r\n" + OURS + PASS,
    ],
)
async def test_what_is_not_its_pass_counts_for_nothing(behind: Mailroom, fields: bytes) -> None:
    code, _ = await behind.send(fields + bytes(letter(to=OWN)))
    assert code == 250, "our own server would make a bounce of a refusal"
    assert behind.nothing_is_kept()


async def test_not_from_elsewhere_than_our_server(sqlite: Database, tmp_path: Path) -> None:
    async with mailroom(
        sqlite, tmp_path / "o", authserv_id="mx.agent.example", authserv_peers=("192.0.2.1",)
    ) as elsewhere:
        await elsewhere.send(OURS + PASS + bytes(letter(to=OWN)))
        assert elsewhere.nothing_is_kept()
        await elsewhere.send(elsewhere.ann.sign(letter(to=OWN)))
        assert len(elsewhere.messages()) == 1


async def test_nobody_is_believed_where_no_server_is_named(room: Mailroom) -> None:
    for fields in (OURS + PASS, b"Authentication-Results: " + PASS, b'Authentication-Results: ""' + PASS):
        assert (await room.send(fields + bytes(letter(to=OWN))))[0] == 550
    assert room.nothing_is_kept()


async def test_our_server_in_the_spf_record_of_a_domain_does_not_speak_for_what_it_passes_on(
    behind: Mailroom,
) -> None:
    behind.dns.remove("example.org", "TXT")
    behind.dns.txt("example.org", "v=spf1 ip4:127.0.0.1 -all")
    await behind.send(bytes(letter(to=OWN)), envelope_from="ann@example.org")
    assert behind.nothing_is_kept()


async def test_an_old_mail_that_our_server_passed(behind: Mailroom) -> None:
    await behind.send(OURS + PASS + bytes(letter(to=OWN, Date="Mon, 02 Jan 2023 10:00:00 +0000")))
    assert behind.nothing_is_kept()


async def test_a_mail_to_others_that_our_server_passed_by_its_signature(behind: Mailroom) -> None:
    await behind.send(OURS + PASS + bytes(letter(to="bob@example.net")))
    assert behind.nothing_is_kept()

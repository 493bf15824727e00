"""The ways an honest mail proves itself over SMTP, LMTP and behind a server of one's own."""

from __future__ import annotations

import asyncio
import smtplib
from pathlib import Path

import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import HERE, OWN, mailroom
from workspace_store.database import Database


async def test_spf_of_the_connecting_host(sqlite: Database, tmp_path: Path) -> None:
    async with mailroom(sqlite, tmp_path / "o") as room:
        MailDomain(room.dns, "sends-here.test", spf=HERE)
        mail = bytes(letter(to=OWN, sender="eve@sends-here.test"))
        assert (await room.send(mail, envelope_from="eve@sends-here.test"))[0] == 250
        assert [message["conversation"] for message in room.messages()] == ["eve@sends-here.test"]


async def test_a_stranger_who_proves_themselves_is_still_a_stranger(sqlite: Database, tmp_path: Path) -> None:
    async with mailroom(sqlite, tmp_path / "o", policy="allowlist") as room:
        assert (await room.send(room.ann.sign(letter(to=OWN))))[0] == 250
        assert not room.messages()


async def test_the_owner_needs_no_proof_but_the_token(sqlite: Database, tmp_path: Path) -> None:
    async with mailroom(sqlite, tmp_path / "o") as room:
        room.dns.trouble[""] = "silent"
        assert (await room.send(bytes(letter(to=OWN)), login=True))[0] == 250
        assert len(room.messages()) == 1


@pytest.mark.parametrize("authentication", ["trusted_relay", "none"])
async def test_closed_networks_believe_one_author_and_no_more(
    sqlite: Database, tmp_path: Path, authentication: str
) -> None:
    async with mailroom(sqlite, tmp_path / "o", authentication=authentication) as room:
        assert (await room.send(bytes(letter(to=OWN))))[0] == 250
        assert (await room.send(b"From: eve@x.test\r\n" + bytes(letter(to=OWN))))[0] == 550
        assert len(room.messages()) == 1
        assert not room.dns.asked


async def test_over_lmtp_a_forgery_is_taken_and_dropped(sqlite: Database, tmp_path: Path) -> None:
    """The server in front would return a refusal to the forged sender."""
    async with mailroom(sqlite, tmp_path / "o", protocol="lmtp") as room:

        def hand_over(mail: bytes) -> None:
            with smtplib.LMTP("127.0.0.1", room.server.port) as client:
                assert client.sendmail("x@y.test", [OWN], mail) == {}

        await asyncio.to_thread(hand_over, bytes(letter(to=OWN)))
        assert room.nothing_is_kept()
        await asyncio.to_thread(hand_over, room.ann.sign(letter(to=OWN)))
        assert len(room.messages()) == 1

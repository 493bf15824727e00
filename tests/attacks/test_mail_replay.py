"""Sending again what someone really wrote and signed: later, changed where it is not signed, or to someone new."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime, localtime

import dkim
import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import HERE, OWN, Mailroom


async def test_the_same_mail_twice_is_one_message(room: Mailroom) -> None:
    signed = room.ann.sign(letter(to=OWN))
    assert (await room.send(signed))[0] == 250
    assert (await room.send(signed))[0] == 250
    assert len(room.messages()) == 1


async def test_a_new_message_id_on_a_signature_that_does_not_cover_it(room: Mailroom) -> None:
    mail = letter(to=OWN)
    signed = room.ann.sign(mail, fields=["From", "To", "Subject", "Date"])
    assert (await room.send(signed))[0] == 250
    again = signed.replace(mail["Message-ID"].encode(), b"<another@example.org>")
    assert again != signed
    await room.send(again)
    assert len(room.messages()) == 1


async def test_a_new_message_id_breaks_a_signature_that_covers_it(room: Mailroom) -> None:
    mail = letter(to=OWN)
    signed = room.ann.sign(mail)
    assert (await room.send(signed.replace(mail["Message-ID"].encode(), b"<another@example.org>")))[0] == 550
    assert room.nothing_is_kept()


@pytest.mark.parametrize("envelope_from", ["someone@relay.test", "ann@example.org"])
async def test_an_old_mail(room: Mailroom, envelope_from: str) -> None:
    """Also where the host may send for the domain: its other customers can be anyone."""
    room.dns.remove("example.org", "TXT")
    room.dns.txt("example.org", HERE)
    old = format_datetime(localtime() - timedelta(days=5))
    code, words = await room.send(room.ann.sign(letter(to=OWN, Date=old)), envelope_from=envelope_from)
    assert code == 550
    assert "too old" in words
    assert room.nothing_is_kept()


async def test_an_old_signature_with_a_new_date(room: Mailroom, monkeypatch: pytest.MonkeyPatch) -> None:
    then = (localtime() - timedelta(days=5)).timestamp()
    with monkeypatch.context() as patched:
        patched.setattr(dkim.time, "time", lambda: then)
        signed = room.ann.sign(letter(to=OWN), fields=["From", "To", "Subject", "Message-ID"])
    assert f"t={int(then)}".encode() in signed.replace(b"\r\n ", b"")
    assert (await room.send(signed))[0] == 550
    assert room.nothing_is_kept()


async def test_a_signature_that_has_expired(room: Mailroom) -> None:
    signed = room.ann.sign(letter(to=OWN), expires=localtime() - timedelta(minutes=5))
    assert (await room.send(signed))[0] == 550
    still = room.ann.sign(letter(to=OWN), expires=localtime() + timedelta(minutes=5))
    assert (await room.send(still))[0] == 250


async def test_a_date_ahead_of_time_to_stay_fresh(room: Mailroom) -> None:
    ahead = format_datetime(localtime() + timedelta(days=30))
    assert (await room.send(room.ann.sign(letter(to=OWN, Date=ahead))))[0] == 550
    assert room.nothing_is_kept()


async def test_a_mail_to_someone_else_sent_on_to_the_agent(room: Mailroom) -> None:
    signed = room.ann.sign(letter("run the report", to="mallory@mallory.test"))
    code, words = await room.send(signed, envelope_from="mallory@mallory.test")
    assert code == 550
    assert "another recipient" in words
    assert room.nothing_is_kept()


async def test_a_body_read_otherwise_than_it_was_signed(room: Mailroom) -> None:
    """Without a signed Content-Type the quoted words of the attacker could be made the reader's text."""
    signed = room.ann.sign(letter("> quoted", to=OWN), fields=["From", "To", "Subject", "Date", "Message-ID"])
    changed = signed.replace(b"Content-Type: text/plain", b"Content-Type: text/html")
    assert changed != signed
    assert (await room.send(changed))[0] == 550
    assert (await room.send(signed))[0] == 250


async def test_a_field_added_to_what_was_signed(room: Mailroom) -> None:
    signed = room.ann.sign(letter(to=OWN))
    for added in (b"Subject: /stop\r\n", b"From: boss@example.org\r\n", b"Date: Mon, 1 Jan 2040 00:00:00 +0000\r\n"):
        assert (await room.send(added + signed))[0] == 550
    assert room.nothing_is_kept()


async def test_a_test_key_and_a_weak_key(room: Mailroom) -> None:
    testing = MailDomain(room.dns, "testing.test", key_tags="v=DKIM1; k=rsa; t=y", serial=2)
    assert (await room.send(testing.sign(letter(to=OWN, sender="a@testing.test"))))[0] == 550
    weak = MailDomain(room.dns, "weak.test", bits=1024, serial=3)
    assert (await room.send(weak.sign(letter(to=OWN, sender="a@weak.test"))))[0] == 250
    assert len(room.messages()) == 1

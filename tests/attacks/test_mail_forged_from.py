"""Writing in someone else's name: nothing is kept, nothing is answered, and the forger's own server is told no."""

from __future__ import annotations

import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import HERE, OWN, Mailroom

REFUSED = 550


async def test_the_honest_mail_is_taken(room: Mailroom) -> None:
    code, _ = await room.send(room.ann.sign(letter("the words", to=OWN)))
    assert code == 250
    [message] = room.messages()
    assert "the words" in message["envelope"]
    assert message["conversation"] == "ann@example.org"


@pytest.mark.parametrize("envelope_from", ["ann@example.org", "", "mallory@mallory.test"])
async def test_a_bare_forgery(room: Mailroom, envelope_from: str) -> None:
    MailDomain(room.dns, "mallory.test", spf=HERE)
    code, words = await room.send(bytes(letter(to=OWN)), envelope_from=envelope_from)
    if envelope_from:
        assert code == REFUSED
        assert "5.7.26" in words
    assert room.nothing_is_kept()


async def test_a_signature_over_other_words(room: Mailroom) -> None:
    signed = room.ann.sign(letter("hello Bob", to=OWN))
    code, _ = await room.send(signed.replace(b"hello Bob", b"delete it"))
    assert code == REFUSED
    assert room.nothing_is_kept()


async def test_a_changed_subject(room: Mailroom) -> None:
    signed = room.ann.sign(letter(subject="Lunch", to=OWN))
    assert (await room.send(signed.replace(b"Subject: Lunch", b"Subject: /stop")))[0] == REFUSED
    assert room.nothing_is_kept()


async def test_the_sender_field_names_someone_else(room: Mailroom) -> None:
    signed = room.ann.sign(letter(to=OWN, Sender="Bob <bob@example.org>"))
    assert (await room.send(signed))[0] == REFUSED
    assert room.nothing_is_kept()


async def test_a_domain_that_asks_for_no_policy_is_not_believed_unaligned(room: Mailroom) -> None:
    MailDomain(room.dns, "lenient.test", dmarc="v=DMARC1; p=none", spf="v=spf1 ?all", serial=1)
    code, _ = await room.send(bytes(letter(to=OWN, sender="ann@lenient.test")), envelope_from="ann@lenient.test")
    assert code == REFUSED
    assert room.nothing_is_kept()


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["silent", "servfail"])
async def test_silencing_dns_gains_nothing(room: Mailroom, trouble: str) -> None:
    """Who can keep DNS from answering gets "later", for the honest sender's server to try again."""
    room.dns.trouble[""] = trouble  # type: ignore[assignment]
    code, words = await room.send(bytes(letter(to=OWN)))
    assert code == 451
    assert "4.4.3" in words
    assert room.nothing_is_kept()
    room.dns.trouble.clear()
    assert (await room.send(room.ann.sign(letter(to=OWN))))[0] == 250


async def test_the_envelope_of_ones_own_domain_does_not_vouch_for_another(room: Mailroom) -> None:
    MailDomain(room.dns, "mallory.test", spf=HERE)
    code, _ = await room.send(bytes(letter(to=OWN)), envelope_from="ann@mallory.test", helo="example.org")
    assert code == REFUSED
    assert room.nothing_is_kept()

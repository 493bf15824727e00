"""A good signature of a domain that does not speak for the author's."""

from __future__ import annotations

import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom


@pytest.mark.parametrize(
    "domain",
    ["mallory.test", "example.org.mallory.test", "notexample.org", "xexample.org", "example.com", "org", "example.co"],
)
async def test_another_domain_signs(room: Mailroom, domain: str) -> None:
    signed = MailDomain(room.dns, domain, serial=1).sign(letter(to=OWN))
    assert (await room.send(signed))[0] == 550
    assert room.nothing_is_kept()


async def test_neighbours_under_a_public_suffix_are_strangers(room: Mailroom) -> None:
    MailDomain(room.dns, "ann.github.io")
    neighbour = MailDomain(room.dns, "mallory.github.io", serial=1)
    assert (await room.send(neighbour.sign(letter(to=OWN, sender="ann@ann.github.io"))))[0] == 550
    suffix = MailDomain(room.dns, "co.uk", serial=1)
    assert (await room.send(suffix.sign(letter(to=OWN, sender="ann@shop.co.uk"))))[0] == 550
    assert room.nothing_is_kept()


async def test_a_subdomain_speaks_for_its_organisation_where_that_allows_it(room: Mailroom) -> None:
    below = MailDomain(room.dns, "news.example.org", dmarc=None, serial=1)
    assert (await room.send(below.sign(letter(to=OWN))))[0] == 250
    MailDomain(room.dns, "strict.test", dmarc="v=DMARC1; p=none; adkim=s; aspf=s")
    news = MailDomain(room.dns, "news.strict.test", dmarc=None, serial=1)
    assert (await room.send(news.sign(letter(to=OWN, sender="ann@strict.test"))))[0] == 550
    assert len(room.messages()) == 1


async def test_a_domain_that_never_agreed_is_spoken_for_by_itself_only(room: Mailroom) -> None:
    silent = MailDomain(room.dns, "silent.test", dmarc=None)
    below = MailDomain(room.dns, "x.silent.test", dmarc=None, serial=1)
    assert (await room.send(below.sign(letter(to=OWN, sender="ann@silent.test"))))[0] == 550
    assert (await room.send(silent.sign(letter(to=OWN, sender="ann@silent.test"))))[0] == 250


async def test_an_identity_of_the_author_in_a_foreign_signature(room: Mailroom) -> None:
    mallory = MailDomain(room.dns, "mallory.test", serial=1)
    signed = mallory.sign(letter(to=OWN)).replace(b"i=@mallory.test", b"i=@example.org")
    assert (await room.send(signed))[0] == 550
    assert room.nothing_is_kept()

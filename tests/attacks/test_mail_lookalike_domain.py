"""Domains that look like another's: each is itself and nobody else, whatever it looks like."""

from __future__ import annotations

import pytest

from identity.access import email_key
from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom


@pytest.mark.parametrize(
    ("looks", "ascii_name"),
    [
        ("exаmple.org", "xn--exmple-4nf.org"),  # Cyrillic а
        ("ехample.org", "xn--ample-ywe6i.org"),  # Cyrillic е and х
        ("examplé.org", "xn--exampl-gva.org"),
        ("examp1e.org", "examp1e.org"),
        ("exarnple.org", "exarnple.org"),
    ],
)
async def test_a_lookalike_is_a_stranger(room: Mailroom, looks: str, ascii_name: str) -> None:
    await room.send(room.ann.sign(letter(to=OWN)))
    other = MailDomain(room.dns, ascii_name, serial=1)
    written = bytes(letter(to=OWN, sender="x@y.test")).replace(b"x@y.test", f"ann@{looks}".encode(), 1)
    assert (await room.send(other.sign(written)))[0] == 250
    first, second = room.messages()
    assert first["principal"] != second["principal"]
    assert second["conversation"] == f"ann@{ascii_name}"
    assert email_key(f"ann@{looks}") == f"ann@{ascii_name}"


@pytest.mark.parametrize(
    "domain",
    ["example\u00ad.org", "ｅxample.org", "example。org", "exam\u200bple.org", "example\u2024org", "ⅇxample.org"],
)
async def test_what_would_be_mapped_onto_another_domain_is_none(room: Mailroom, domain: str) -> None:
    written = bytes(letter(to=OWN, sender="x@y.test")).replace(b"x@y.test", f"ann@{domain}".encode(), 1)
    assert (await room.send(room.ann.sign(written)))[0] == 550
    assert room.nothing_is_kept()


async def test_the_same_domain_in_two_spellings_is_one_person(room: Mailroom) -> None:
    munich = MailDomain(room.dns, "xn--mnchen-3ya.test", serial=1)
    for number, spelling in enumerate(("münchen.test", "MÜNCHEN.test", "xn--mnchen-3ya.test")):
        written = bytes(letter(f"{number}", to=OWN, sender="x@y.test")).replace(
            b"x@y.test", f"ann@{spelling}".encode(), 1
        )
        assert (await room.send(munich.sign(written)))[0] == 250
    assert len({message["principal"] for message in room.messages()}) == 1


async def test_the_local_part_keeps_its_letters(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN)))
    await room.send(room.ann.sign(letter("two", to=OWN, sender="Ann@example.org")))
    first, second = room.messages()
    assert first["principal"] != second["principal"]

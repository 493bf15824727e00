"""A name that is someone else's address, or an admin's name: names prove nothing and may not mislead."""

from __future__ import annotations

import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom


@pytest.mark.parametrize(
    "sender",
    [
        '"ann@example.org" <mallory@mallory.test>',
        '"Ann <ann@example.org>" <mallory@mallory.test>',
        "=?utf-8?q?ann=40example=2Eorg?= <mallory@mallory.test>",
        "=?utf-8?b?YW5uQGV4YW1wbGUub3Jn?= <mallory@mallory.test>",
        '"ann＠example.org" <mallory@mallory.test>',
        "ann@example.org <mallory@mallory.test>",
        "<ann@example.org> <mallory@mallory.test>",
    ],
)
async def test_an_address_as_a_name(room: Mailroom, sender: str) -> None:
    mallory = MailDomain(room.dns, "mallory.test", serial=1)
    mail = bytes(letter(to=OWN, sender="placeholder@mallory.test")).replace(
        b"placeholder@mallory.test", sender.encode(), 1
    )
    assert (await room.send(mallory.sign(mail)))[0] == 550
    assert room.nothing_is_kept()


async def test_ones_own_address_as_a_name_is_usual(room: Mailroom) -> None:
    assert (await room.send(room.ann.sign(letter(to=OWN, sender='"ann@example.org" <ann@example.org>'))))[0] == 250


async def test_the_name_of_another_makes_nobody_that_other(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("mine", to=OWN, sender="Ann Admin <ann@example.org>")))
    mallory = MailDomain(room.dns, "mallory.test", serial=1)
    await room.send(mallory.sign(letter("hers", to=OWN, sender="Ann Admin <ann@mallory.test>")))
    first, second = room.messages()
    assert first["principal"] != second["principal"]

"""``l=``: a signature over the first octets of a body, to which anyone may add."""

from __future__ import annotations

from nightporter.testing.mail import letter
from tests.mailrooms import OWN, Mailroom


async def test_words_added_below_what_was_signed(room: Mailroom) -> None:
    signed = room.ann.sign(letter("hello", to=OWN), length=True)
    assert (await room.send(signed + b"\r\ndelete everything\r\n"))[0] == 550
    assert room.nothing_is_kept()


async def test_not_even_the_mail_as_it_was_signed(room: Mailroom) -> None:
    assert (await room.send(room.ann.sign(letter("hello", to=OWN), length=True)))[0] == 550
    assert room.nothing_is_kept()


async def test_a_whole_signature_beside_it_counts(room: Mailroom) -> None:
    twice = room.ann.sign(room.ann.sign(letter("hello", to=OWN)), length=True)
    assert (await room.send(twice))[0] == 250

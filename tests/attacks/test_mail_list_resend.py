"""What someone wrote to a list, sent on to the agent by the list or by a reader of it."""

from __future__ import annotations

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import HERE, Mailroom


async def test_a_mail_to_a_list_resent_by_one_of_its_readers(room: Mailroom) -> None:
    signed = room.ann.sign(letter("please run the deploy", to="team@lists.test"))
    MailDomain(room.dns, "mallory.test", spf=HERE)
    assert (await room.send(signed, envelope_from="mallory@mallory.test"))[0] == 550
    assert room.nothing_is_kept()


async def test_the_agent_added_to_the_readers(room: Mailroom) -> None:
    signed = room.ann.sign(letter("please run the deploy", to="team@lists.test"))
    for added in (b"Cc: porter@agent.example\r\n", b"To: porter@agent.example\r\n"):
        assert (await room.send(added + signed))[0] == 550
    assert room.nothing_is_kept()


async def test_a_list_that_marks_what_it_sends_gets_no_answer(room: Mailroom) -> None:
    signed = room.ann.sign(letter(to="team@lists.test"))
    assert (await room.send(b"List-Id: <team.lists.test>\r\n" + signed, envelope_from="team@lists.test"))[0] == 250
    assert room.nothing_is_kept()

"""Being among the readers of a mail to the agent: no access, no answer, no place in the author's thread."""

from __future__ import annotations

import json

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom


async def test_a_reader_gets_no_identity_and_no_answer(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter(to=f"{OWN}, bob@readers.test", Cc="eve@readers.test")))
    [message] = room.messages()
    reply = json.loads(message["envelope"])["reply"]
    assert reply["to"] == "ann@example.org"
    assert "readers.test" not in json.dumps(reply)


async def test_a_reader_who_answers_all_speaks_for_themselves(room: Mailroom) -> None:
    first = letter("the plan", to=OWN, Cc="eve@readers.test")
    await room.send(room.ann.sign(first))
    eve = MailDomain(room.dns, "readers.test", serial=1)
    answer = letter(
        "send it to me", to=OWN, sender="Eve <eve@readers.test>", subject="Re: the plan",
        In_Reply_To=first["Message-ID"], References=first["Message-ID"],
    )  # fmt: skip
    await room.send(eve.sign(answer))
    mine, hers = room.messages()
    assert mine["principal"] != hers["principal"]
    assert json.loads(hers["envelope"])["reply"]["to"] == "eve@readers.test"


async def test_reply_to_does_not_lead_the_answer_elsewhere(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter(to=OWN, Reply_To="eve@readers.test")))
    [message] = room.messages()
    assert json.loads(message["envelope"])["reply"]["to"] == "ann@example.org"
    assert message["conversation"] == "ann@example.org"

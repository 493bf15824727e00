"""``/continue``: a summary goes where the person is known, and what was under way is answered where they are."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from identity import users
from identity.access import Access
from identity.users import Claim
from router import texts
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import approvals, continuations, inbox, outbox
from workspace_store.continuations import Elsewhere
from workspace_store.database import Database
from workspace_store.outbox import Address

SLACK = Claim("slack", "T1", "U1", "Ann", "platform")
MAIL = Claim("email", "", "ann@example.org", "Ann", "dmarc")
TELEGRAM = Claim("telegram", "7", "5", "Ann", "platform")
IN_SLACK = Address("slack", "T1", "D1", "1.1")
IN_TELEGRAM = Address("telegram", "7", "5", "")


@pytest.fixture
def door(database: Database) -> Inbox:
    return Inbox(database, Access("open", []), lambda accepted: None)


async def say(door: Inbox, words: str, who: Claim = SLACK, at: Address = IN_SLACK, **more: object) -> Accepted:
    envelope = Envelope(
        who.channel, who.account, uuid4().hex, who, at.conversation, at.thread, words, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    accepted = await door.accept(envelope)
    assert accepted is not None
    return accepted


async def link(door: Inbox, user: UUID, *claims: Claim) -> None:
    for claim in claims:
        await door.database.write(lambda c, claim=claim: users.add_identity(c, user, claim))


async def told(door: Inbox, accepted: Accepted) -> str:
    (answer,) = await door.database.read(lambda c: outbox.answers(c, accepted.message))
    return answer.text


async def sent(door: Inbox) -> list[tuple[Address, dict[str, object]]]:
    """The summaries that were sent."""
    query = text(
        "SELECT channel, account, conversation, thread, content FROM outbox WHERE key LIKE 'continue:%' ORDER BY number"
    )
    rows = await door.database.read(lambda c: c.execute(query).all())
    return [(Address(*row[:4]), json.loads(row[4])) for row in rows]


async def answered_at(door: Inbox, accepted: Accepted) -> Elsewhere | None:
    def query(connection):  # type: ignore[no-untyped-def]
        return continuations.elsewhere(connection, inbox.get(connection, accepted.message))

    found: Elsewhere | None = await door.database.read(query)
    return found


async def test_a_summary_goes_to_the_proven_address_and_later_answers_follow(door: Inbox) -> None:
    first = await say(door, "look after the boiler")
    await link(door, first.principal, MAIL)
    assert "email" in await told(door, await say(door, "/continue email"))
    ((place, content),) = await sent(door)
    assert place == Address("email", "", "ann@example.org", "")
    assert "look after the boiler" in str(content["text"])
    assert "Under way" in str(content["text"])
    assert content["subject"] == texts.CONTINUED_SUBJECT
    assert await answered_at(door, first) == Elsewhere(place, {})
    # Whatever is said from now on is answered where it is said.
    later = await say(door, "and the roof", MAIL, Address("email", "", "ann@example.org", "<m1>"), reply={"to": "x"})
    assert later.principal == first.principal
    assert await answered_at(door, later) is None
    # What was under way goes where they wrote last: into the thread of that mail.
    there = Address("email", "", "ann@example.org", "<m1>")
    assert await answered_at(door, first) == Elsewhere(there, {"to": "x"})
    await say(door, "I am back", SLACK)
    assert await answered_at(door, first) is None


async def test_the_last_private_conversation_is_used_and_never_a_room(door: Inbox) -> None:
    first = await say(door, "hello")
    await link(door, first.principal, TELEGRAM)
    await say(door, "in the group", TELEGRAM, Address("telegram", "7", "-1001", ""), shared=True)
    await say(door, "/continue telegram")
    assert (await sent(door))[0][0] == IN_TELEGRAM
    await say(door, "hello", TELEGRAM, Address("telegram", "7", "5", "77"))
    await say(door, "/continue telegram")
    assert (await sent(door))[1][0] == Address("telegram", "7", "5", "77")


async def test_what_waits_for_an_answer_is_named_with_the_code_that_counts_there(door: Inbox) -> None:
    first = await say(door, "fetch it")
    await link(door, first.principal, MAIL)

    def ask(connection):  # type: ignore[no-untyped-def]
        place = approvals.place_of(connection, first.principal)
        assert place is not None
        return approvals.request(
            connection, key="k", kind="egress.host", principal=first.principal, at=place, request={}, text="fetch it",
        )  # fmt: skip

    found = await door.database.write(ask)
    await say(door, "/continue email")
    assert f"/approve {found.mail_code}" in str((await sent(door))[0][1]["text"])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("/continue", texts.CONTINUE_WHERE),
        ("/continue fax", texts.CONTINUE_WHERE),
        ("/continue email", texts.not_linked("email")),
        ("/continue telegram", texts.not_linked("telegram")),
        ("/continue slack", texts.ALREADY_HERE),
    ],
)
async def test_where_it_cannot_go_it_says_what_to_do(door: Inbox, words: str, answer: str) -> None:
    await say(door, "hello")
    assert await told(door, await say(door, words)) == answer
    assert await sent(door) == []


async def test_a_room_is_not_taken_along(door: Inbox) -> None:
    room = await say(door, "the room's plan", SLACK, Address("slack", "T1", "C1", ""), shared=True)
    private = await say(door, "hello")
    await link(door, private.principal, MAIL)
    await say(door, "/continue email", SLACK, Address("slack", "T1", "C1", ""), shared=True)
    assert await sent(door) == []
    assert await answered_at(door, room) is None


async def test_another_person_is_not_led_along(door: Inbox) -> None:
    first = await say(door, "hello")
    await link(door, first.principal, MAIL)
    other = Claim("slack", "T1", "U2", "Bob", "platform")
    bob = await say(door, "hello", other, Address("slack", "T1", "D2", ""))
    await say(door, "/continue email")
    assert await answered_at(door, bob) is None
    assert await told(door, await say(door, "/continue email", other, Address("slack", "T1", "D2", ""))) == (
        texts.not_linked("email")
    )


async def test_other_readers_of_a_mail_are_not_told_what_was_asked_elsewhere(door: Inbox) -> None:
    first = await say(door, "between us: where is the spare key?")
    await link(door, first.principal, MAIL)
    await say(door, "/continue email")
    place = Address("email", "", "ann@example.org", "<1@example.org>")
    await say(door, "hello all", MAIL, place, reply={"to": "ann@example.org", "cc": ["bob@example.org"]})
    assert await answered_at(door, first) == Elsewhere(place, {"to": "ann@example.org"})

"""Answers find their thread by what we sent, and what comes back marks what was sent; for its own people only."""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from gateway.channel import Sent
from gateway.delivery import Delivery
from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom, mailroom
from workspace_store import journal, outbox, undelivered
from workspace_store.database import Database
from workspace_store.outbox import Address, Reply


@pytest.fixture
async def room(database: Database, tmp_path: Path) -> AsyncIterator[Mailroom]:
    async with mailroom(database, tmp_path / "outgoing", plus_addresses=True) as found:
        yield found


async def answer(room: Mailroom, text: str = "the answer") -> EmailMessage:
    """Answer the newest message as a turn does; the mail that went out."""
    message = room.messages()[-1]
    envelope = json.loads(message["envelope"])
    to = Address("email", "", message["conversation"], message["thread"])

    def queue(connection: Any) -> UUID:
        return outbox.queue(
            connection, key=f"{uuid4().hex}:0", principal=UUID(str(message["principal"])), turn=uuid4(), inbox=None,
            to=to, content={"text": text, "reply": envelope["reply"]},
        )  # fmt: skip

    room.database.write_now(queue)
    delivery = Delivery("gateway-test", room.database, Path("/nonexistent"), {"email": room.channel})
    for reply in room.database.write_now(lambda c: outbox.claim(c, ["email"], "gateway-test", [])):
        assert isinstance(reply, Reply)
        outcome = await room.channel.send(reply)
        assert isinstance(outcome, Sent)
        room.database.write_now(lambda c, reply=reply, outcome=outcome: delivery._settle(c, reply, outcome))  # type: ignore[misc]
    folder = room.channel.carrier.path / "new"  # type: ignore[attr-defined]
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return email.message_from_bytes(newest.read_bytes(), policy=email.policy.SMTP)  # type: ignore[return-value]


def bounce(sent: EmailMessage, *, action: str = "failed", status: str = "5.1.1", returned: bool = True) -> bytes:
    original = (
        f"--b\r\nContent-Type: message/rfc822\r\n\r\nMessage-ID: {sent['Message-ID']}\r\n\r\nx\r\n" if returned else ""
    )
    return (
        "From: MAILER-DAEMON@mx.test\r\nTo: x\r\nSubject: Undelivered Mail Returned to Sender\r\n"
        "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n"
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
        "--b\r\n\r\nSorry.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.test\r\n\r\n"
        f"Final-Recipient: rfc822; ann@example.org\r\nAction: {action}\r\nStatus: {status}\r\n"
        f"Diagnostic-Code: smtp; 550 no such user\r\n\r\n{original}--b--\r\n"
    ).encode()


def statuses(room: Mailroom) -> list[tuple[str, str]]:
    found = room.database.read_now(undelivered.newest)
    return [(item.state, item.reason) for item in found]


def failures(room: Mailroom) -> int:
    principal = UUID(str(room.messages()[0]["principal"]))
    events = room.database.read_now(lambda c: list(journal.read(c, principal)))
    return sum(event.kind == "reply.failed" for event in events)


async def test_an_answer_asks_for_replies_at_an_address_that_finds_the_thread(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN, subject="The plan")))
    sent = await answer(room)
    token = sent["Message-ID"].removeprefix("<np.").partition("@")[0]
    assert len(token) == 32
    assert sent["Reply-To"] == f"Nightporter <porter+{token}@agent.example>"
    assert sent["Subject"] == "Re: The plan"


@pytest.mark.parametrize("by", ["in_reply_to", "plus address", "references"])
async def test_a_reply_is_in_the_thread_of_the_first_mail(room: Mailroom, by: str) -> None:
    first = letter("one", to=OWN)
    await room.send(room.ann.sign(first))
    sent = await answer(room)
    headers, to = {}, OWN
    if by == "in_reply_to":
        headers = {"In_Reply_To": sent["Message-ID"]}
    elif by == "references":
        headers = {"References": f"<lost@x.test> {sent['Message-ID']}"}
    else:
        to = email.utils.parseaddr(sent["Reply-To"])[1]
    await room.send(room.ann.sign(letter("two", to=to, **headers)), to=to)
    one, two = room.messages()
    assert two["thread"] == one["thread"] == first["Message-ID"]
    again = await answer(room, "the second answer")
    assert again["References"].split()[0] == (first["Message-ID"] if by != "references" else "<lost@x.test>")
    assert sent["Message-ID"] in again["References"].split()


async def test_a_token_in_strange_hands_leads_nowhere(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN)))
    sent = await answer(room)
    to = email.utils.parseaddr(sent["Reply-To"])[1]
    mallory = MailDomain(room.dns, "mallory.test", serial=1)
    stolen = letter("what was it?", to=to, sender="m@mallory.test", In_Reply_To=sent["Message-ID"])
    await room.send(mallory.sign(stolen), to=to)
    one, two = room.messages()
    assert two["principal"] != one["principal"]
    assert two["thread"] != one["thread"]
    answered = await answer(room)
    assert answered["To"] == "m@mallory.test"


async def test_a_mail_that_came_back_is_a_dead_letter_with_its_reason(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN)))
    sent = await answer(room)
    assert await room.send(bounce(sent), envelope_from="") == (250, "")
    [(state, reason)] = statuses(room)
    assert state == "dead letter"
    assert "ann@example.org" in reason
    assert "5.1.1 550 no such user" in reason
    assert failures(room) == 1
    await room.send(bounce(sent), envelope_from="")
    assert failures(room) == 1, "told once"


async def test_a_bounce_without_the_mail_is_known_by_its_address(room: Mailroom) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN)))
    sent = await answer(room)
    to = email.utils.parseaddr(sent["Reply-To"])[1]
    await room.send(bounce(sent, returned=False), envelope_from="", to=to)
    assert [state for state, _ in statuses(room)] == ["dead letter"]


@pytest.mark.parametrize(
    ("action", "message_id"),
    [
        ("delayed", None),
        ("relayed", None),
        ("failed", "<np.00000000000000000000000000000000@agent.example>"),
        ("failed", "<x@y>"),
    ],
)
async def test_what_is_no_failure_of_ours_changes_nothing(room: Mailroom, action: str, message_id: str | None) -> None:
    await room.send(room.ann.sign(letter("one", to=OWN)))
    sent = await answer(room)
    if message_id is not None:
        del sent["Message-ID"]
        sent["Message-ID"] = message_id
    await room.send(bounce(sent, action=action), envelope_from="")
    assert statuses(room) == []
    assert failures(room) == 0

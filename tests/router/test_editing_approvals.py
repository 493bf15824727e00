"""What is approved instead of what was asked: bound by a hash of its own, and nothing else is done."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from identity import merging
from identity.access import Access
from identity.users import Claim
from nightporter.approval_hooks import HOOKS
from router import actions
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import approvals, egress_grants, inbox, journal, outbox, spending
from workspace_store.approvals import Approval
from workspace_store.database import Database

OWNER = Claim("local", "", "owner", "owner", "token")
ANN = Claim("slack", "T1", "U1", "Ann", "platform")


async def say(database: Database, words: str, sender: Claim = OWNER, place: str = "here", key: str = "") -> Accepted:
    said = Envelope(sender.channel, sender.account, key or words, sender, place, "", words)
    accepted = await Inbox(database, Access("open", []), lambda _: None, HOOKS).accept(said)
    assert accepted is not None
    return accepted


async def last(database: Database) -> str:
    query = "SELECT content FROM outbox WHERE content NOT LIKE '%\"edits\"%' ORDER BY number DESC LIMIT 1"
    return str(await database.read(lambda c: c.execute(text(query)).scalar_one()))


async def ask(database: Database, owner: UUID, kind: str, request: Any, **more: Any) -> Approval:
    def write(connection: Connection) -> Approval:
        place = approvals.place_of(connection, owner)
        assert place is not None
        return approvals.request(
            connection, key=f"k{request}", kind=kind, principal=owner, at=place, request=request, text="do it", **more
        )

    return await database.write(write)


def settle(connection: Connection) -> None:
    connection.execute(text("UPDATE inbox SET status = 'done'"))
    connection.execute(text("UPDATE principal SET drained_seq = inbox_seq"))


def merge(connection: Connection, kept: UUID, absorbed: UUID) -> None:
    settle(connection)
    asked = merging.ask(connection, kept, absorbed, actor=None, by_link=False, seconds=0)
    assert merging.attempt(connection, asked)


async def now(database: Database, found: Approval) -> Approval:
    return await database.read(lambda c: approvals.get(c, found.id))


async def test_another_host_is_approved_and_the_one_that_was_asked_for_is_not(database: Database) -> None:
    owner = (await say(database, "hello")).principal
    found = await ask(database, owner, "egress.host", {"host": "evil.example", "port": 0})
    await say(database, f"/approve {found.code} with good.example")
    decided = await now(database, found)
    assert decided.status == "consumed"
    assert decided.request == {"host": "good.example", "port": egress_grants.WEB}
    assert decided.request_hash == approvals.hash_request(decided.request) != found.request_hash
    assert "good.example" in await last(database)
    granted = await database.read(lambda c: [grant.host for grant in egress_grants.standing(c, owner)])
    assert granted == ["good.example"]
    assert not await database.write(lambda c: approvals.consume(c, found.id, found.request))
    events = await database.read(lambda c: journal.read(c, owner))
    (body,) = [event.body for event in events if event.kind == "approval.decided"]
    assert body is not None
    assert (body["asked"], body["request"]) == (found.request_hash, decided.request_hash)


async def test_another_sum(database: Database) -> None:
    owner = (await say(database, "hello")).principal
    found = await ask(database, owner, "budget", {"day": "2026-11-30", "micro_usd": 50_000_000})
    await say(database, f"/approve {found.code} with $2.50")
    assert (await now(database, found)).request == {"day": "2026-11-30", "micro_usd": 2_500_000}
    assert await database.read(lambda c: spending.of_today(c, owner)) is not None


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ("hello Bob", {"to": ["bob"], "text": "hello Bob"}),
        ('{"text": "hi", "to": ["ann"]}', {"to": ["ann"], "text": "hi"}),
    ],
)
async def test_other_arguments_of_a_tool(database: Database, words: str, then: dict[str, Any]) -> None:
    owner = (await say(database, "hello")).principal
    asked = {"tool": "send", "arguments": {"to": ["bob"], "text": "buy now"}}
    found = await ask(database, owner, "tool", asked, resumes=True)
    accepted = await say(database, f"/approve {found.code} with {words}")
    assert [woken.principal for woken in accepted.woken] == [owner]
    decided = await now(database, found)
    assert (decided.status, decided.request) == ("approved", {"tool": "send", "arguments": then})
    # The turn that goes on can use what was approved, once, and nothing else.
    assert not await database.write(lambda c: approvals.consume(c, found.id, asked))
    assert await database.write(lambda c: approvals.consume(c, found.id, decided.request))
    assert not await database.write(lambda c: approvals.consume(c, found.id, decided.request))


@pytest.mark.parametrize(
    ("kind", "request_", "words"),
    [
        ("egress.host", {"host": "a.example", "port": 0}, "not a host/at all"),
        ("budget", {"day": "2026-11-30", "micro_usd": 1}, "plenty"),
        ("budget", {"day": "2026-11-30", "micro_usd": 1}, "-5"),
        ("budget", {"day": "2026-11-30", "micro_usd": 1}, "nan"),
        ("tool", {"tool": "send", "arguments": {"a": "x", "b": "y"}}, "which one"),
        ("tool", {"tool": "send", "arguments": {"a": "x"}}, '{"c": 1}'),
        ("tool", {"tool": "send_message", "arguments": {"to": "email:b@example.org", "text": "x"}}, '{"text": ""}'),
        ("tool", {"tool": "fetch", "arguments": {"url": "http://a.example"}}, '{"url": 5}'),
        ("nothing-edits-this", {"a": 1}, "something"),
    ],
)
async def test_what_cannot_be_meant_decides_nothing_and_says_why(
    database: Database, kind: str, request_: Any, words: str
) -> None:
    owner = (await say(database, "hello")).principal
    found = await ask(database, owner, kind, request_)
    await say(database, f"/approve {found.code} with {words}")
    assert "Nothing was decided" in await last(database)
    assert await now(database, found) == found


async def test_only_who_may_answer_may_change_it(database: Database) -> None:
    owner = (await say(database, "hello")).principal
    found = await ask(database, owner, "egress.host", {"host": "a.example", "port": 0})
    await say(database, f"/approve {found.code} with b.example", ANN, "D1")
    assert await now(database, found) == found
    await say(database, f"/deny {found.code} with b.example")
    assert (await now(database, found)).request == found.request


async def test_what_was_asked_of_a_merged_person_is_answered_by_them_alone_after_unmerging(database: Database) -> None:
    ann = (await say(database, "hello", ANN, "D1")).principal
    owner = (await say(database, "hello")).principal

    await database.write(lambda c: merge(c, owner, ann))
    assert (await say(database, "fetch it", ANN, "D1")).principal == owner
    found = await ask(database, owner, "tool", {"tool": "x", "arguments": {}}, resumes=True)
    await say(database, "and for me", key="mine")
    mine = await ask(database, owner, "tool", {"tool": "y", "arguments": {}}, resumes=True)
    await database.write(settle)
    assert await database.write(lambda c: merging.undo(c, ann, None)) is not None
    # The other one cannot answer it any more, and hears nothing of it.
    await say(database, f"/approve {found.code}")
    assert (await now(database, found)).status == "pending"
    await say(database, f"/approve {mine.code}", ANN, "D1")
    assert (await now(database, mine)).status == "pending"
    accepted = await say(database, f"/approve {found.code}", ANN, "D1", key="again")
    assert [woken.principal for woken in accepted.woken] == [ann]
    rows = await database.read(lambda c: [row for row in inbox.newest(c, ann) if row.kind == "approval"])
    assert [(row.channel, row.conversation, row.actor) for row in rows] == [("slack", "D1", ann)]
    await say(database, f"/approve {mine.code}", key="mine too")
    assert (await now(database, mine)).status == "approved"


async def test_an_answer_that_waits_when_they_are_unmerged_goes_on_with_the_one_it_was_asked_of(
    database: Database,
) -> None:
    ann = (await say(database, "hello", ANN, "D1")).principal
    owner = (await say(database, "hello")).principal

    await database.write(lambda c: merge(c, owner, ann))
    await say(database, "fetch it", ANN, "D1")
    await database.write(settle)
    found = await ask(database, owner, "tool", {"tool": "x", "arguments": {}}, resumes=True)
    await say(database, f"/approve {found.code}", ANN, "D1")
    assert await database.write(lambda c: merging.undo(c, ann, None)) is not None
    rows = await database.read(lambda c: [row for row in inbox.newest(c, ann) if row.kind == "approval"])
    assert [(row.status, row.principal) for row in rows] == [("pending", ann)]
    assert (await now(database, found)).principal == ann


async def test_the_command_line_edits_too(database: Database) -> None:
    owner = (await say(database, "hello")).principal
    found = await ask(database, owner, "egress.host", {"host": "a.example", "port": 0})
    answered = await database.write(
        lambda c: actions.answer(c, found.code, None, "approve", via="cli", hooks=HOOKS, instead="b.example")
    )
    assert answered.decision.outcome == "decided"
    queued = await database.read(lambda c: outbox.is_there(c, f"approval:{found.id.hex}:decided"))
    assert queued

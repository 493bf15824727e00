"""Reactions: recorded once; a thumb on an approval's own message is an answer to it, by who may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text, update

from identity.access import Access
from identity.users import Claim
from router.changes import Change, Changes, Recorded
from router.envelope import Envelope
from router.inbox import Inbox
from workspace_store import approvals, journal, outbox
from workspace_store.approvals import Approval
from workspace_store.database import Database

ANN = Claim("telegram", "7", "5", "Ann", "platform")
BEN = Claim("telegram", "7", "6", "Ben", "platform")


async def hear(database: Database, sender: Claim, key: str) -> UUID:
    said = Envelope("telegram", "7", f"5:{key}", sender, "5", "", "hello")
    accepted = await Inbox(database, Access("open", []), lambda _: None).accept(said)
    assert accepted is not None
    return accepted.principal


async def asked(database: Database, owner: UUID, **more: Any) -> Approval:
    """A question that went out as message 41."""

    def write(connection: Connection) -> Approval:
        place = approvals.place_of(connection, owner)
        assert place is not None
        given: dict[str, Any] = {"key": "k", "kind": "x", "principal": owner, "at": place, "request": 1, "text": "go"}
        found = approvals.request(connection, **given, **more)
        rows = outbox.outbox
        connection.execute(update(rows).where(rows.c.id == found.question).values(status="sent", external_id="41"))
        return found

    return await database.write(write)


async def react(database: Database, emoji: str, *, by: Claim = ANN, target: str = "41", **more: Any) -> Recorded | None:
    found: list[Recorded] = []
    change = Change("reaction", f"{by.external_id}{emoji}{more}", "", by, "7", "5", emoji=emoji, target=target, **more)
    await Changes(database, found.append)(change)
    return found[0] if found else None


async def said(database: Database) -> list[str]:
    rows = await database.read(lambda c: c.execute(text("SELECT content FROM outbox ORDER BY number")).all())
    return [row.content for row in rows]


async def status(database: Database, found: Approval) -> str:
    return (await database.read(lambda c: approvals.get(c, found.id))).status


@pytest.mark.parametrize(
    ("emoji", "then"),
    [("👍", "approved"), ("👍🏽", "approved"), ("+1", "approved"), ("+1::skin-tone-3", "approved"),
     ("thumbsup", "approved"), ("👎", "denied"), ("-1", "denied"), ("thumbsdown", "denied"), ("🎉", "pending")],
)  # fmt: skip
async def test_a_thumb_answers(database: Database, emoji: str, then: str) -> None:
    owner = await hear(database, ANN, "1")
    found = await asked(database, owner)
    await react(database, emoji)
    assert await status(database, found) == then
    events = await database.read(lambda c: journal.read(c, owner))
    assert [event.kind for event in events].count("message.reacted") == 1


async def test_another_ones_thumb_is_refused_and_explained(database: Database) -> None:
    owner = await hear(database, ANN, "1")
    await hear(database, BEN, "2")
    found = await asked(database, owner)
    await react(database, "👍", by=BEN)
    assert await status(database, found) == "pending"
    assert "not yours" in (await said(database))[-1]
    for nobody in (replace(BEN, external_id="9"), replace(ANN, proof="")):
        before = await said(database)
        await react(database, "👍", by=nobody)
        assert (await status(database, found), await said(database)) == ("pending", before)


async def test_a_thumb_counts_once_and_what_comes_after_is_explained(database: Database) -> None:
    owner = await hear(database, ANN, "1")
    found = await asked(database, owner, resumes=True)
    first = await react(database, "👍")
    assert first is not None
    assert [woken.principal for woken in first.woken] == [owner]
    again = await react(database, "👍")
    assert again == Recorded()
    before = len(await said(database))
    await react(database, "👎")
    await react(database, "👍", removed=True)
    assert await status(database, found) == "approved"
    explained = (await said(database))[before:]
    assert "Already approved" in explained[0]
    assert "changes nothing" in explained[1]
    count = "SELECT count(*) FROM inbox WHERE kind = 'approval'"
    assert await database.read(lambda c: c.execute(text(count)).scalar_one()) == 1


async def test_a_reaction_to_anything_else_is_recorded_and_no_more(database: Database) -> None:
    owner = await hear(database, ANN, "1")
    found = await asked(database, owner)
    await react(database, "👍", target="1")
    await react(database, "👎", target="77")
    events = await database.read(lambda c: journal.read(c, owner))
    (reacted,) = [event for event in events if event.kind == "message.reacted"]
    assert reacted.body is not None
    assert reacted.body["emoji"] == "👍"
    assert await status(database, found) == "pending"

"""Memory in chat: looked at, searched, and forgotten: at once by name, and only after asking by description."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from sqlalchemy import text

from identity.access import Access
from identity.users import Claim
from nightporter.approval_hooks import HOOKS
from router import memory_texts as texts
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import approvals, journal, memory
from workspace_store.database import Database

ANN = Claim("local", "", "ann", "ann", "token")
EVE = Claim("local", "", "eve", "eve", "token")


class Talk:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.number = 0

    async def say(self, words: str, who: Claim = ANN, *, room: str = "") -> Accepted:
        self.number += 1
        said = Envelope("local", "", f"m{self.number}", who, room or who.external_id, "", words, shared=bool(room))
        accepted = await Inbox(self.database, Access("open", []), lambda _: None, hooks=HOOKS).accept(said)
        assert accepted is not None
        return accepted

    async def answer(self, words: str, who: Claim = ANN, *, room: str = "") -> str:
        accepted = await self.say(words, who, room=room)
        query = "SELECT content FROM outbox WHERE inbox = :of ORDER BY number"
        of = accepted.message if not self.database.is_sqlite else accepted.message.hex
        rows = await self.database.read(lambda c: c.execute(text(query), {"of": of}).all())
        return "\n".join(str(row[0]) for row in rows)

    async def note(self, owner: UUID, body: str) -> UUID:
        self.number += 1
        return await self.database.write(lambda c: memory.write_note(c, owner, f"n{self.number}", body, None))

    async def notes(self, owner: UUID) -> list[str]:
        return [note.body for note in await self.database.read(lambda c: memory.notes(c, owner))]


@pytest.fixture
def talk(database: Database) -> Talk:
    return Talk(database)


async def test_memory_lists_searches_and_shows_one_with_what_it_replaced(talk: Talk) -> None:
    ann = (await talk.say("hello")).principal
    old = await talk.note(ann, "the heron nests in the oak")
    new = await talk.note(ann, "the heron nests in the elm")
    await talk.database.write(lambda c: memory.supersede(c, [ann], old, new))
    listed = await talk.answer("/memory")
    assert "elm" in listed
    assert "oak" not in listed
    assert "elm" in await talk.answer("/memory heron nests")
    assert texts.NOTHING_FOUND in await talk.answer("/memory walrus")
    shown = await talk.answer(f"/memory {new.hex[:8]}")
    assert "took the place of" in shown
    assert "oak" in shown


async def test_what_is_named_is_forgotten_at_once(talk: Talk) -> None:
    ann = (await talk.say("hello")).principal
    note = await talk.note(ann, "the heron nests by the mill")
    await talk.note(ann, "the otter swims")
    assert "Forgotten: 1 note" in await talk.answer(f"/forget {note.hex[:8]}")
    assert await talk.notes(ann) == ["the otter swims"]
    (told,) = [e for e in await talk.database.read(lambda c: journal.read(c, ann)) if e.kind == "memory.forgotten"]
    assert told.body is not None
    assert told.body["notes"] == 1
    assert "heron" not in str(told.body)


async def test_what_is_described_is_asked_about_and_goes_when_that_is_approved(talk: Talk) -> None:
    ann = (await talk.say("hello")).principal
    await talk.note(ann, "the heron nests by the mill")
    await talk.note(ann, "the otter swims")
    asked = await talk.answer("/forget heron mill")
    assert "heron" in asked
    assert len(await talk.notes(ann)) == 2
    code = re.search(r"/approve ([A-Z0-9]{8})", asked)
    assert code is not None
    assert "Forgotten: 1 note" in await talk.answer(f"/approve {code[1]}")
    assert await talk.notes(ann) == ["the otter swims"]
    left = await talk.database.read(lambda c: [str(row) for row in c.execute(text("SELECT content FROM outbox"))])
    queued = [row for row in left if "nests by the mill" in row]
    assert queued == [], "the question and its list say it no more"
    assert "already" in (await talk.answer(f"/approve {code[1]}")).lower()
    assert (await talk.database.read(lambda c: journal.verify(c, ann)))[1] == []


async def test_a_denied_forgetting_forgets_nothing(talk: Talk) -> None:
    ann = (await talk.say("hello")).principal
    await talk.note(ann, "the heron nests by the mill")
    await talk.say("/forget heron")
    (found,) = await talk.database.read(lambda c: approvals.waiting(c, ann))
    assert "Nothing was forgotten" in await talk.answer(f"/deny {found.code}")
    assert await talk.notes(ann) == ["the heron nests by the mill"]


async def test_nobody_forgets_what_is_another_ones(talk: Talk) -> None:
    ann, eve = (await talk.say("hello")).principal, (await talk.say("hello", EVE)).principal
    note = await talk.note(ann, "the heron nests by the mill")
    for words in (f"/forget {note.hex[:8]}", f"/forget {note}", "/forget heron", f"/memory {note}", "/memory heron"):
        assert "nests" not in await talk.answer(words, EVE)
    assert await talk.notes(ann) == ["the heron nests by the mill"]
    assert await talk.notes(eve) == []


async def test_a_rooms_memory_is_its_own(talk: Talk) -> None:
    ann = (await talk.say("hello")).principal
    room = (await talk.say("hello", room="mill")).principal
    await talk.note(ann, "my heron is private")
    ours = await talk.note(room, "our otter is shared")
    assert "heron" not in await talk.answer("/memory", room="mill")
    assert texts.NOTHING_FOUND in await talk.answer("/memory heron", room="mill")
    assert "otter" in await talk.answer("/memory otter", EVE, room="mill")
    assert texts.NOTHING_FOUND in await talk.answer("/memory otter")
    assert "Forgotten: 1 note" in await talk.answer(f"/forget {ours.hex[:8]}", room="mill")
    assert await talk.notes(ann) == ["my heron is private"]

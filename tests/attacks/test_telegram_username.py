"""A Telegram user name that somebody else has taken over: the id is who they are, the name is only shown."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from gateway.telegram.envelopes import envelope_of
from gateway.telegram.parse import parse
from gateway.telegram.parsed import Bot
from identity.access import Access
from router.envelope import Envelope
from tests.town import Town
from workspace_store.database import Database

BOT = Bot("porter_bot", 7)
ANN, EVE = 5, 666


def message(user: int, words: str, number: int, username: str = "ann", name: str = "Ann") -> Envelope:
    sender = {"id": user, "is_bot": False, "first_name": name, "username": username}
    update = {
        "update_id": number,
        "message": {
            "message_id": number, "date": 1, "from": sender, "chat": {**sender, "type": "private"}, "text": words,
            "entities": [{"type": "bot_command", "offset": 0, "length": len(words.split()[0])}],
        },
    }  # fmt: skip
    return envelope_of(parse(update, BOT), BOT)


@pytest.fixture
def town(database: Database) -> Town:
    found = Town(database, "open")
    found.inbox.access = Access("open", ["telegram:5"])
    return found


async def test_the_new_owner_of_a_name_is_a_person_of_their_own(town: Town) -> None:
    await town.inbox.accept(message(ANN, "/help", 1))
    ann = town.user(message(ANN, "/help", 1).sender)
    assert ann is not None
    town.give(message(ANN, "/help", 1).sender, "the codeword is heron")
    town.deliver()
    town.heard.clear()
    # Ann gives her name up, and Eve takes it: user name, display name and all.
    await town.inbox.accept(message(ANN, "/help", 2, username="ann_was_here"))
    await town.inbox.accept(message(EVE, "/memory", 3))
    town.deliver()
    assert "heron" not in "\n".join(town.heard[str(EVE)])
    eve = town.user(message(EVE, "/help", 4).sender)
    assert eve is not None
    assert (eve.id != ann.id, eve.role, ann.role) == (True, "member", "admin")


async def test_the_old_owner_stays_who_they_are_by_any_name(town: Town) -> None:
    await town.inbox.accept(message(ANN, "/help", 1))
    await town.inbox.accept(message(ANN, "/help", 2, username="", name="Somebody Else"))
    people = town.database.read_now(lambda c: c.execute(text("SELECT id FROM user_account")).all())
    assert len(people) == 1


async def test_a_name_is_no_entry_of_the_admins(town: Town) -> None:
    town.inbox.access = Access("allowlist", ["telegram:5"])
    assert await town.inbox.accept(message(EVE, "/help", 1, username="5", name="telegram:5")) is None

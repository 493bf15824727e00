"""Forgetting a person in the database: their rows, their words in rooms, and nothing of anybody else's."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from identity import forgetting
from identity.access import Access
from tests.town import MAIL, SLACK, TELEGRAM, Town
from workspace_store import principal
from workspace_store.database import Database

SECRET = "xyzzyheron"


def everything(town: Town) -> str:
    """All words in the database but the schema's."""
    tables = [found.name for found in forgetting.all_tables()] + ["memory_search"]
    return "\n".join(
        str(town.database.read_now(lambda c, t=t: c.execute(text(f'SELECT * FROM "{t}"')).all())) for t in tables
    )


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database, "open")
    found.inbox.access = Access("open", [], "open")
    for claim in (SLACK, TELEGRAM):
        await found.say(claim, "/help")
    found.give(TELEGRAM, f"the codeword is {SECRET}")
    found.give(SLACK, "ann keeps hers")
    return found


async def test_a_persons_rows_and_words_in_rooms_are_gone_and_every_chain_verifies(town: Town) -> None:
    await town.say(TELEGRAM, f"{SECRET} in private")
    await town.say(TELEGRAM, f"{SECRET} in a room", shared=True)
    await town.say(SLACK, "ann speaks in a room too", shared=True)
    user = town.user(TELEGRAM)
    assert user is not None
    assert SECRET in everything(town)
    erased = town.database.write_now(lambda c: forgetting.erase(c, [user.id]))
    left = everything(town)
    assert SECRET not in left
    assert "ann keeps hers" in left
    assert "ann speaks in a room too" in left
    assert town.user(TELEGRAM) is None
    assert town.verified()
    assert erased.rows["note"] == 1
    assert SECRET not in erased.body("test", {})


async def test_whoever_was_merged_into_them_is_forgotten_with_them_when_named(town: Town) -> None:
    await town.say(MAIL, "/help")
    await town.link(SLACK, MAIL)
    user, other = town.user(SLACK), town.user(TELEGRAM)
    assert user is not None
    owners = town.database.read_now(lambda c: principal.scope(c, user.id))
    town.database.write_now(lambda c: forgetting.erase(c, owners))
    assert (town.user(SLACK), town.user(MAIL)) == (None, None)
    assert town.user(TELEGRAM) == other
    assert town.verified()

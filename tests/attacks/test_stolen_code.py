"""A stolen code: worth nothing without the other side's word, after it has run out, or once it was used."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from router import link_texts
from tests.town import EVE, MAIL, SLACK, TELEGRAM, Town
from workspace_store.database import Database


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database)
    await found.say(SLACK, "/help")
    found.give(SLACK, "the codeword is heron")
    return found


async def test_whoever_says_it_first_gets_nothing_unless_its_maker_confirms(town: Town) -> None:
    code = await town.code(SLACK)
    await town.say(EVE, f"/link {code}")
    await town.say(EVE, f"/confirm {code}")
    assert town.user(EVE) is None
    told = "\n".join(town.heard.pop("U1"))
    assert "`telegram:666`" in told, "its maker sees who it is, by an id that nobody chooses"
    assert "heron" not in await town.say(EVE, "/memory")


async def test_once_bound_it_is_nobody_elses(town: Town) -> None:
    code = await town.code(SLACK)
    await town.say(TELEGRAM, f"/link {code}")
    assert "slack" not in await town.say(EVE, f"/link {code}")
    await town.say(SLACK, f"/confirm {code}")
    await town.say(EVE, f"/confirm {code}")
    assert town.user(EVE) is None
    await town.say(TELEGRAM, f"/confirm {code}")
    assert town.user(TELEGRAM) == town.user(SLACK)


async def test_after_it_was_used_it_is_void(town: Town) -> None:
    code = await town.code(SLACK)
    for claim, words in ((TELEGRAM, "/link"), (SLACK, "/confirm"), (TELEGRAM, "/confirm")):
        await town.say(claim, f"{words} {code}")
    assert town.user(TELEGRAM) == town.user(SLACK)
    for words in ("/link", "/confirm"):
        await town.say(EVE, f"{words} {code}")
        await town.say(MAIL, f"{words} {code}")
    assert town.user(EVE) is None
    assert town.user(MAIL) is None
    town.heard.clear()
    assert await town.say(SLACK, f"/confirm {code}") == link_texts.DONE_ALREADY


@pytest.mark.parametrize("said_before", [False, True])
async def test_after_it_has_run_out_it_is_void_also_half_confirmed(town: Town, said_before: bool) -> None:
    code = await town.code(SLACK)
    if said_before:
        await town.say(EVE, f"/link {code}")
        await town.say(EVE, f"/confirm {code}")
    town.database.write_now(lambda c: c.execute(text("UPDATE link_code SET expires_at = 1")))
    for claim, words in ((EVE, "/link"), (EVE, "/confirm"), (SLACK, "/confirm")):
        await town.say(claim, f"{words} {code}")
    assert town.user(EVE) is None


async def test_a_code_said_in_a_room_is_void(town: Town) -> None:
    code = await town.code(SLACK)
    town.inbox.access = type(town.inbox.access)("open", ["slack:T1/U1"])
    await town.say(TELEGRAM, "/help")
    await town.say(TELEGRAM, f"/link {code}", shared=True)
    assert "slack" not in await town.say(EVE, f"/link {code}")


async def test_a_code_is_never_shown_in_a_room(town: Town) -> None:
    room = await town.say(SLACK, "/link", shared=True)
    private = "\n".join(town.heard.pop("U1"))
    assert "Your code is" in private
    assert "code" not in room

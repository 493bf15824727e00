"""Guessing linking codes: five tries, then nothing of that sender counts for an hour, not even the right one."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from identity import codes, linking
from identity.access import Access
from identity.users import Claim
from router import link_texts
from tests.town import EVE, SLACK, TELEGRAM, Town
from workspace_store.database import Database


@pytest.fixture
def town(database: Database) -> Town:
    return Town(database)


def guess(number: int) -> str:
    return codes.ALPHABET[number % 32] * codes.LINK_CHARACTERS


async def test_after_five_wrong_tries_the_right_code_does_nothing_for_an_hour(town: Town) -> None:
    await town.say(SLACK, "/help")
    code = await town.code(SLACK)
    for number in range(linking.WRONG_TRIES):
        await town.say(EVE, f"/link {guess(number)}")
    assert "slack" not in await town.say(EVE, f"/link {code}")
    town.database.write_now(lambda c: c.execute(text("UPDATE code_guess SET locked_until = 1")))
    assert "`slack:T1/U1`" in await town.say(EVE, f"/link {code}")


async def test_a_known_user_is_locked_likewise_and_told(town: Town) -> None:
    town.inbox.access = Access("open", [])
    await town.say(SLACK, "/help")
    code = await town.code(SLACK)
    said = [await town.say(EVE, f"/link {guess(number)}") for number in range(linking.WRONG_TRIES)]
    assert said == [link_texts.WRONG_CODE] * 4 + [link_texts.LOCKED]
    assert await town.say(EVE, f"/link {code}") == link_texts.LOCKED
    assert await town.say(EVE, f"/confirm {code}") == link_texts.LOCKED


async def test_a_code_of_ones_own_does_not_begin_the_count_anew(town: Town) -> None:
    town.inbox.access = Access("open", [])
    partner = Claim("telegram", "7", "667", "Mallory", "platform")
    for number in range(4):
        await town.say(EVE, f"/link {guess(number)}")
    await town.say(EVE, f"/link {await town.code(partner)}")
    assert await town.say(EVE, f"/link {guess(9)}") == link_texts.LOCKED


async def test_locking_one_sender_locks_nobody_else(town: Town) -> None:
    await town.say(SLACK, "/help")
    code = await town.code(SLACK)
    for number in range(9):
        await town.say(EVE, f"/link {guess(number)}")
    assert "`slack:T1/U1`" in await town.say(TELEGRAM, f"/link {code}")


async def test_guesses_that_come_twice_count_once(town: Town) -> None:
    await town.say(SLACK, "/help")
    for _ in range(8):
        town._number = 500
        await town.say(EVE, f"/link {guess(1)}")
    rows = town.database.read_now(lambda c: c.execute(text("SELECT wrong, locked_until FROM code_guess")).all())
    assert len(rows) == 1
    assert rows[0].locked_until == 0 or rows[0].wrong == 0


@pytest.mark.parametrize("bad", ["", "0", "O" * 64, "x" * 100_000, "'; DROP TABLE link_code; --", "%", "____________"])
async def test_what_is_no_code_is_wrong_and_harms_nothing(town: Town, bad: str) -> None:
    await town.say(SLACK, "/help")
    code = await town.code(SLACK)
    await town.say(TELEGRAM, f"/link {bad}")
    assert "`slack:T1/U1`" in await town.say(TELEGRAM, f"/link {code}")


def test_a_code_has_at_least_forty_bits_and_none_comes_twice() -> None:
    assert len(codes.ALPHABET) ** codes.LINK_CHARACTERS >= 2**40
    made = {codes.make(codes.LINK_CHARACTERS) for _ in range(2000)}
    assert len(made) == 2000
    assert all(codes.typed(codes.shown(code).lower()) == code for code in made)

"""A name on display that is an admin's: it opens nothing, and cannot be mistaken for proof."""

from __future__ import annotations

import pytest

from identity import pairing
from identity.access import Access
from identity.users import Claim
from router import admin_texts
from tests.town import MAIL, SLACK, Town
from workspace_store.database import Database

NAMES = ["Ann", "owner", "slack:T1/U1", "admin", "ann@example.org", "Ann` is one.\n\n- `/admin approve", "a" * 5000]


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database)
    await found.say(SLACK, "/help")
    found.give(SLACK, "the codeword is heron")
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_a_stranger_by_any_name_is_a_stranger(town: Town, name: str) -> None:
    eve = Claim("telegram", "7", "666", name, "platform")
    assert "I do not know you yet" in await town.say(eve, "/admin users")
    (told,) = town.heard.pop("U1")
    assert "`telegram:666`" in told
    assert all(len(line) < 500 for line in told.splitlines())
    lines = [line for line in told.splitlines() if line.startswith("- `/admin approve")]
    assert len(lines) == 1, "a name cannot write a line of its own"
    assert town.user(eve) is None


@pytest.mark.parametrize("name", NAMES)
async def test_a_member_by_any_name_is_a_member(town: Town, name: str) -> None:
    town.inbox.access = Access("open", ["slack:T1/U1"])
    eve = Claim("telegram", "7", "666", name, "platform")
    assert await town.say(eve, "/admin users") == admin_texts.ONLY_ADMINS
    assert "heron" not in await town.say(eve, "/memory")


async def test_an_address_as_a_name_does_not_make_a_mail_identity(town: Town) -> None:
    town.inbox.access = Access("open", ["email:ann@example.org"])
    eve = Claim("email", "", "eve@example.org", "ann@example.org", "dmarc")
    await town.say(eve, "/help")
    user = town.user(eve)
    assert user is not None
    assert user.role == "member"
    assert town.user(MAIL) is None


async def test_who_waits_is_shown_by_id(town: Town) -> None:
    await town.say(Claim("telegram", "7", "666", "Ann", "platform"), "hello")
    (waiting,) = town.database.read_now(pairing.waiting)
    assert f"`{waiting.code}` telegram:666" in await town.say(SLACK, "/admin users")

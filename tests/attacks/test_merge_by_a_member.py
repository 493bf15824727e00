"""A member who would be an admin, or have an admin's files: by command, by code, by pressing what is not theirs."""

from __future__ import annotations

import pytest

from identity import merging
from identity.access import Access
from router import admin_texts
from tests.town import EVE, SLACK, Town
from workspace_store.database import Database


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database, "open")
    for claim in (SLACK, EVE):
        await found.say(claim, "/help")
        found.give(claim, f"note of {claim.external_id}")
    return found


@pytest.mark.parametrize(
    "command",
    [
        "/admin merge {eve} {ann}", "/admin merge {ann} {eve}", "/admin merge {ann} {eve} --yes",
        "!admin merge {eve} {ann}",
        "/admin role {eve} admin", "/admin link {eve} email:ann@example.org", "/admin unlink slack:T1/U1",
        "/admin block {ann}", "/admin show {ann}", "/admin users", "/ADMIN users",
    ],
)  # fmt: skip
async def test_no_admin_command_is_a_members(town: Town, command: str) -> None:
    ann, eve = town.user(SLACK), town.user(EVE)
    assert ann is not None
    assert eve is not None
    assert await town.say(EVE, command.format(ann=ann.id, eve=eve.id)) == admin_texts.ONLY_ADMINS
    assert (town.user(SLACK), town.user(EVE)) == (ann, eve)


async def test_an_admin_who_is_sent_a_code_and_does_not_confirm_stays_alone(town: Town) -> None:
    code = await town.code(EVE)
    shown = await town.say(SLACK, f"/link {code}")
    assert "You are an administrator" in shown
    assert "`telegram:666`" in shown
    await town.say(EVE, f"/confirm {code}")
    await town.say(EVE, f"/confirm {code}")
    ann, eve = town.user(SLACK), town.user(EVE)
    assert ann != eve
    assert eve is not None
    assert eve.role == "member"


async def test_a_member_cannot_object_to_nor_undo_what_is_not_theirs(town: Town) -> None:
    town.inbox.access = Access("open", [])
    ann, eve = town.user(SLACK), town.user(EVE)
    assert ann is not None
    assert eve is not None
    third = type(EVE)("telegram", "7", "700", "Third", "platform")
    await town.say(third, "/help")
    other = town.user(third)
    assert other is not None
    asked = town.database.write_now(lambda c: merging.ask(c, ann.id, other.id, actor=None, by_link=False, seconds=3600))
    for command in ("/object", "/unlink", f"/admin object {asked.id}", f"/admin unmerge {other.id}"):
        await town.say(EVE, command)
    found = town.database.read_now(lambda c: merging.get(c, asked.id))
    assert found is not None
    assert found.state == "waiting"

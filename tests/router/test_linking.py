"""One person at several channels: by a code carried from one to the other, confirmed at both."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from sqlalchemy import text

from identity import linking, merging
from identity.access import Access
from identity.users import Claim
from router import joining, link_texts
from tests.town import MAIL, SLACK, TELEGRAM, Town
from workspace_store import inbox_counts, principal
from workspace_store.database import Database


@pytest.fixture
def town(database: Database) -> Town:
    return Town(database)


async def test_a_stranger_with_a_code_becomes_the_one_who_gave_it(town: Town) -> None:
    await town.say(SLACK, "/help")
    town.give(SLACK, "the codeword is heron")
    code = await town.code(SLACK)
    shown = await town.say(TELEGRAM, f"/link {code}")
    assert "`slack:T1/U1`" in shown
    assert "1 note" in shown
    assert f"/confirm {code}" in shown
    (told,) = town.heard.pop("U1")
    assert "`telegram:5`" in told
    assert town.user(TELEGRAM) is None, "nothing is joined before both have confirmed"
    assert "As soon as" in await town.say(TELEGRAM, f"/confirm {code.lower()}")
    assert "has confirmed" in town.heard.pop("U1")[0]
    assert "one person now" in await town.say(SLACK, f"/confirm {code}")
    assert "one person now" in town.heard.pop("5")[0]
    assert town.user(TELEGRAM) == town.user(SLACK)
    assert "telegram:5" in await town.say(TELEGRAM, "/whoami")
    assert "heron" in await town.say(TELEGRAM, "/memory")
    assert town.verified()


@pytest.mark.parametrize("first", ["maker", "other"])
async def test_two_users_become_one_whichever_side_confirms_first(town: Town, first: str) -> None:
    town.inbox.access = Access("open", [])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
    town.give(SLACK, "the codeword is heron")
    before = town.user(SLACK)
    code = await town.code(MAIL)
    await town.say(SLACK, f"/link {code}")
    sides = (MAIL, SLACK) if first == "maker" else (SLACK, MAIL)
    await town.say(sides[0], f"/confirm {code}")
    assert town.user(MAIL) != town.user(SLACK)
    assert "one person now" in await town.say(sides[1], f"/confirm {code}")
    assert town.user(MAIL) == town.user(SLACK) == before, "the one with something in it is kept"
    assert town.verified()


async def test_the_code_tells_the_ways_to_carry_it(town: Town) -> None:
    said = await town.say(SLACK, "/link")
    assert re.search(r"https://t\.me/porter_bot\?start=[0-9A-Z-]{14}", said)
    assert re.search(r"porter\+[0-9A-Z-]{14}@example\.org", said)


async def test_two_full_workspaces_wait_a_day_and_both_hear_of_it(town: Town) -> None:
    town.inbox.access = Access("open", [])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
        town.give(claim, f"{claim.channel} has something")
    assert "unless one of you objects" in await town.link(SLACK, MAIL)
    assert town.user(MAIL) != town.user(SLACK)
    assert town.database.write_now(joining.complete_due) == 0
    town.database.write_now(lambda c: c.execute(text("UPDATE merge SET due_at = 1")))
    town.heard.clear()
    assert town.database.write_now(joining.complete_due) == 1
    town.deliver()
    assert all("one person now" in town.heard[place][0] for place in ("U1", "ann@example.org"))
    assert town.user(MAIL) == town.user(SLACK)
    assert "slack has something" in await town.say(MAIL, "/memory")
    assert "email has something" in await town.say(MAIL, "/memory")


async def test_either_side_may_object_and_nothing_is_joined(town: Town) -> None:
    town.inbox.access = Access("open", [])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
        town.give(claim, f"{claim.channel} has something")
    await town.link(SLACK, MAIL)
    await town.say(MAIL, "/object")
    assert "stay two" in town.heard["U1"][-1]
    town.database.write_now(lambda c: c.execute(text("UPDATE merge SET due_at = 1")))
    assert town.database.write_now(joining.complete_due) == 0
    assert town.user(MAIL) != town.user(SLACK)


async def test_an_admin_who_confirms_need_not_wait(town: Town) -> None:
    town.inbox.access = Access("open", ["slack:T1/U1"])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
        town.give(claim, f"{claim.channel} has something")
    code = await town.code(MAIL)
    assert "You are an administrator" in await town.say(SLACK, f"/link {code}")
    await town.say(SLACK, f"/confirm {code}")
    assert "/workspace/merged/" in await town.say(MAIL, f"/confirm {code}")
    user = town.user(MAIL)
    assert user is not None
    assert (user, user.role) == (town.user(SLACK), "admin")


async def test_a_running_turn_is_waited_for(town: Town) -> None:
    town.inbox.access = Access("open", [])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
    busy = town.user(SLACK)
    assert busy is not None
    seen = town.database.read_now(lambda c: principal.look(c, busy.id))
    assert seen is not None
    lease = town.database.write_now(lambda c: principal.take(c, busy.id, "runner-here", seen))
    assert lease is not None
    assert "as soon as" in await town.link(SLACK, MAIL)
    assert town.user(MAIL) != town.user(SLACK)
    town.database.write_now(lambda c: principal.fence(c, lease))
    town.database.write_now(lambda c: principal.abandon(c, lease))
    assert town.database.write_now(joining.complete_due) == 1
    assert town.user(MAIL) == town.user(SLACK)


async def test_what_waits_goes_along(town: Town) -> None:
    town.inbox.access = Access("open", [])
    await town.say(SLACK, "/help")
    town.give(SLACK, "a note")
    await town.say(MAIL, "please do this")
    lost, kept = town.user(MAIL), town.user(SLACK)
    assert lost is not None
    assert kept is not None
    await town.link(SLACK, MAIL)
    assert town.user(MAIL) == kept
    waits = {one.id: town.database.read_now(lambda c, o=one.id: inbox_counts.waiting(c, o)) for one in (lost, kept)}
    assert waits == {lost.id: 0, kept.id: 1}


@pytest.mark.parametrize("by", [SLACK, TELEGRAM])
async def test_either_side_may_unlink_within_seven_days(town: Town, by: Claim) -> None:
    await town.say(SLACK, "/help")
    town.give(SLACK, "the codeword is heron")
    await town.link(SLACK, TELEGRAM)
    assert "no longer you" in await town.say(by, "/unlink")
    assert town.user(TELEGRAM) is None
    assert "heron" not in await town.say(TELEGRAM, "/memory")


async def test_unlinked_users_have_their_own_again(town: Town) -> None:
    town.inbox.access = Access("open", [])
    for claim in (SLACK, MAIL):
        await town.say(claim, "/help")
    town.give(SLACK, "the codeword is heron")
    before = {claim.channel: town.user(claim) for claim in (SLACK, MAIL)}
    await town.link(SLACK, MAIL)
    town.give(MAIL, "written together")
    assert "no longer you" in await town.say(MAIL, "/unlink")
    assert {claim.channel: town.user(claim) for claim in (SLACK, MAIL)} == before
    assert await town.say(MAIL, "/memory") == "I keep no notes for you yet."
    assert "written together" in await town.say(SLACK, "/memory"), "later work stays with the one that was kept"
    assert town.verified()


async def test_after_seven_days_only_an_admin_takes_it_apart(town: Town) -> None:
    await town.say(SLACK, "/help")
    await town.link(SLACK, TELEGRAM)
    town.database.write_now(lambda c: c.execute(text("UPDATE link_code SET used_at = 1")))
    town.heard.clear()
    assert await town.say(SLACK, "/unlink") == link_texts.NOTHING_TO_UNLINK


async def test_chains_of_merges_end_at_one_and_come_apart_as_they_were_made(town: Town) -> None:
    town.inbox.access = Access("open", [])
    claims = [Claim("telegram", "7", str(number), f"User {number}", "platform") for number in range(4)]
    for claim in claims:
        await town.say(claim, "/help")
        town.give(claim, f"note of {claim.external_id}")

    def found() -> list[UUID]:
        return [user.id for user in map(town.user, claims) if user is not None]

    ids = found()

    def merge(kept: int, absorbed: int) -> bool:
        return town.database.write_now(
            lambda c: merging.attempt(c, merging.ask(c, ids[kept], ids[absorbed], actor=None, by_link=False, seconds=0))
        )

    assert merge(1, 2)
    assert merge(0, 1)
    assert merge(0, 3)
    assert found() == [ids[0]] * 4
    for bad in ((0, 2), (1, 0), (2, 0), (0, 0)):
        with pytest.raises(merging.MergeRefused):
            merge(*bad)
    assert [one for one, _ in town.database.read_now(lambda c: merging.mounts(c, ids[0]))] == [ids[2], ids[1], ids[3]]
    assert town.database.write_now(lambda c: merging.undo(c, ids[1], None)) is not None
    assert found() == [ids[0], ids[1], ids[1], ids[0]]
    assert town.database.write_now(lambda c: merging.undo(c, ids[2], None)) is not None
    assert found() == [ids[0], ids[1], ids[2], ids[0]]
    assert town.verified()


async def test_only_one_code_is_good_at_a_time(town: Town) -> None:
    await town.say(SLACK, "/help")
    first, second = await town.code(SLACK), await town.code(SLACK)
    assert first != second
    assert "slack:T1/U1" not in await town.say(TELEGRAM, f"/link {first}")
    assert "slack:T1/U1" in await town.say(TELEGRAM, f"/link {second}")


async def test_codes_are_stored_as_digests(town: Town) -> None:
    await town.say(SLACK, "/help")
    code = (await town.code(SLACK)).replace("-", "")
    assert town.database.read_now(lambda c: linking.find(c, code)) is not None
    await town.say(TELEGRAM, f"/link {code.lower()}")
    for table in ("link_code", "journal_payload", "inbox"):
        rows = town.database.read_now(lambda c, t=table: c.execute(text(f"SELECT * FROM {t}")).all())
        assert code not in str(rows).upper().replace("-", "")

"""Whoever was unlinked or unmerged is another person: nothing of the one they were part of is said in their chat."""

from __future__ import annotations

from uuid import UUID

import pytest

from identity import merging, reach
from tests.town import MAIL, SLACK, TELEGRAM, Town
from workspace_store import approvals, inbox, inbox_counts
from workspace_store.database import Database


@pytest.fixture
def town(database: Database) -> Town:
    return Town(database, "open")


def places(town: Town, owner: UUID) -> set[str | None]:
    """Every conversation where something may be said to a user that they did not just ask for."""

    def query(connection):  # type: ignore[no-untyped-def]
        asked, last = approvals.place_of(connection, owner), reach.last(connection, owner)
        newest = inbox.newest_said(connection, owner)
        return {
            asked.address.conversation if asked else None,
            last.conversation if last else None,
            newest.conversation if newest else None,
        }

    return town.database.read_now(query)


async def merged(town: Town) -> tuple[UUID, UUID]:
    """Ann, and Bob who was merged into her; both have said something since."""
    for claim in (SLACK, TELEGRAM):
        await town.say(claim, "hello")
        town.give(claim, f"note of {claim.channel}")
    ann, bob = town.user(SLACK), town.user(TELEGRAM)
    assert ann is not None
    assert bob is not None

    def merge(connection):  # type: ignore[no-untyped-def]
        asked = merging.ask(connection, ann.id, bob.id, actor=None, by_link=False, seconds=0)
        return merging.attempt(connection, asked)

    assert town.database.write_now(merge)
    await town.say(TELEGRAM, "and now from here")
    return ann.id, bob.id


async def test_after_an_unmerging_nothing_is_asked_in_the_others_chat(town: Town) -> None:
    ann, bob = await merged(town)
    assert places(town, ann) == {TELEGRAM.external_id}
    assert town.database.write_now(lambda c: merging.undo(c, bob, None)) is not None
    assert places(town, ann) == {SLACK.external_id}
    assert places(town, bob) == {TELEGRAM.external_id}


async def test_what_they_said_last_is_answered_from_their_own_things(town: Town) -> None:
    ann, bob = await merged(town)
    assert town.database.write_now(lambda c: merging.undo(c, bob, None)) is not None

    def waits(connection):  # type: ignore[no-untyped-def]
        rows = [inbox.newest(connection, owner) for owner in (ann, bob)]
        here, there = ([row for row in found if row.status == "pending"] for found in rows)
        assert "and now from here" in there[0].envelope
        assert all(row.channel == "telegram" for row in there)
        return {(row.channel, row.envelope.count("and now")) for row in here}

    assert ("telegram", 1) not in town.database.read_now(waits)
    counts = {one: town.database.read_now(lambda c, o=one: inbox_counts.waiting(c, o)) for one in (ann, bob)}
    # Both hellos wait with Ann, to whom Bob's was given when they were merged; he gets it back.
    assert counts == {ann: 1, bob: 2}


@pytest.mark.parametrize("by_admin", [False, True])
async def test_after_an_unlinking_nothing_is_asked_in_the_others_chat(database: Database, by_admin: bool) -> None:
    town = Town(database)
    await town.say(SLACK, "hello")
    await town.link(SLACK, MAIL)
    await town.say(MAIL, "from the office")
    ann = town.user(SLACK)
    assert ann is not None
    assert places(town, ann.id) == {MAIL.external_id}
    await town.say(SLACK, f"/admin unlink email:{MAIL.external_id}" if by_admin else "/unlink")
    assert town.user(MAIL) is None
    assert places(town, ann.id) == {SLACK.external_id}


@pytest.mark.parametrize("blocked_is", ["kept", "absorbed"])
async def test_a_merge_does_not_lift_a_block(town: Town, blocked_is: str) -> None:
    await town.say(SLACK, "/help")
    for claim in (MAIL, TELEGRAM):
        await town.say(claim, "/help")
        town.give(claim, f"note of {claim.channel}")
    kept, absorbed = town.user(MAIL), town.user(TELEGRAM)
    assert kept is not None
    assert absorbed is not None
    asked = town.database.write_now(
        lambda c: merging.ask(c, kept.id, absorbed.id, actor=kept.id, by_link=True, seconds=0)
    )
    name = {"kept": kept.id, "absorbed": absorbed.id}[blocked_is]
    assert "is blocked" in await town.say(SLACK, f"/admin block {name}")
    with pytest.raises(merging.MergeRefused, match="is blocked"):
        town.database.write_now(lambda c: merging.attempt(c, asked))
    claim = MAIL if blocked_is == "kept" else TELEGRAM
    assert await town.say(claim, "/help") == ""


async def test_an_unmerging_does_not_lift_a_block(town: Town) -> None:
    await town.say(SLACK, "/help")
    for claim in (MAIL, TELEGRAM):
        await town.say(claim, "/help")
    kept, absorbed = town.user(MAIL), town.user(TELEGRAM)
    assert kept is not None
    assert absorbed is not None
    await town.say(SLACK, f"/admin merge {kept.id} {absorbed.id}")
    await town.say(SLACK, f"/admin block {kept.id}")
    assert "unblock them first" in await town.say(SLACK, f"/admin unmerge {absorbed.id}")
    assert await town.say(TELEGRAM, "/help") == ""

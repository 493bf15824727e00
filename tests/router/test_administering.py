"""What administrators do in chat: shown, recorded, undone; and that a block is a block."""

from __future__ import annotations

import pytest

from identity import pairing, users
from identity.access import Access
from tests.town import EVE, MAIL, SLACK, TELEGRAM, Town
from workspace_store import inbox, outbox
from workspace_store.database import Database
from workspace_store.outbox import Address


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database)
    await found.say(SLACK, "/help")
    return found


async def member(town: Town, claim: object = TELEGRAM) -> str:
    """A member's UUID."""
    town.inbox.access = Access("open", ["slack:T1/U1"])
    await town.say(claim, "/help")  # type: ignore[arg-type]
    user = town.user(claim)  # type: ignore[arg-type]
    assert user is not None
    return str(user.id)


async def test_a_stranger_is_let_in_and_told(town: Town) -> None:
    await town.say(TELEGRAM, "hello")
    (waiting,) = town.database.read_now(pairing.waiting)
    assert "is let in" in await town.say(SLACK, f"/admin approve {waiting.code.lower()}")
    assert "You are let in" in town.heard.pop("5")[-1]
    assert "telegram:5" in await town.say(TELEGRAM, "/whoami")


async def test_users_are_listed_by_the_page(town: Town) -> None:
    town.inbox.access = Access("open", ["slack:T1/U1"])
    for number in range(25):
        await town.say(type(EVE)("telegram", "7", f"{number + 1000}", f"User {number}", "platform"), "/help")
    first = await town.say(SLACK, "/admin users")
    assert first.count("telegram:") == 19
    after = first.rpartition("/admin users ")[2].strip("`.")
    rest = await town.say(SLACK, f"/admin users {after}")
    assert rest.count("telegram:") == 6


async def test_a_merge_is_shown_recorded_and_undone(town: Town) -> None:
    other = await member(town)
    ann = town.user(SLACK)
    assert ann is not None
    town.give(TELEGRAM, "the codeword is heron")
    shown = await town.say(SLACK, f"/admin merge {ann.id} {other[:8]}")
    assert "1 note" in shown
    assert town.user(TELEGRAM) != ann, "a name that was completed is confirmed first"
    assert "Merged" in await town.say(SLACK, f"/admin merge {ann.id} {other} --yes")
    assert town.user(TELEGRAM) == ann
    assert "heron" in await town.say(SLACK, "/memory")
    events = town.database.read_now(lambda c: users.events(c, ann.id))
    assert (events[0].kind, events[0].actor) == ("merge.done", ann.id)
    assert "two again" in await town.say(SLACK, f"/admin unmerge {other}")
    assert str(town.user(TELEGRAM).id) == other  # type: ignore[union-attr]
    assert "heron" not in await town.say(SLACK, "/memory")


async def test_identities_are_given_and_taken(town: Town) -> None:
    other = await member(town)
    assert "ann@example.org" in await town.say(SLACK, f"/admin link {other} email:ann@example.org")
    assert str(town.user(MAIL).id) == other  # type: ignore[union-attr]
    assert "Not done" in await town.say(SLACK, f"/admin link {other} email:ann@example.org")
    assert "takes it back" in await town.say(SLACK, "/admin unlink email:ann@example.org")
    assert town.user(MAIL) is None


async def test_the_last_admin_stays_one(town: Town) -> None:
    ann = town.user(SLACK)
    assert ann is not None
    for command in (f"/admin role {ann.id} member", f"/admin block {ann.id}"):
        assert "Not done" in await town.say(SLACK, command)
    other = await member(town)
    await town.say(SLACK, f"/admin role {other} admin")
    assert town.user(TELEGRAM).role == "admin"  # type: ignore[union-attr]


async def test_a_block_stops_what_runs_and_answers_nothing_more(town: Town) -> None:
    other = await member(town)
    await town.say(TELEGRAM, "please do this")
    user = town.user(TELEGRAM)
    assert user is not None
    to = Address("telegram", "7", "5", "")
    town.database.write_now(
        lambda c: outbox.queue(c, key="late", principal=user.id, turn=None, inbox=None, to=to, content={"text": "late"})
    )
    assert "is blocked" in await town.say(SLACK, f"/admin block {other}")
    town.deliver()
    assert town.heard.get("5", []) == [], "what waited to be sent is not sent"
    found = town.database.read_now(lambda c: inbox.upcoming(c, user.id))
    assert found is not None
    assert found.stopped
    for words in ("/help", "hello", "/link"):
        assert await town.say(TELEGRAM, words) == ""
    assert "is heard again" in await town.say(SLACK, f"/admin unblock {other}")
    assert await town.say(TELEGRAM, "/help") != ""


@pytest.mark.parametrize("verb", ["block {0}", "unblock {0}", "role {0} admin", "link {0} email:x@example.org"])
async def test_what_was_merged_is_named_by_the_one_it_was_merged_into(town: Town, verb: str) -> None:
    other = await member(town)
    ann = town.user(SLACK)
    assert ann is not None
    await town.say(SLACK, f"/admin merge {ann.id} {other}")
    assert f"merged into {ann.id}" in await town.say(SLACK, f"/admin {verb.format(other)}")


@pytest.mark.parametrize("command", ["/admin", "/admin help", "/admin nonsense", "/admin merge one", "/admin show"])
async def test_what_is_not_understood_is_answered_with_what_there_is(town: Town, command: str) -> None:
    assert "/admin merge KEEP ABSORB" in await town.say(SLACK, command)


@pytest.mark.parametrize("name", ["nobody", "email:no@example.org", "ffff", "00", "'; --", "%", "🙂"])
async def test_nobody_is_found_by_a_name_that_is_nobodys(town: Town, name: str) -> None:
    assert "Not done: nobody is called" in await town.say(SLACK, f"/admin show {name}")


async def test_in_a_room_the_answer_goes_to_the_admin_alone(town: Town) -> None:
    said = await town.say(SLACK, "/admin users", shared=True)
    assert "slack:T1/U1" not in said
    assert "slack:T1/U1" in "\n".join(town.heard.pop("U1"))

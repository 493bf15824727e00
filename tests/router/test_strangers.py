"""Strangers: a code and a place to wait under ``pairing``, and never more than that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from identity import pairing, users
from identity.access import Access, Policy
from identity.limits import Limits
from identity.users import Claim
from router import texts
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import inbox_counts, journal, outbox, principal
from workspace_store.database import Database
from workspace_store.outbox import Reply

OWNER = Claim("local", "", "owner", "owner", "token")
Say = Callable[..., "Envelope"]


def said(words: str, sender: Claim, key: str, *, conversation: str = "D1", shared: bool = False) -> Envelope:
    return Envelope(sender.channel, sender.account, key, sender, conversation, "", words, shared=shared)


def stranger(number: int, channel: str = "telegram") -> Claim:
    return Claim(channel, "7", f"{number}", f"Stranger {number}", "platform")


@pytest.fixture
def rung() -> list[Accepted]:
    return []


def door(database: Database, rung: list[Accepted], policy: Policy = "pairing", limits: Limits | None = None) -> Inbox:
    return Inbox(database, Access(policy, ["email:ann@example.org"]), rung.append, limits=limits or Limits())


def count(database: Database, table: str) -> int:
    return int(database.read_now(lambda c: c.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()))


def outgoing(database: Database) -> list[Reply]:
    """What would be sent now, in order."""
    found: list[Reply] = []
    while claimed := database.write_now(lambda c: outbox.claim(c, ["local", "email", "slack", "telegram"], "me", [])):
        for reply in claimed:
            database.write_now(lambda c, reply=reply: outbox.sent(c, reply.id, "me", "1"))
        found += claimed
    return found


async def test_a_stranger_gets_a_code_once_and_nothing_else_is_stored(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung)
    assert await inbox.accept(said("the codeword is heron", stranger(5), "m1")) is not None
    assert [accepted.acted for accepted in rung] == [True]
    (reply,) = outgoing(database)
    (waiting,) = await database.read(pairing.waiting)
    assert waiting.code in reply.content["text"]
    assert (reply.channel, reply.conversation) == ("telegram", "D1")
    for again in ("m1", "m2"):
        assert await inbox.accept(said("hello?", stranger(5), again)) is None
    assert outgoing(database) == []
    assert [count(database, table) for table in ("inbox", "user_account", "identity")] == [0, 0, 0]
    for table, column in (("outbox", "content"), ("journal_payload", "body"), ("pairing", "reply")):
        rows = await database.read(lambda c, t=table, k=column: c.execute(text(f"SELECT {k} FROM {t}")).scalars().all())
        assert not any("heron" in row for row in rows)
    assert await database.read(lambda c: journal.verify(c, principal.HOUSE)) == (2, [])


@pytest.mark.parametrize("policy", ["allowlist", "open"])
async def test_only_pairing_gives_codes(database: Database, rung: list[Accepted], policy: Policy) -> None:
    accepted = await door(database, rung, policy).accept(said("hello", stranger(5), "m1"))
    assert (accepted is None) == (policy == "allowlist")
    assert (count(database, "pairing"), outgoing(database)) == (0, [])


async def test_the_unproven_get_no_code(database: Database, rung: list[Accepted]) -> None:
    """A forged mail must not make us write to its victim."""
    claim = Claim("email", "", "victim@example.org", "Victim", "")
    assert await door(database, rung).accept(said("hello", claim, "m1")) is None
    assert (count(database, "pairing"), outgoing(database), rung) == (0, [], [])


async def test_in_a_room_a_stranger_meets_silence(database: Database, rung: list[Accepted]) -> None:
    assert await door(database, rung).accept(said("hello", stranger(5), "m1", shared=True)) is None
    assert (count(database, "pairing"), outgoing(database)) == (0, [])


async def test_the_blocked_get_no_code(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung, "open")
    await inbox.accept(said("hello", stranger(5), "m1"))
    await database.write(lambda c: c.execute(text("UPDATE user_account SET blocked = true")))
    assert await door(database, rung).accept(said("hello", stranger(5), "m2")) is None
    assert count(database, "pairing") == 0


async def test_whoever_has_moved_is_told_where_once_a_minute(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung, "open")
    await inbox.accept(said("/help", stranger(5), "m1"))
    outgoing(database)
    moved = users.user_account.update().values(blocked=True, moved_to="porter.example.org")
    database.write_now(lambda connection: connection.execute(moved))
    before = count(database, "inbox")
    for number in range(3):
        await inbox.accept(said("are you there?", stranger(5), f"n{number}"))
    assert [reply.content["text"] for reply in outgoing(database)] in (
        [texts.moved("porter.example.org")], 2 * [texts.moved("porter.example.org")],  # a minute may have ended
    )  # fmt: skip
    await inbox.accept(said("here, too", stranger(5), "r1", conversation="C9", shared=True))
    assert outgoing(database) == []
    assert count(database, "inbox") == before
    assert all(one.acted for one in rung), "there is nothing to serve"


async def test_at_most_three_wait_at_a_channel_and_twenty_in_all(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung)
    for number in range(5):
        await inbox.accept(said("hello", stranger(number), f"m{number}"))
    assert count(database, "pairing") == pairing.PER_CHANNEL == len(outgoing(database))
    for number in range(30):
        await inbox.accept(said("hello", stranger(number, f"channel{number}"), f"n{number}"))
    assert count(database, "pairing") == pairing.IN_ALL


async def test_after_an_hour_a_place_is_free_and_what_was_said_forgotten(
    database: Database, rung: list[Accepted]
) -> None:
    inbox = door(database, rung)
    for number in range(3):
        await inbox.accept(said("hello", stranger(number), f"m{number}"))
    outgoing(database)
    await database.write(lambda c: c.execute(text("UPDATE pairing SET expires_at = 1")))
    assert await database.read(pairing.waiting) == []
    await inbox.accept(said("hello", stranger(9), "m9"))
    (waiting,) = await database.read(pairing.waiting)
    assert (waiting.claim.external_id, count(database, "pairing")) == ("9", 1)
    assert count(database, "outbox") == 1


async def test_admins_are_told_where_they_last_wrote_with_buttons(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung)
    ann = Claim("email", "", "ann@example.org", "Ann", "dmarc")
    await inbox.accept(said("/help", ann, "a1", conversation="ann@example.org"))
    outgoing(database)
    await inbox.accept(said("hello", stranger(5), "m1"))
    (waiting,) = await database.read(pairing.waiting)
    replies = {reply.channel: reply for reply in outgoing(database)}
    told = replies["email"]
    assert told.conversation == "ann@example.org"
    assert f"/admin approve {waiting.code}" in told.content["text"]
    assert "telegram:5" in told.content["text"]
    assert [button["value"] for button in told.content["buttons"]] == [
        f"/admin {verb} {waiting.code}" for verb in ("approve", "refuse")
    ]


async def test_whoever_is_let_in_is_a_member_and_whoever_is_refused_waits_in_silence(
    database: Database, rung: list[Accepted]
) -> None:
    inbox = door(database, rung)
    await inbox.accept(said("hello", stranger(5), "m1"))
    await inbox.accept(said("hello", stranger(6), "m2"))
    first, second = await database.read(pairing.waiting)
    user = await database.write(lambda c: pairing.approve(c, first, None))
    await database.write(lambda c: pairing.refuse(c, second, None))
    assert user.role == "member"
    accepted = await inbox.accept(said("again", stranger(5), "m3"))
    assert accepted is not None
    assert accepted.principal == user.id
    assert await inbox.accept(said("again", stranger(6), "m4")) is None
    assert await database.read(pairing.waiting) == []


async def test_over_the_limit_is_one_clear_answer_then_silence(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung, "open", Limits(2, 0, lambda: 0.0))
    found = [await inbox.accept(said("hello", stranger(5), f"m{number}")) for number in range(6)]
    assert [accepted is not None for accepted in found] == [True, True, True, False, False, False]
    (reply,) = outgoing(database)
    assert "2 messages a minute" in reply.content["text"]
    user = await database.read(lambda c: users.by_identity(c, stranger(5)))
    assert user is not None
    assert await database.read(lambda c: inbox_counts.waiting(c, user.id)) == 2
    again = await inbox.accept(said("hello", stranger(5), "m0"))
    assert again is not None
    assert again.duplicate, "a redelivery of what was taken is not over any limit"


async def test_the_owner_has_no_limit(database: Database, rung: list[Accepted]) -> None:
    inbox = door(database, rung, "open", Limits(1, 1, lambda: 0.0))
    found = [await inbox.accept(said("hello", OWNER, f"m{number}")) for number in range(5)]
    assert all(accepted is not None and not accepted.acted for accepted in found)


async def test_two_first_messages_at_once_from_two_channels_are_one_owner(
    database: Database, rung: list[Accepted]
) -> None:
    """By HTTP with the token, and by mail with a login: the same proof, the same moment."""
    import asyncio

    inbox = door(database, rung)
    by_mail = Claim("local", "", "owner", "owner", "smtp_auth")
    many = [
        inbox.accept(Envelope(channel, "", f"{channel}{n}", claim, "c", "", "hello"))
        for n in range(10)
        for channel, claim in (("local", OWNER), ("email", by_mail))
    ]
    found = await asyncio.gather(*many)
    assert len({accepted.principal for accepted in found if accepted}) == 1
    assert (count(database, "user_account"), count(database, "identity"), count(database, "inbox")) == (1, 1, 20)


@pytest.mark.parametrize(("answer", "says"), [("approve", "Let in by"), ("refuse", "Turned away by")])
async def test_every_admins_question_loses_its_buttons_when_one_of_them_has_decided(
    database: Database, rung: list[Accepted], answer: str, says: str
) -> None:
    inbox = door(database, rung)
    await inbox.accept(said("hello", OWNER, "m0"))
    assert await inbox.accept(said("may I?", stranger(5), "m1")) is not None
    asked = [reply for reply in outgoing(database) if reply.content.get("buttons")]
    (waiting,) = await database.read(pairing.waiting)
    await inbox.accept(said(f"/admin {answer} {waiting.code}", OWNER, "m2"))
    (edit,) = [reply for reply in outgoing(database) if reply.content.get("edits")]
    assert [one.id.hex for one in asked] == [edit.content["edits"]]
    assert says in edit.content["text"]
    assert "buttons" not in edit.content

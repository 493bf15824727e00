"""Forgetting a person in the database: their rows, their words in rooms, and nothing of anybody else's."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy import Connection, text, update

from identity import forgetting
from identity.access import Access
from identity.users import Claim
from router.envelope import Attachment, Envelope
from tests.town import MAIL, SLACK, TELEGRAM, Town
from workspace_store import approvals, changes, principal
from workspace_store.approvals import Place
from workspace_store.database import Database
from workspace_store.outbox import Address

SECRET = "xyzzyheron"


def everything(town: Town) -> str:
    """All words in the database but the schema's."""
    tables = [found.name for found in forgetting.all_tables()] + ["memory_search"]
    return "\n".join(
        str(town.database.read_now(lambda c, t=t: c.execute(text(f'SELECT * FROM "{t}"')).all())) for t in tables
    )


def ask(connection: Connection, room: UUID, decided_by: UUID) -> None:
    """A question of a room that somebody else was asked, and that a person has answered."""
    to = Place(Address("telegram", "7", "C1", ""), {}, room)
    found = approvals.request(connection, key="k", kind="k", principal=room, at=to, request={}, text="do it")
    named = {"status": "approved", "decided_by": decided_by, "decided_by_name": SECRET}
    this = approvals.approval.c.id == found.id
    connection.execute(update(approvals.approval).where(this).values(**named))


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
    file = Attachment(f"{SECRET}.txt", "text/plain", 1, f"telegram:{SECRET}")
    said = Envelope("telegram", "7", "C1:9", TELEGRAM, "C1", "", "a file", shared=True, attachments=(file,))
    accepted = await town.inbox.accept(said)
    assert accepted is not None
    room, message = accepted.principal, accepted.message
    told = (SECRET, f"{SECRET} again")
    town.database.write_now(lambda c: changes.record(c, "edit", room, message, "edited", tell=told))
    town.database.write_now(lambda c: ask(c, room, user.id))
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


@pytest.mark.parametrize("like", ["a_n@example.org", "%@example.org"])
async def test_codes_of_others_whose_address_only_looks_alike_stay(town: Town, like: str) -> None:
    await town.say(MAIL, "/help")
    await town.say(MAIL, f"/link {await town.code(SLACK)}")
    other = Claim("email", "", like, "Al", "dmarc")
    await town.say(other, "/help")
    user = town.user(other)
    assert user is not None
    erased = town.database.write_now(lambda c: forgetting.erase(c, [user.id]))
    assert "link_code" not in erased.rows
    codes = town.database.read_now(lambda c: c.execute(text("SELECT other FROM link_code")).scalars().all())
    assert [MAIL.external_id in (code or "") for code in codes] == [True]


async def test_codes_said_by_an_address_of_any_script_are_gone(town: Town) -> None:
    other = Claim("email", "", "jörg@example.org", "J", "dmarc")
    await town.say(other, "/help")
    await town.say(other, f"/link {await town.code(SLACK)}")
    user = town.user(other)
    assert user is not None
    town.database.write_now(lambda c: forgetting.erase(c, [user.id]))
    assert town.database.read_now(lambda c: c.execute(text("SELECT other FROM link_code")).all()) == []


NOBODYS = {
    "code_guess": "by sender, erased with the identity", "hook_delivery": "ids of other programs' deliveries",
    "identity": "by user", "mailbox": "how far a mailbox was read", "pairing": "by claim, erased with the identity",
    "reader": "which process reads", "receipt": "says by UUID what was erased", "room": "a room is nobody's own",
    "user_account": "the person",
}  # fmt: skip


def test_every_table_is_somebodys_or_known_to_be_nobodys() -> None:
    """Whoever adds a table decides whose its rows are: what is nobody's stays when a person is forgotten."""
    owned = {found.name for found in forgetting.all_tables() if {*forgetting.OWNED_BY} & {*found.c.keys()}}
    assert {found.name for found in forgetting.all_tables()} - owned - forgetting.CHAIN - {*NOBODYS} == set()
    people = {*forgetting.OWNED_BY, *forgetting.DONE_BY}
    others = {
        (found.name, key.parent.name)
        for found in forgetting.all_tables()
        for key in found.foreign_keys
        if key.column.table.name in ("user_account", "principal") and key.parent.name not in people
    }
    assert others <= {("principal", "merged_into"), ("user_account", "id"), ("room", "id")}

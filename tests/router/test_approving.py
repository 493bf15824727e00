"""Answers by words: from any of a person's channels, by mail only with the code of the question's own mail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from identity.access import Access
from identity.users import Claim
from router.envelope import Envelope
from router.inbox import Accepted, Inbox
from workspace_store import approvals
from workspace_store.approvals import ALWAYS, APPROVE, DENY, Approval
from workspace_store.database import Database

ANN = Claim("email", "", "ann@example.org", "Ann", "dmarc")
OWNER = Claim("local", "", "owner", "owner", "token")


class Door:
    """A person at a channel, who says things there."""

    def __init__(self, database: Database, sender: Claim) -> None:
        self.database = database
        self.sender = sender
        self.number = 0

    async def say(self, words: str, sender: Claim | None = None) -> Accepted:
        self.number += 1
        by = sender or self.sender
        channel = "email" if by.proof in ("dmarc", "smtp_auth") else by.channel
        said = Envelope(channel, "", f"m{self.number}", by, "here", "", words)
        accepted = await Inbox(self.database, Access("open", []), lambda _: None).accept(said)
        assert accepted is not None
        return accepted

    async def last(self) -> str:
        query = "SELECT content FROM outbox ORDER BY number DESC LIMIT 1"
        return str(await self.database.read(lambda c: c.execute(text(query)).scalar_one()))


async def asked(database: Database, owner: UUID, **more: Any) -> Approval:
    def write(connection: Connection) -> Approval:
        place = approvals.place_of(connection, owner)
        assert place is not None
        return approvals.request(
            connection, key="k", kind="x", principal=owner, at=place, request=1, text="go on",
            choices=(APPROVE, ALWAYS, DENY), **more,
        )  # fmt: skip

    return await database.write(write)


async def state(database: Database, found: Approval) -> tuple[str, str | None]:
    now = await database.read(lambda c: approvals.get(c, found.id))
    return now.status, now.choice


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ("/approve {}", ("approved", "once")),
        ("!approve {} always", ("approved", "always")),
        ("/approve `{}`.\nThanks, Ann", ("approved", "once")),
        ("/deny {}\n\nAnn", ("denied", "deny")),
        ("/approve", ("pending", None)),
        ("/approve {} sometimes", ("pending", None)),
        ("/deny {} always", ("pending", None)),
    ],
)
async def test_a_person_answers_in_words(database: Database, words: str, then: tuple[str, str | None]) -> None:
    door = Door(database, OWNER)
    found = await asked(database, (await door.say("hello")).principal)
    answered = await door.say(words.format(found.code))
    assert answered.acted
    assert await state(database, found) == then


async def test_a_mail_brings_the_code_of_the_questions_own_mail(database: Database) -> None:
    door = Door(database, ANN)
    found = await asked(database, (await door.say("hello")).principal)
    assert f"/approve {found.mail_code}" in await door.last()
    await door.say(f"/approve {found.code}")
    assert (await state(database, found))[0] == "pending"
    assert "question's own mail" in await door.last()
    await door.say("/actions")
    assert found.mail_code in await door.last()
    await door.say(f"/approve {found.mail_code}")
    assert (await state(database, found))[0] == "approved"
    await door.say(f"/approve {found.mail_code}")
    assert "Already approved" in await door.last()


async def test_a_login_is_proof_enough(database: Database) -> None:
    door = Door(database, Claim("local", "", "owner", "owner", "smtp_auth"))
    found = await asked(database, (await door.say("hello")).principal)
    await door.say(f"/approve {found.code}")
    assert (await state(database, found))[0] == "approved"


async def test_what_waits_gets_one_row_that_goes_on_in_its_place(database: Database) -> None:
    door = Door(database, OWNER)
    found = await asked(database, (await door.say("hello")).principal, resumes=True)
    first, again = await door.say(f"/approve {found.code}"), await door.say(f"/approve {found.code}")
    assert [woken.principal for woken in first.woken] == [found.principal]
    assert again.woken == ()
    query = text("SELECT conversation, status FROM inbox WHERE kind = 'approval'")
    rows = await database.read(lambda c: [tuple(row) for row in c.execute(query)])
    assert rows == [("here", "pending")]


async def test_nothing_waits_and_nobody_elses_is_listed(database: Database) -> None:
    door = Door(database, OWNER)
    await door.say("/actions")
    assert "Nothing waits" in await door.last()
    found = await asked(database, (await door.say("hello")).principal)
    other = Door(database, Claim("local", "", "ben", "ben", "token"))
    other.number = 100
    await other.say("/actions")
    assert found.code not in await other.last()
    await other.say(f"/deny {found.code}")
    assert "not yours" in await other.last()
    assert (await state(database, found))[0] == "pending"

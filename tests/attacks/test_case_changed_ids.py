"""Ids in another case, or written another way: another id is another person, and never an admin by likeness."""

from __future__ import annotations

import pytest

from identity.access import Access, email_key
from identity.users import Claim
from tests.town import MAIL, SLACK, Town
from workspace_store.database import Database

OTHERS = [
    Claim("slack", "T1", "u1", "Ann", "platform"), Claim("slack", "t1", "U1", "Ann", "platform"),
    Claim("slack", "T2", "U1", "Ann", "platform"), Claim("Slack", "T1", "U1", "Ann", "platform"),
    Claim("slack", "", "T1/U1", "Ann", "platform"), Claim("slack", "T1", "U1 ", "Ann", "platform"),
    Claim("slack", "T1", "\uff35\uff11", "Ann", "platform"), Claim("slack", "T1", "U1\u200b", "Ann", "platform"),
    Claim("telegram", "7", "U1", "Ann", "platform"), Claim("local", "", "Owner", "Ann", "token"),
]  # fmt: skip


@pytest.mark.parametrize("claim", OTHERS, ids=str)
async def test_another_id_is_another_person(database: Database, claim: Claim) -> None:
    town = Town(database, "open")
    await town.say(SLACK, "/help")
    town.give(SLACK, "the codeword is heron")
    assert "heron" not in await town.say(claim, "/memory")
    found, ann = town.user(claim), town.user(SLACK)
    assert found is not None
    assert ann is not None
    assert found.id != ann.id
    assert (found.role, ann.role) == ("member", "admin")


@pytest.mark.parametrize("address", ["Ann@example.org", "ANN@example.org", "ann@example.org ", "ann@example\u200b.org"])
async def test_another_spelling_of_a_mailbox_is_another_mailbox(database: Database, address: str) -> None:
    """What stands before the @ is the mailbox's own matter (RFC 5321, 2.4)."""
    town = Town(database, "allowlist")
    town.inbox.access = Access("allowlist", ["email:ann@example.org"])
    await town.say(MAIL, "/help")
    claim = Claim("email", "", address, "Ann", "dmarc")
    assert await town.say(claim, "/memory") == ""
    assert town.user(claim) is None


def test_a_domain_has_no_case() -> None:
    assert email_key("ann@EXAMPLE.Org") == "ann@example.org"

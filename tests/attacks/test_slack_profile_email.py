"""A Slack profile whose mail address is another's: only a trusted team's first, confirmed word counts, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from gateway.slack.people import People
from identity.access import Access
from identity.users import Claim
from identity.vouching import NONE
from nightporter.testing.slack import BOT_TOKEN, SlackServer
from tests.town import MAIL, SLACK, Town
from workspace_store.database import Database

ANN = {"team_id": "T1", "is_email_confirmed": True, "profile": {"email": "ann@example.org"}}
EVE = Claim("slack", "T1", "U666", "Ann", "platform")


def with_mail(claim: Claim, address: str) -> Claim:
    return replace(claim, vouched_mail=address)


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database, "open")
    found.inbox.access = Access("open", [])
    await found.say(MAIL, "/help")
    found.give(MAIL, "the codeword is heron")
    return found


async def test_a_vouched_address_joins_the_verified_mailbox_and_both_hear_of_it(town: Town) -> None:
    assert "heron" in await town.say(with_mail(SLACK, "ann@EXAMPLE.org"), "/memory")
    assert town.user(SLACK) == town.user(MAIL)
    assert "one person now" in town.heard.pop("ann@example.org")[-1]


async def test_an_address_that_changes_later_moves_nothing(town: Town) -> None:
    await town.say(with_mail(EVE, "eve@example.org"), "/help")
    before = town.user(EVE)
    for _ in range(2):
        assert "heron" not in await town.say(with_mail(EVE, "ann@example.org"), "/memory")
    assert town.user(EVE) == before
    assert town.user(EVE) != town.user(MAIL)
    assert town.heard.get("ann@example.org") is None


async def test_a_profile_without_an_address_that_gets_one_later_moves_nothing(town: Town) -> None:
    await town.say(with_mail(EVE, NONE), "/help")
    assert "heron" not in await town.say(with_mail(EVE, "ann@example.org"), "/memory")
    assert town.user(EVE) != town.user(MAIL)


async def test_somebody_who_is_joined_stays_so_whatever_their_profile_says(town: Town) -> None:
    await town.say(with_mail(SLACK, "ann@example.org"), "/help")
    other = Claim("email", "", "bob@example.org", "Bob", "dmarc")
    await town.say(other, "/help")
    await town.say(with_mail(SLACK, "bob@example.org"), "/help")
    assert town.user(SLACK) == town.user(MAIL) != town.user(other)


@pytest.mark.parametrize("proof", ["unchecked", "admin"])
async def test_a_mailbox_that_nobody_has_checked_joins_nobody(database: Database, proof: str) -> None:
    town = Town(database, "open")
    town.inbox.access = Access("open", [])
    mail = replace(MAIL, proof=proof)
    await town.say(mail, "/help")
    await town.say(with_mail(SLACK, "ann@example.org"), "/help")
    assert town.user(SLACK) != town.user(mail)


async def test_an_unproven_word_of_slack_joins_nobody(town: Town) -> None:
    await town.say(replace(with_mail(EVE, "ann@example.org"), proof=""), "/memory")
    assert town.user(EVE) is None


async def test_who_was_unlinked_is_not_linked_again_by_the_platform(town: Town) -> None:
    await town.say(with_mail(SLACK, "ann@example.org"), "/help")
    assert "no longer you" in await town.say(MAIL, "/unlink")
    assert "heron" not in await town.say(with_mail(SLACK, "ann@example.org"), "/memory")
    assert town.user(SLACK) != town.user(MAIL)


async def test_two_full_workspaces_wait_a_day_here_too(town: Town) -> None:
    await town.say(SLACK, "/help")
    town.give(SLACK, "something of my own")
    await town.say(with_mail(SLACK, "ann@example.org"), "/help")
    assert town.user(SLACK) != town.user(MAIL)
    assert "unless one of you objects" in town.heard.pop("ann@example.org")[-1]


@pytest.mark.parametrize(
    ("person", "team", "found"),
    [
        (ANN, "T1", "ann@example.org"),
        (ANN, "T2", ""),
        ({**ANN, "is_email_confirmed": False}, "T1", NONE),
        ({"team_id": "T1", "profile": {"email": "ann@example.org"}}, "T1", NONE),
        ({**ANN, "is_restricted": True}, "T1", NONE),
        ({**ANN, "is_ultra_restricted": True}, "T1", NONE),
        ({**ANN, "is_bot": True}, "T1", NONE),
        ({**ANN, "is_stranger": True}, "T1", NONE),
        ({**ANN, "deleted": True}, "T1", NONE),
        ({**ANN, "team_id": "T9"}, "T1", NONE),
        ({**ANN, "profile": {}}, "T1", NONE),
        ({**ANN, "profile": {"email": "ann@example.org, eve@example.org"}}, "T1", NONE),
        (None, "T1", ""),
    ],
)
async def test_slack_vouches_for_members_of_trusted_teams_alone(
    person: dict[str, Any] | None, team: str, found: str
) -> None:
    async with SlackServer() as server:
        if person is not None:
            server.people["U1"] = person
        client = AsyncWebClient(BOT_TOKEN, server.api_url)
        people = People(frozenset({"T1"}))
        assert await people.mail_of(client, team, "U1") == found
        server.people["U1"] = {**ANN, "profile": {"email": "bob@example.org"}}
        if found:
            assert await people.mail_of(client, team, "U1") == found, "it is asked once"

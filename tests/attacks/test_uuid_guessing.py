"""Knowing or guessing a UUID opens nothing: it names somebody, and proves nothing."""

from __future__ import annotations

import pytest

from identity.users import Claim
from tests.town import EVE, SLACK, Town
from workspace_store.database import Database


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database, "open")
    for claim in (SLACK, EVE):
        await found.say(claim, "/help")
    found.give(SLACK, "the codeword is heron")
    return found


@pytest.mark.parametrize(
    "command",
    ["/memory {id}", "/whoami {id}", "/history {id}", "/status {id}", "/link {id}", "/confirm {id}", "/unlink {id}",
     "/object {id}", "/approve {id}", "/deny {id}", "/actions {id}", "/stop {id}", "/admin show {id}"],
)  # fmt: skip
async def test_no_command_takes_a_uuid_for_proof(town: Town, command: str) -> None:
    ann = town.user(SLACK)
    assert ann is not None
    for identifier in (str(ann.id), ann.id.hex, str(ann.id).upper()):
        said = await town.say(EVE, command.format(id=identifier))
        assert "heron" not in said
        assert "slack:T1/U1" not in said


async def test_a_uuid_as_an_external_id_is_a_person_of_its_own(town: Town) -> None:
    ann = town.user(SLACK)
    assert ann is not None
    for channel, account in (("telegram", "7"), ("slack", "T1"), ("email", ""), ("webhook", "")):
        claim = Claim(channel, account, str(ann.id), "Ann", "platform")
        assert "heron" not in await town.say(claim, "/memory")
        found = town.user(claim)
        assert found is not None
        assert found.id != ann.id


async def test_the_house_itself_is_nobody(town: Town) -> None:
    said = await town.say(Claim("telegram", "7", "0" * 32, "", "platform"), "/whoami")
    assert "00000000-0000-0000-0000-000000000000" not in said

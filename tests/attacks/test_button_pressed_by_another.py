"""Buttons that let in, merge or confirm, pressed by somebody they were not shown to: who presses is who says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.slack.intake import envelope_of
from gateway.slack.interactions import read_interaction
from gateway.slack.parsed import Bot
from identity import pairing
from identity.users import Claim
from nightporter.testing.slack import SlackServer
from router import admin_texts
from router.envelope import Envelope
from tests.town import EVE, SLACK, TELEGRAM, Town
from workspace_store.database import Database

SERVER = SlackServer()


def pressed(by: str, value: str, channel: str = "D1") -> Envelope:
    """What arrives when somebody presses a button of ours; Slack vouches for who."""
    body = SERVER.pressed("say", value, {"ts": "1.1", "text": "…"}, channel)
    body["user"] = {"id": by, "team_id": "T1"}
    return envelope_of(read_interaction(body, Bot("UAGENT")))


@pytest.fixture
async def town(database: Database) -> Town:
    found = Town(database)
    await found.say(SLACK, "/help")
    return found


async def press(town: Town, by: str, value: str) -> str:
    town.heard.clear()
    await town.inbox.accept(pressed(by, value))
    town.deliver()
    return "\n".join(town.heard.pop(by, []) + town.heard.pop("D1", []))


async def test_only_an_admins_press_lets_a_stranger_in(town: Town) -> None:
    await town.say(EVE, "hello")
    (waiting,) = town.database.read_now(pairing.waiting)
    bob = replace(waiting, claim=Claim("slack", "T1", "U2", "Bob", "platform"))
    town.database.write_now(lambda c: pairing.approve(c, bob, None))
    await town.say(EVE, "hello again")
    (waiting,) = town.database.read_now(pairing.waiting)
    value = f"/admin approve {waiting.code}"
    assert await press(town, "U2", value) == admin_texts.ONLY_ADMINS
    assert await press(town, "U9", value) != ""
    assert town.user(EVE) is None
    assert "is let in" in await press(town, "U1", value)
    assert town.user(EVE) is not None
    assert "Not done" in await press(town, "U1", value), "and once"


async def test_a_confirm_button_counts_for_its_presser_alone(town: Town) -> None:
    code = await town.code(SLACK)
    await town.say(TELEGRAM, f"/link {code}")
    await town.say(TELEGRAM, f"/confirm {code}")
    await press(town, "U666", f"/confirm {code.replace('-', '')}")
    assert town.user(TELEGRAM) is None
    assert "one person now" in await press(town, "U1", f"/confirm {code.replace('-', '')}")
    assert town.user(TELEGRAM) == town.user(SLACK)

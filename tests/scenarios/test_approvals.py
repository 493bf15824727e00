"""Approvals as people answer them: by button, command and command line, once, by who may, whatever is killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import text

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until
from tests.scenarios.asking import Asker
from workspace_store.approvals import ALWAYS, APPROVE, DENY

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"
BEN = {"id": 6, "is_bot": False, "first_name": "Ben"}


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


async def on_telegram(make_house: MakeHouse, server: TelegramServer) -> tuple[House, Asker]:
    given = {"telegram__token": TOKEN, "telegram__api_url": server.api_url, "access__policy": "open"}
    house = await asyncio.to_thread(make_house, **given)
    server.say(server.message("hello"))
    await until(lambda: server.messages, "the person is known")
    return house, Asker(house)


async def asked_on_telegram(server: TelegramServer) -> dict[str, Any]:
    found: dict[str, Any] = await until(
        lambda: next((m for m in server.messages if "reply_markup" in m["sent"]), None), "the question"
    )
    return found


def data_of(message: dict[str, Any], label: str) -> str:
    rows = message["sent"]["reply_markup"]["inline_keyboard"]
    return str(next(button["callback_data"] for row in rows for button in row if button["text"] == label))


async def test_a_button_on_telegram_answers_once(make_house: MakeHouse, telegram: TelegramServer) -> None:
    _, asker = await on_telegram(make_house, telegram)
    found = await asyncio.to_thread(asker.ask, "telegram", choices=(APPROVE, ALWAYS, DENY))
    question = await asked_on_telegram(telegram)
    assert f"/approve {found.code}" in question["text"]
    always, deny = data_of(question, "Always approve"), data_of(question, "Deny")
    telegram.say(telegram.pressed(always, question))
    await until(lambda: "Approved for always by Ann" in question["text"], "the question says so")
    assert "reply_markup" not in question["sent"]
    toast = (await until(lambda: telegram.said("answerCallbackQuery"), "the press is answered"))[0]
    assert "Approved for always" in toast["text"]
    telegram.say(telegram.pressed(deny, question))
    stale = (await until(lambda: telegram.said("answerCallbackQuery")[1:], "the second press is explained"))[0]
    assert "Already approved by Ann" in stale["text"]
    assert stale["show_alert"] == "true"
    now = asker.now_is(found)
    assert (now.status, now.choice, now.decided_via) == ("approved", "always", "button")
    assert asker.consume(found)
    assert not asker.consume(found)


async def test_another_ones_press_is_refused(make_house: MakeHouse, telegram: TelegramServer) -> None:
    _, asker = await on_telegram(make_house, telegram)
    found = await asyncio.to_thread(asker.ask, "telegram")
    question = await asked_on_telegram(telegram)
    telegram.say(telegram.pressed(data_of(question, "Approve"), question, by=BEN))
    (refused,) = await until(lambda: telegram.said("answerCallbackQuery"), "the press is answered")
    assert "not yours" in refused["text"]
    assert asker.now_is(found).status == "pending"
    assert "reply_markup" in question["sent"]


@pytest.mark.parametrize("victims", [["runner"], ["gateway", "runner"]])
async def test_what_was_decided_resumes_once_whatever_is_killed(
    make_house: MakeHouse, telegram: TelegramServer, victims: list[str]
) -> None:
    house, asker = await on_telegram(make_house, telegram)
    found = await asyncio.to_thread(asker.ask, "telegram", resumes=True)
    question = await asked_on_telegram(telegram)
    before, press = len(telegram.messages), data_of(question, "Approve")
    telegram.say(telegram.pressed(press, question))
    await until(lambda: asker.now_is(found).status == "approved", "it is decided")
    for victim in victims:
        await asyncio.to_thread(house.kill, victim)
    await until(lambda: len(telegram.messages) > before, "the turn that waited goes on")
    telegram.say(telegram.pressed(press, question))
    telegram.say(telegram.message("and now"))
    await until(lambda: len(telegram.messages) > before + 1, "what comes after is answered")
    resumed = [m["text"] for m in telegram.messages[before:] if "packages.example.org" in m["text"]]
    assert len(resumed) == 1
    count = "SELECT count(*) FROM inbox WHERE kind = 'approval' AND status = 'done'"
    assert asker.database.read_now(lambda c: c.execute(text(count)).scalar_one()) == 1
    assert (asker.consume(found), asker.consume(found)) == (True, False)


async def test_what_nobody_answers_expires_and_a_late_press_is_explained(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    _, asker = await on_telegram(make_house, telegram)
    found = await asyncio.to_thread(asker.ask, "telegram", seconds=2.0)
    question = await asked_on_telegram(telegram)
    press = data_of(question, "Approve")
    await until(lambda: "expired" in question["text"], "the question says so")
    assert "reply_markup" not in question["sent"]
    telegram.say(telegram.pressed(press, question))
    (late,) = await until(lambda: telegram.said("answerCallbackQuery"), "the press is explained")
    assert "Too late" in late["text"]
    assert not asker.consume(found)


async def test_a_question_asked_on_slack_is_answered_by_words_or_button(
    make_house: MakeHouse, slack: SlackServer
) -> None:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": slack.api_url}
    house = await asyncio.to_thread(make_house, access__policy="open", **given)
    url, asker = f"http://{house.addresses['http']}/slack/events", Asker(house)

    async def deliver(body: Any) -> None:
        assert (await slack.post(url, body, secret=SECRET))[0] == 200

    async def asked() -> dict[str, Any]:
        found: dict[str, Any] = await until(
            lambda: next((m for m in slack.messages.get("D1", []) if len(m.get("blocks") or []) > 1), None), "asked"
        )
        return found

    await deliver(slack.message("hello"))
    await until(lambda: slack.messages.get("D1"), "the person is known")
    first = await asyncio.to_thread(asker.ask, "slack")
    question = await asked()
    button = question["blocks"][1]["elements"][0]
    await deliver(slack.pressed(button["action_id"], button["value"], question, user="UBEN"))
    await until(lambda: slack.ephemeral, "the other's press is refused")
    assert "not yours" in slack.ephemeral[0]["text"]
    await deliver(slack.pressed(button["action_id"], button["value"], question))
    await until(lambda: asker.now_is(first).status == "approved", "it is decided")
    await until(lambda: [b["type"] for b in question["blocks"]] == ["section"], "the buttons go")
    await deliver(slack.pressed(button["action_id"], button["value"], question))
    await until(lambda: slack.ephemeral[1:], "the stale press is explained")
    assert "Already approved" in slack.ephemeral[1]["text"]

    second = await asyncio.to_thread(asker.ask, "slack")
    question = await asked()
    await deliver(slack.message("/actions"))
    await until(lambda: second.code in slack.messages["D1"][-1]["text"] and "until" in slack.messages["D1"][-1]["text"],
                "what waits is listed")  # fmt: skip
    await deliver(slack.message(f"/deny {second.code}"))
    await until(lambda: [b["type"] for b in question["blocks"]] == ["section"], "the buttons go")
    assert "Denied by" in question["text"]
    assert asker.now_is(second).status == "denied"
    assert not asker.consume(second)


def test_the_command_line_lists_and_answers(make_house: MakeHouse) -> None:
    house = make_house()
    house.say("hello")
    asker = Asker(house)
    first, second = asker.ask("local"), asker.ask("local", choices=(APPROVE, ALWAYS, DENY))
    listed = [json.loads(line) for line in house.run("actions", "list", "--json").stdout.splitlines()]
    assert [row["code"] for row in listed] == [first.code, second.code]
    assert listed[0]["request"] == {"host": "packages.example.org"}
    done = house.run("actions", "approve", second.code, "--choice", "always", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "approved")
    assert asker.now_is(second).decided_via == "cli"
    again = house.run("actions", "deny", second.code)
    assert again.returncode == 1
    assert "Already approved" in again.stdout
    assert house.run("actions", "deny", first.code).returncode == 0
    assert house.run("actions", "list", "--json").stdout == ""
    assert "no such approval" in house.run("actions", "approve", "NOSUCHID").stdout

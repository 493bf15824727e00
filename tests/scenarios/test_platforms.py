"""The whole path over the platforms' own protocols: local servers that speak them, everything else as users run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


async def on_telegram(make_house: MakeHouse, server: TelegramServer, **settings: str) -> House:
    given = {"telegram__token": TOKEN, "telegram__api_url": server.api_url, "access__policy": "open", **settings}
    return await asyncio.to_thread(make_house, **given)


def texts(server: TelegramServer) -> list[str]:
    return [message["text"] for message in server.messages]


async def test_telegram_from_update_to_reply_with_state_over_sleep(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    house = await on_telegram(make_house, telegram, sandbox__idle_seconds="0.5")
    telegram.say(telegram.message("$ export FOO=1; mkdir -p sub && cd sub"))
    await until(lambda: len(texts(telegram)) == 1, "the first answer", 30)
    await asyncio.to_thread(house.sleep_sandboxes)
    telegram.say(telegram.message("$ echo $FOO; pwd"))
    await until(lambda: len(texts(telegram)) == 2, "the second answer", 30)
    assert texts(telegram)[1].split() == ["1", "/workspace/sub"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["runner", "gateway"])
async def test_telegram_answers_once_whatever_is_killed(
    make_house: MakeHouse, telegram: TelegramServer, victim: str
) -> None:
    house = await on_telegram(make_house, telegram)
    telegram.say(telegram.message("$ echo begun > trace; sleep 1; echo finished"))
    await until(lambda: list(house.home.glob("volumes/*/live/workspace/trace")), "it has begun", 30)
    await asyncio.to_thread(house.kill, victim)
    telegram.say(telegram.message("$ echo after"))
    await until(lambda: any("after" in text for text in texts(telegram)), "what came after is answered", 30)
    assert len([text for text in texts(telegram) if "finished" in text]) == 1
    assert len(texts(telegram)) == 2


async def test_slack_from_event_to_reply_in_its_thread(make_house: MakeHouse, slack: SlackServer) -> None:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": slack.api_url}
    house = await asyncio.to_thread(make_house, access__policy="open", **given)
    url = f"http://{house.addresses['http']}/slack/events"
    event = slack.message("$ echo hello", thread_ts="1700000000.000100")
    for _ in range(2):
        assert (await slack.post(url, event, secret=SECRET))[0] == 200
    await until(lambda: slack.said("chat.postMessage"), "an answer", 30)
    await asyncio.to_thread(house.say, "hello")
    (sent,) = slack.said("chat.postMessage")
    assert "hello" in sent["text"]
    assert sent["thread_ts"] == "1700000000.000100"
    status, _ = await slack.post(url, event, secret="not the secret")
    assert status == 401


async def on_slack(make_house: MakeHouse, slack: SlackServer, **settings: str) -> tuple[House, str]:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": slack.api_url}
    house = await asyncio.to_thread(make_house, access__policy="open", **given, **settings)
    return house, f"http://{house.addresses['http']}/slack/events"


@pytest.mark.parametrize("victim", ["runner", "gateway", "nobody"])
@pytest.mark.slow
async def test_slack_shows_what_runs_and_leaves_one_message_whatever_is_killed(
    make_house: MakeHouse, slack: SlackServer, victim: str
) -> None:
    house, url = await on_slack(make_house, slack)
    await slack.post(url, slack.message("$ echo begun; sleep 6; echo finished"), secret=SECRET)

    def shown() -> list[str]:
        return [message["text"] for message in slack.messages.get("D1", [])]

    await until(lambda: any("sleep 6" in text and "begun" in text for text in shown()), "what runs is shown", 30)
    if victim != "nobody":
        await asyncio.to_thread(house.kill, victim)
    await until(lambda: any("⏳" not in text for text in shown()), "the answer", 40)
    await asyncio.to_thread(house.say, "hello")
    assert len(shown()) == 1
    assert "finished" in shown()[0]

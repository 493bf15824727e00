"""Rooms as people use them: a Slack channel and a Telegram group beside the same people's private conversations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"
GROUP = {"id": -42, "type": "group", "title": "The [night] shift"}


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


class Channel:
    """Talking in one Slack workspace."""

    def __init__(self, house: House, slack: SlackServer) -> None:
        self.house, self.slack = house, slack

    async def deliver(self, body: dict[str, Any]) -> None:
        url = f"http://{self.house.addresses['http']}/slack/events"
        assert (await self.slack.post(url, body, secret=SECRET))[0] == 200

    async def say(self, text: str, user: str = "UANN", channel: str = "C1", **more: Any) -> dict[str, Any]:
        """The message that answers."""
        before = len(self.slack.messages.get(channel, []))
        mention = "" if channel.startswith("D") else "<@UAGENT> "
        await self.deliver(self.slack.message(f"{mention}{text}", user=user, channel=channel, **more))
        await until(lambda: len(self.slack.messages.get(channel, [])) > before, f"an answer to {text}", 30)
        return self.slack.messages[channel][-1]


async def on_slack(make_house: MakeHouse, slack: SlackServer, **settings: str) -> Channel:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": slack.api_url}
    return Channel(await asyncio.to_thread(make_house, **given, **{"access__policy": "open", **settings}), slack)


async def test_a_channel_has_its_own_workspace_and_commands_answer_for_it(
    make_house: MakeHouse, slack: SlackServer
) -> None:
    channel = await on_slack(make_house, slack)
    await channel.say("$ echo private > mine.txt", channel="D1")
    await channel.say("$ echo shared > ours.txt", ts="1700000001.000100")
    answer = await channel.say("$ ls; cat ours.txt", user="UBOB", thread_ts="1700000001.000100")
    assert "shared" in answer["text"]
    assert "mine.txt" not in answer["text"]
    assert answer["thread_ts"] == "1700000001.000100"
    assert "ours.txt" not in (await channel.say("$ ls", channel="D1"))["text"]
    whoami = (await channel.say("!whoami", user="UBOB"))["text"]
    assert "slack:T1/C1" in whoami
    # A slash command is between the person and the agent, also where it is typed in a channel.
    await channel.deliver(slack.command("whoami"))
    await until(lambda: slack.ephemeral, "an answer for Ann alone", 30)
    assert "slack:UANN" in slack.ephemeral[-1]["text"] or "slack:T1/UANN" in slack.ephemeral[-1]["text"]
    shown = await asyncio.to_thread(channel.house.run, "journal", "show", "slack:T1/C1", "--json")
    kinds = [json.loads(line) for line in shown.stdout.splitlines()]
    speakers = {event["body"]["speaker"].partition(" (")[0] for event in kinds if event["kind"] == "message.received"}
    assert speakers == {"UANN", "UBOB"}
    told = await asyncio.to_thread(channel.house.run, "status", "slack:T1/C1", "--json")
    status = json.loads(told.stdout)
    assert (status["kind"], status["waiting"]) == ("room", 0)
    (room,) = (await asyncio.to_thread(channel.house.run, "rooms", "--json")).stdout.splitlines()
    assert (json.loads(room)["principal"], json.loads(room)["name"]) == (status["principal"], "slack:T1/C1")
    listed = await asyncio.to_thread(channel.house.run, "workspace", "ls", "slack:T1/C1")
    assert "ours.txt" in listed.stdout
    assert "mine.txt" not in listed.stdout


async def test_a_stranger_in_a_channel_is_met_with_silence_and_starts_nothing(
    make_house: MakeHouse, slack: SlackServer
) -> None:
    channel = await on_slack(make_house, slack, access__policy="pairing", access__admins='["slack:T1/UANN"]')
    await channel.deliver(slack.message("<@UAGENT> $ touch stranger.txt", user="UEVE", channel="C1"))
    answer = await channel.say("$ ls -A")
    assert "stranger.txt" not in answer["text"]
    assert len(slack.messages["C1"]) == 1
    assert [name for name in slack.messages if name != "C1"] == []


async def test_a_members_stop_ends_what_another_started(make_house: MakeHouse, slack: SlackServer) -> None:
    channel = await on_slack(make_house, slack)
    long = asyncio.create_task(channel.say("$ echo begun > trace; sleep 60", ts="1700000002.000100"))
    await until(lambda: list(channel.house.home.glob("volumes/*/live/workspace/trace")), "it has begun", 30)
    await channel.deliver(slack.message("<@UAGENT> !stop", user="UBOB", channel="C1"))
    await asyncio.wait_for(long, 20)
    await until(lambda: len(slack.messages["C1"]) == 2, "both are answered", 20)
    assert sorted(message["text"] for message in slack.messages["C1"]) == ["Stopped.", "Stopping."]


async def test_a_group_that_becomes_a_supergroup_stays_the_same_room(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    given = {"telegram__token": TOKEN, "telegram__api_url": telegram.api_url, "access__policy": "open"}
    house = await asyncio.to_thread(make_house, **given)

    async def say(text: str, chat: dict[str, Any]) -> str:
        before = len(telegram.messages)
        mention = [{"type": "mention", "offset": 0, "length": 11}]
        telegram.say(telegram.message(f"@porter_bot {text}", chat=chat, entities=mention))
        await until(lambda: len(telegram.messages) > before, f"an answer to {text}", 30)
        return str(telegram.messages[-1]["text"])

    await say("$ echo kept > file.txt; export KEPT=yes", GROUP)
    telegram.say(telegram.message(chat=GROUP, migrate_to_chat_id=-100042))
    moved = {"id": -100042, "type": "supergroup", "title": "The night shift"}
    assert "kept yes" in await say("$ echo $(cat file.txt) $KEPT", moved)
    assert telegram.messages[-1]["chat"]["id"] == -100042
    shown = await asyncio.to_thread(house.run, "workspace", "ls", "telegram:-100042")
    assert "file.txt" in shown.stdout

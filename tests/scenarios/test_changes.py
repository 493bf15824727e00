"""Bursts, edits, deletions, reactions and /stop as people do them on the platforms, through the whole house."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import ANN, TOKEN, TelegramServer
from nightporter.testing.web import until
from tests.scenarios.asking import Asker

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"
Deliver = Callable[[Any], Awaitable[None]]


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


async def on_slack(make_house: MakeHouse, server: SlackServer, **settings: str) -> tuple[House, Deliver]:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": server.api_url}
    house = await asyncio.to_thread(make_house, access__policy="open", **given, **settings)
    url = f"http://{house.addresses['http']}/slack/events"

    async def deliver(body: Any) -> None:
        assert (await server.post(url, body, secret=SECRET))[0] == 200

    return house, deliver


def told(server: TelegramServer) -> list[str]:
    return [message["text"] for message in server.messages]


async def test_a_cut_paste_on_telegram_is_one_turn_also_over_a_kill(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    house = await on_telegram(make_house, telegram, router__settle_seconds="10", router__settle_most_seconds="30")
    telegram.say(telegram.message("$ wc -c <<'EOF'\n" + "a" * 4060))
    await until(lambda: telegram.confirmed, "the first half is accepted")
    await asyncio.to_thread(house.kill, "gateway")
    telegram.say(telegram.message("b" * 10 + "\nEOF"))
    await until(lambda: telegram.messages, "the answer")
    await asyncio.sleep(1)
    (answer,) = told(telegram)
    assert "4072" in answer


async def test_an_album_on_telegram_is_one_turn(make_house: MakeHouse, telegram: TelegramServer) -> None:
    await on_telegram(make_house, telegram)
    for number in range(3):
        photo = [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "width": 9, "height": 9, "file_size": 10}]
        telegram.files[f"f{number}"] = b"0123456789"
        more: dict[str, Any] = {"caption": "what is this?"} if number == 0 else {}
        telegram.say(telegram.message(photo=photo, media_group_id="m", **more))
    await until(lambda: telegram.messages, "the answer")
    telegram.say(telegram.message("$ echo came-behind"))
    await until(lambda: any("came-behind" in text for text in told(telegram)), "what came behind it is answered")
    assert len(told(telegram)) == 2


async def test_a_deletion_and_an_edit_on_slack_count_before_the_turn_begins(
    make_house: MakeHouse, slack: SlackServer
) -> None:
    house, deliver = await on_slack(make_house, slack)
    await deliver(slack.message("$ echo begun > trace; sleep 3", ts="10.1"))
    await until(lambda: list(house.home.glob("volumes/*/live/workspace/trace")), "the first command runs")
    await deliver(slack.message("$ echo deleted >> trace", ts="10.2"))
    await deliver(slack.message("$ echo before >> trace", ts="10.3"))
    about = {"type": "message", "channel": "D1", "channel_type": "im"}
    gone = {"type": "message", "user": "UANN", "text": "$ echo deleted >> trace", "ts": "10.2"}
    await deliver(slack.event({**about, "subtype": "message_deleted", "deleted_ts": "10.2", "previous_message": gone}))
    old = {"type": "message", "user": "UANN", "text": "$ echo before >> trace", "ts": "10.3"}
    new = {**old, "text": "$ echo edited >> trace; cat trace", "edited": {"user": "UANN", "ts": "11.0"}}
    await deliver(slack.event({**about, "subtype": "message_changed", "message": new, "previous_message": old}))
    await until(lambda: any("edited" in m["text"] for m in slack.messages.get("D1", [])), "the edited one is answered")
    last = next(m["text"] for m in slack.messages["D1"] if "edited" in m["text"])
    assert last.replace("`", "").split() == ["begun", "edited"]
    kinds = [event["kind"] for event in await asyncio.to_thread(journal_of, house, "slack:UANN")]
    assert (kinds.count("message.deleted"), kinds.count("message.edited")) == (1, 1)
    assert kinds.count("turn.started") == 2


def journal_of(house: House, user: str) -> list[dict[str, Any]]:
    done = house.run("journal", "show", user, "--limit", "500", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_an_edit_on_telegram_after_the_answer_starts_no_turn(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    house = await on_telegram(make_house, telegram)
    said = telegram.message("$ echo one")
    telegram.say(said)
    await until(lambda: telegram.messages, "the answer")
    edited = {**said["message"], "text": "$ echo two", "edit_date": said["message"]["date"] + 1}
    telegram.say(telegram.update(edited_message=edited))
    telegram.say(telegram.message("$ echo three"))
    await until(lambda: any("three" in text for text in told(telegram)), "the next message is answered")
    assert not any("two" in text for text in told(telegram))
    events = await asyncio.to_thread(journal_of, house, "telegram:5")
    (edit,) = [event["body"] for event in events if event["kind"] == "message.edited"]
    assert (edit["text"], edit["in_time"]) == ("$ echo two", False)


async def test_a_thumb_on_the_question_answers_it(make_house: MakeHouse, telegram: TelegramServer) -> None:
    house = await on_telegram(make_house, telegram)
    telegram.say(telegram.message("hello"))
    await until(lambda: telegram.messages, "the person is known")
    asker = Asker(house)
    found = await asyncio.to_thread(asker.ask, "telegram", resumes=True)
    question = await until(lambda: next((m for m in telegram.messages if found.code in m["text"]), None), "asked")
    reaction = {"chat": {**ANN, "type": "private"}, "user": ANN, "message_id": question["message_id"], "date": 1,
                "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}  # fmt: skip
    update = telegram.update(message_reaction=reaction)
    telegram.say(update, {**update})
    await until(lambda: "Approved by Ann" in question["text"], "the question says so")
    await until(lambda: any("Say again" in text for text in told(telegram)), "what waited goes on")
    assert asker.now_is(found).decided_via == "reaction"
    assert "reply_markup" not in question["sent"]


@pytest.mark.parametrize("settles", [False, True])
async def test_stop_on_telegram_within_two_seconds(
    make_house: MakeHouse, telegram: TelegramServer, settles: bool
) -> None:
    house = await on_telegram(make_house, telegram, router__settle_seconds="10", router__settle_most_seconds="10")
    if settles:
        telegram.say(telegram.message("$ echo " + "a" * 4090))
        await until(lambda: telegram.confirmed, "it is accepted")
    else:
        telegram.say(telegram.message("$ echo begun > trace; sleep 60"))
        await until(lambda: list(house.home.glob("volumes/*/live/workspace/trace")), "it runs")
    began = time.monotonic()
    telegram.say(telegram.message("/stop"))
    ended = ("Stopped.", "Not started")
    await until(lambda: any(text.startswith(ended) for text in told(telegram)), "it has ended", 20)
    # Two seconds, and what a loaded machine adds.
    assert time.monotonic() - began < 6


async def test_stop_on_slack_within_two_seconds(make_house: MakeHouse, slack: SlackServer) -> None:
    house, deliver = await on_slack(make_house, slack)
    await deliver(slack.message("$ echo begun > trace; sleep 60"))
    await until(lambda: list(house.home.glob("volumes/*/live/workspace/trace")), "it runs")
    began = time.monotonic()
    await deliver(slack.message("/stop"))
    await until(lambda: any("Stopped." in m["text"] for m in slack.messages.get("D1", [])), "it has ended", 20)
    assert time.monotonic() - began < 6


def test_parts_said_over_http_are_one_message(make_house: MakeHouse) -> None:
    house = make_house()
    first = house.post("$ cat <<'EOF'\none", more=True)
    second = house.post("two\nEOF")
    answers = [house.answer(one)["replies"] for one in (first, second)]
    assert answers[0] == answers[1]
    assert answers[0][0]["text"].replace("`", "").split() == ["one", "two"]

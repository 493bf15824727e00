"""What Slack shows of a turn that runs: one message, whatever dies, and the final words in its place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway import drafts as drafts_module
from gateway.drafts import Drafts
from gateway.slack import channel as channel_module
from nightporter.testing.slack import SlackServer
from nightporter.testing.web import Fault, until
from tests.gateway.running import RunningTurn, rows
from workspace_store.database import Database

from .test_with_database import Gateway


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "DOING_SECONDS", 0.05)
    monkeypatch.setattr(drafts_module, "ANSWERING_SECONDS", 0.02)
    monkeypatch.setattr(drafts_module, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(channel_module.SlackChannel, "pace", 0.02)


def drafts_of(gateway: Gateway) -> Drafts:
    assert gateway.delivery.drafts is not None
    return gateway.delivery.drafts


async def heard(gateway: Gateway, slack: SlackServer, text: str = "go", **more: str) -> RunningTurn:
    before = len(gateway.heard)
    await gateway.channel._intake.handle(slack.message(text, **more))
    await until(lambda: len(gateway.heard) > before, "the message")
    return await RunningTurn(gateway.database, gateway.heard[-1]).begin()


def shown(slack: SlackServer, channel: str = "D1") -> list[str]:
    return [message["text"] for message in slack.messages.get(channel, [])]


async def test_a_command_that_takes_long_is_named_and_its_end_takes_that_place(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack)
        drafts_of(gateway).hear(turn.tells(doing="make test"))
        await until(lambda: shown(slack), "the draft")
        assert "`make test`" in shown(slack)[0]
        drafts_of(gateway).hear(turn.prints("compiling\r\x1b[32mok\x1b[0m\n"))
        await until(lambda: "ok" in shown(slack)[0] and "compiling" not in shown(slack)[0], "its output")
        await turn.commit("**42** passed", drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: shown(slack) == ["*42* passed"], "the final words")
        assert slack.messages["D1"][0]["metadata"]["event_type"] == "nightporter_reply"
        sent = ("sent", slack.messages["D1"][0]["ts"])
        while [sent] != await database.read(rows):
            await asyncio.sleep(0.01)


async def test_a_quick_command_shows_nothing_but_its_answer(
    slack: SlackServer, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts_module, "DOING_SECONDS", 30)
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack)
        drafts_of(gateway).hear(turn.tells(doing="true"))
        drafts_of(gateway).hear(turn.tells(doing=""))
        await turn.commit("done", drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: shown(slack) == ["done"], "the answer")
        assert not slack.said("chat.update")
        assert not drafts_of(gateway)._turns


async def test_an_answer_that_grows_is_a_stream_in_its_thread_and_ends_as_a_message(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack, thread_ts="3.1")
        words = [f"word{number} " for number in range(20)] + ["<!channel> @here"]
        for count in range(1, len(words) + 1):
            drafts_of(gateway).hear(turn.tells(text="".join(words[:count])))
            await asyncio.sleep(0.02)
        await until(lambda: shown(slack) and "here" in shown(slack)[0], "the whole answer")
        assert slack.said("chat.startStream")
        assert slack.said("chat.appendStream")
        assert "<!channel>" not in shown(slack)[0]
        assert "@here" not in shown(slack)[0]
        await turn.commit("".join(words), drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: slack.said("chat.update"), "the final words")
        (message,) = slack.messages["D1"]
        assert message["text"].endswith("&lt;!channel&gt; @here")
        assert not message["streaming"]
        assert "chat.postMessage" not in {call.method for call in slack.calls}


async def test_a_stream_that_slack_has_closed_is_edited(slack: SlackServer, database: Database, tmp_path: Path) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack, thread_ts="3.1")
        drafts_of(gateway).hear(turn.tells(text="one"))
        await until(lambda: shown(slack) == ["one"], "the stream")
        slack.end_streams()
        drafts_of(gateway).hear(turn.tells(text="one two"))
        await until(lambda: shown(slack) == ["one two"], "what came after")
        await turn.commit("one two three", drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: shown(slack) == ["one two three"], "the final words")


async def test_where_streams_are_not_allowed_a_message_is_edited(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    slack.fail("chat.startStream", Fault("refuse", reason="missing_scope"))
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack, thread_ts="3.1")
        for text in ("one", "one **two**"):
            drafts_of(gateway).hear(turn.tells(text=text))
            await until(lambda: shown(slack), "the draft")
        await until(lambda: shown(slack) == ["one *two*"], "the draft grows")
        await turn.commit("one two", drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: shown(slack) == ["one two"], "the final words")


@pytest.mark.parametrize("lost", ["nothing", "lose_response"])
@pytest.mark.parametrize("thread", ["", "3.1"])
async def test_a_gateway_that_dies_leaves_one_message(
    slack: SlackServer, database: Database, tmp_path: Path, lost: str, thread: str
) -> None:
    """Also where it died before it could record what it had posted, and a stream carries no metadata."""
    first, second = (Gateway(slack, database, tmp_path / "lives", name) for name in ("gateway-one", "gateway-two"))
    async with first:
        turn = await heard(first, slack, **({"thread_ts": thread} if thread else {}))
        if lost != "nothing":
            slack.fail("chat.startStream" if thread else "chat.postMessage", Fault("lose_response"))
        drafts_of(first).hear(turn.tells(text="half an"))
        await until(lambda: shown(slack), "the draft")
        for task in [found.task for found in drafts_of(first)._turns.values() if found.task]:
            task.cancel()
        drafts_of(first)._turns.clear()
    async with second:
        drafts_of(second).hear(turn.tells(text="half an answer"))
        await until(lambda: shown(slack) == ["half an answer"], "the other one goes on")
        await turn.commit("a whole answer")
        second.delivery.ring()
        await until(lambda: shown(slack) == ["a whole answer"], "the final words")


async def test_a_draft_that_nobody_goes_on_with_is_found_when_its_turn_ends(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    first, second = (Gateway(slack, database, tmp_path / "lives", name) for name in ("gateway-one", "gateway-two"))
    async with first:
        turn = await heard(first, slack)
        drafts_of(first).hear(turn.tells(doing="sleep 60"))
        await until(lambda: shown(slack), "the draft")
        await until(lambda: drafts_of(first)._turns[turn.id].external_id, "its id")
    await turn.commit("awake")
    async with second:
        second.delivery.ring()
        await until(lambda: shown(slack) == ["awake"], "the final words")


async def test_two_gateways_show_one_draft_and_its_last_showing_comes_before_the_end(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    lives = tmp_path / "lives"
    async with Gateway.living(slack, database, lives) as first, Gateway.living(slack, database, lives) as second:
        turn = await heard(first, slack)
        for number in range(12):
            for gateway in (first, second):
                drafts_of(gateway).hear(turn.tells(doing=f"step {number}"))
            await asyncio.sleep(0.02)
        await until(lambda: shown(slack), "the draft")
        for gateway in (first, second):
            drafts_of(gateway).hear(turn.tells(doing="the last step"))
        await turn.commit("the end", drafts_of(first), drafts_of(second))
        for gateway in (second, first):
            gateway.delivery.ring()
        await until(lambda: shown(slack) == ["the end"], "the final words")
        await asyncio.sleep(0.2)
        assert shown(slack) == ["the end"]


async def test_a_draft_that_was_deleted_is_answered_all_the_same(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack)
        drafts_of(gateway).hear(turn.tells(doing="sleep 60"))
        await until(lambda: shown(slack), "the draft")
        slack.messages["D1"].clear()
        await turn.commit("done", drafts_of(gateway))
        gateway.delivery.ring()
        await until(lambda: shown(slack) == ["done"], "the answer")


async def test_what_only_its_asker_may_see_has_no_draft(slack: SlackServer, database: Database, tmp_path: Path) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        await gateway.channel._intake.handle(slack.command("$ sleep 9"))
        turn = await RunningTurn(database, gateway.heard[-1]).begin()
        drafts_of(gateway).hear(turn.tells(doing="sleep 9"))
        await asyncio.sleep(0.3)
        assert slack.messages == {}


async def test_a_final_edit_whose_answer_is_lost_is_made_once_more_in_its_place(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(slack, database, tmp_path, "gateway-one") as gateway:
        turn = await heard(gateway, slack)
        drafts_of(gateway).hear(turn.tells(doing="sleep 60"))
        await until(lambda: shown(slack), "the draft")
        slack.fail("chat.update", Fault("lose_response"))
        await turn.commit("done", drafts_of(gateway))
        gateway.delivery.ring()
        ts = slack.messages["D1"][0]["ts"]
        while ("sent", ts) not in await database.read(rows):
            await asyncio.sleep(0.01)
        assert shown(slack) == ["done"]

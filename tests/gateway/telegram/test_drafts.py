"""What Telegram shows of a turn that runs: a preview in private, one edited message in groups, then the final words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway import drafts as drafts_module
from gateway.delivery import Delivery
from gateway.drafts import Drafts
from gateway.progress import OutboxProgress
from gateway.telegram import channel as channel_module
from gateway.telegram import drafts as telegram_drafts
from gateway.telegram.channel import TelegramChannel
from gateway.telegram.config import TelegramConfig
from identity.access import Access
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import Fault, end, until
from router.inbox import Accepted, Inbox
from tests.gateway.running import RunningTurn, rows
from workspace_store.database import Database

GROUP = {"id": -100, "type": "supergroup", "title": "G"}
MENTION = [{"type": "mention", "offset": 0, "length": 11}]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "DOING_SECONDS", 0.05)
    monkeypatch.setattr(drafts_module, "ANSWERING_SECONDS", 0.02)
    monkeypatch.setattr(drafts_module, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(channel_module.TelegramChannel, "pace", 0.02)
    monkeypatch.setattr(telegram_drafts, "EDIT_SECONDS", 0.02)


class Gateway:
    def __init__(self, telegram: TelegramServer, database: Database, lives: Path, claimer: str) -> None:
        self.telegram, self.database = telegram, database
        self.heard: list[Accepted] = []
        accept = Inbox(database, Access("open", ()), self.heard.append).accept
        config = TelegramConfig(TOKEN, telegram.api_url)
        self.channel = TelegramChannel(config, accept, OutboxProgress(database, claimer))
        channels = {"telegram": self.channel}
        self.drafts = Drafts(claimer, database, lives, channels)
        self.delivery = Delivery(claimer, database, lives, channels, drafts=self.drafts)

    async def hears(self, text: str = "go", **more: Any) -> RunningTurn:
        before = len(self.heard)
        self.telegram.say(self.telegram.message(text, **more))
        await until(lambda: len(self.heard) > before, "the message")
        return await RunningTurn(self.database, self.heard[-1]).begin()

    async def commits(self, turn: RunningTurn, text: str) -> None:
        await turn.commit(text, self.drafts)
        self.delivery.ring()


@asynccontextmanager
async def gateway(
    telegram: TelegramServer, database: Database, lives: Path, claimer: str = "gateway-one"
) -> AsyncIterator[Gateway]:
    found = Gateway(telegram, database, lives, claimer)
    await found.channel.start()
    running = asyncio.create_task(found.delivery.run())
    try:
        yield found
    finally:
        await end(running)
        await found.drafts.close()
        await found.delivery.drain(1)
        await found.channel.close()


def shown(telegram: TelegramServer) -> list[str]:
    return [message["text"] for message in telegram.messages]


async def in_group(found: Gateway) -> RunningTurn:
    return await found.hears("@porter_bot go", chat=GROUP, entities=MENTION, message_id=77)


async def test_in_private_a_preview_names_what_runs_and_only_the_answer_is_a_message(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with gateway(telegram, database, tmp_path) as found:
        turn = await found.hears()
        found.drafts.hear(turn.tells(doing="make <all>"))
        await until(lambda: telegram.drafts, "the preview")
        assert "make <all>" in telegram.drafts[0]["text"]
        found.drafts.hear(turn.tells(doing=""))
        found.drafts.hear(turn.tells(text="It **works**"))
        await until(lambda: telegram.drafts[-1]["text"] == "It works", "the answer so far")
        assert len({draft["draft_id"] for draft in telegram.drafts}) == 1
        await found.commits(turn, "It works.")
        await until(lambda: shown(telegram) == ["It works."], "the answer")
        assert not telegram.said("editMessageText")


async def test_in_a_group_one_message_is_edited_to_its_end(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with gateway(telegram, database, tmp_path) as found:
        turn = await in_group(found)
        found.drafts.hear(turn.tells(doing="make test"))
        await until(lambda: shown(telegram), "the draft")
        assert telegram.messages[0]["sent"]["reply_parameters"]["message_id"] == 77
        found.drafts.hear(turn.tells(doing="make install"))
        await until(lambda: "make install" in shown(telegram)[0], "what runs now")
        telegram.fail("editMessageText", Fault("lose_response"))
        await found.commits(turn, "**done**")
        await until(lambda: shown(telegram) == ["done"], "the final words")
        sent = ("sent", str(telegram.messages[0]["message_id"]))
        while [sent] != await database.read(rows):
            await asyncio.sleep(0.01)


async def test_a_gateway_that_dies_leaves_one_message(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with gateway(telegram, database, tmp_path) as first:
        turn = await in_group(first)
        first.drafts.hear(turn.tells(doing="sleep 60"))
        await until(lambda: first.drafts._turns[turn.id].external_id, "the draft")
    await turn.commit("awake")
    async with gateway(telegram, database, tmp_path, "gateway-two") as second:
        second.delivery.ring()
        await until(lambda: shown(telegram) == ["awake"], "the final words")


async def test_a_draft_that_was_deleted_is_answered_all_the_same(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with gateway(telegram, database, tmp_path) as found:
        turn = await in_group(found)
        found.drafts.hear(turn.tells(doing="sleep 60"))
        await until(lambda: shown(telegram), "the draft")
        telegram.messages.clear()
        await found.commits(turn, "done")
        await until(lambda: shown(telegram) == ["done"], "the answer")


async def test_a_server_that_knows_no_drafts_gets_edited_messages(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    telegram.fail("sendMessageDraft", Fault("refuse", status=404, reason="Not Found"))
    async with gateway(telegram, database, tmp_path) as found:
        turn = await found.hears()
        found.drafts.hear(turn.tells(doing="sleep 60"))
        await until(lambda: shown(telegram), "the draft")
        await found.commits(turn, "done")
        await until(lambda: shown(telegram) == ["done"], "the answer in its place")
        assert telegram.said("editMessageText")
        assert found.channel.wrong() == []


async def test_a_draft_waits_as_long_as_telegram_asks_and_the_answer_of_another_chat_does_not(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    telegram.fail("sendMessageDraft", Fault("rate_limit", seconds=60))
    async with gateway(telegram, database, tmp_path) as found:
        turn, other = await found.hears(), await in_group(found)
        found.drafts.hear(turn.tells(doing="sleep 60"))
        await until(lambda: telegram.said("sendMessageDraft"), "the preview is tried")
        await found.commits(other, "other")
        await until(lambda: shown(telegram) == ["other"], "the other's answer")
        await found.commits(turn, "done")
        await until(lambda: shown(telegram) == ["other", "done"], "the answer does not wait for its draft")
        assert len(telegram.said("sendMessageDraft")) == 1

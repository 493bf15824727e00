"""Chats that move, are closed and opened again, and gateways that take over: with the real inbox and outbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from gateway import reading as reading_module
from gateway.conversations import StoredConversations
from gateway.delivery import Delivery
from gateway.progress import OutboxProgress
from gateway.reading import OneReader
from gateway.telegram.channel import TelegramChannel
from gateway.telegram.config import TelegramConfig
from identity.access import Access
from nightporter.testing.telegram import ANN, BOT, TOKEN, TelegramServer
from nightporter.testing.web import end, until
from router.inbox import Accepted, Inbox
from workspace_store import inbox, journal, outbox
from workspace_store.database import Database
from workspace_store.liveness import Life
from workspace_store.outbox import Address

OLD, NEW = -55, -1001000055
GROUP = {"id": OLD, "type": "group", "title": "G"}
MENTION = [{"type": "mention", "offset": 0, "length": 11}]


class Gateway:
    """A living gateway's Telegram part; what it answers, the test says."""

    def __init__(self, telegram: TelegramServer, database: Database, lives: Path) -> None:
        self.telegram, self.database = telegram, database
        self.life = Life(lives, "gateway", "here")
        self.heard: list[Accepted] = []
        self.channel = TelegramChannel(
            TelegramConfig(TOKEN, telegram.api_url),
            Inbox(database, Access("open", ()), self.heard.append).accept,
            OutboxProgress(database, self.life.id),
            conversations=StoredConversations(database, "telegram"),
            reading=OneReader(database, lives, self.life.id),
        )
        self.delivery = Delivery(self.life.id, database, lives, {"telegram": self.channel})

    async def __aenter__(self) -> Gateway:
        await self.channel.start()
        self._running = asyncio.create_task(self.delivery.run())
        return self

    async def __aexit__(self, *exception: object) -> None:
        await end(self._running)
        await self.delivery.drain(1)
        await self.channel.close()
        self.life.end()

    async def hears(self, text: str = "go", **more: Any) -> Accepted:
        before = len(self.heard)
        self.telegram.say(self.telegram.message(text, **more))
        await until(lambda: len(self.heard) > before, "the message")
        return self.heard[-1]

    async def answers(self, to: Accepted, text: str) -> None:
        def write(connection: Connection) -> None:
            row = inbox.get(connection, to.message)
            assert row is not None
            outbox.queue(
                connection, key=f"{row.id.hex}:{text}", principal=row.principal, turn=None, inbox=row.id,
                to=Address(row.channel, row.account, row.conversation, row.thread), content={"text": text, "reply": {}},
            )  # fmt: skip

        await self.database.write(write)
        self.delivery.ring()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "LOOK_SECONDS", 0.05)


def shown(telegram: TelegramServer) -> list[tuple[int, str]]:
    return [(message["chat"]["id"], message["text"]) for message in telegram.messages]


def membership(telegram: TelegramServer, before: str, after: str) -> dict[str, Any]:
    chat = {**ANN, "type": "private"}
    statuses = {"old_chat_member": {"user": BOT, "status": before}, "new_chat_member": {"user": BOT, "status": after}}
    return telegram.update(my_chat_member={"chat": chat, "from": ANN, "date": 1, **statuses})


async def states(database: Database) -> list[tuple[str, str]]:
    def query(connection: Connection) -> list[tuple[str, str]]:
        rows = connection.execute(outbox.outbox.select().order_by(outbox.outbox.c.number))
        return [(row.status, row.error or "") for row in rows]

    return await database.read(query)


async def test_a_group_that_moves_is_answered_at_its_new_place(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(telegram, database, tmp_path) as gateway:
        first = await gateway.hears("@porter_bot one", chat=GROUP, entities=MENTION)
        telegram.upgraded[OLD] = NEW
        # Sent before the news of it, and after.
        await gateway.answers(first, "early")
        await until(lambda: shown(telegram) == [(NEW, "early")], "the early answer")
        telegram.say(telegram.message(chat=GROUP, migrate_to_chat_id=NEW))
        await until(lambda: telegram.confirmed >= telegram.updates[-1]["update_id"], "the news")
        await gateway.answers(first, "late")
        await until(lambda: shown(telegram)[-1] == (NEW, "late"), "the late answer")
        then = await gateway.hears("@porter_bot two", chat={**GROUP, "id": NEW, "type": "supergroup"}, entities=MENTION)
        assert then.principal == first.principal, "the room has moved along"
    row = await database.read(lambda connection: inbox.get(connection, first.message))
    assert row is not None
    assert row.conversation == str(NEW)


async def test_a_person_who_blocks_it_holds_nothing_up_and_gets_the_answer_when_they_let_it_speak(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(telegram, database, tmp_path) as gateway:
        blocker = await gateway.hears()
        ben = {"id": 6, "is_bot": False, "first_name": "Ben"}
        other = await gateway.hears(chat={**ben, "type": "private"}, **{"from": ben})
        telegram.blocked.add(ANN["id"])
        telegram.say(membership(telegram, "member", "kicked"))
        await gateway.answers(blocker, "for nobody")
        await gateway.answers(other, "for Ben")
        await until(lambda: shown(telegram) == [(6, "for Ben")], "the other's answer")
        while [status for status, _ in await states(database)] != ["dead", "sent"]:
            await asyncio.sleep(0.01)
        assert "blocked" in (await states(database))[0][1]
        events = await database.read(lambda connection: journal.read(connection, blocker.principal))
        assert "reply.failed" in [event.kind for event in events]
        telegram.blocked.clear()
        telegram.say(membership(telegram, "kicked", "member"))
        await until(lambda: (ANN["id"], "for nobody") in shown(telegram), "what was given up")


async def test_what_waits_when_a_person_blocks_it_becomes_a_dead_letter(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(telegram, database, tmp_path) as gateway:
        blocker = await gateway.hears()
        await end(gateway._running)
        await gateway.answers(blocker, "for nobody")
        telegram.say(membership(telegram, "member", "kicked"))
        while [status for status, _ in await states(database)] != ["dead"]:
            await asyncio.sleep(0.01)
    assert not telegram.said("sendMessage")


async def test_a_second_gateway_polls_when_the_first_has_died(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(telegram, database, tmp_path) as first:
        await first.hears("one")
        async with Gateway(telegram, database, tmp_path) as second:
            await first.hears("two")
            assert not second.heard
            assert first.channel.wrong() == second.channel.wrong() == []
            first.life.end()
            await until(lambda: second.channel._polling, "the second polls")
            telegram.say(telegram.message("three"))
            await until(lambda: len(first.heard) + len(second.heard) == 3, "the message after")
            first.life = Life(tmp_path, "gateway", "here")


async def test_a_new_gateway_polls_without_an_offset(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(telegram, database, tmp_path) as first:
        await first.hears("one")
    telegram.calls.clear()
    async with Gateway(telegram, database, tmp_path) as second:
        # Ids that begin anew below the last one, as after a quiet week.
        telegram.confirmed = 0
        telegram.say({**telegram.message("two"), "update_id": 3})
        await until(lambda: len(second.heard) == 1, "the message after a quiet week")
    assert "offset" not in telegram.said("getUpdates")[0]

"""The channel with the real inbox, outbox and delivery behind it: each message answered once, in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection

from gateway.delivery import Delivery
from gateway.progress import OutboxProgress
from gateway.telegram.channel import TelegramChannel
from gateway.telegram.config import TelegramConfig
from identity.access import Access
from nightporter.testing.telegram import ANN, TOKEN, TelegramServer
from nightporter.testing.web import Fault, end, until
from router.inbox import Accepted, Inbox
from workspace_store import inbox, outbox
from workspace_store.database import Database
from workspace_store.outbox import Address


@asynccontextmanager
async def gateway(telegram: TelegramServer, database: Database, lives: Path, claimer: str) -> AsyncIterator[Delivery]:
    """A gateway's Telegram part, with an agent that repeats what it hears."""
    answering: set[asyncio.Task[None]] = set()

    async def answer(accepted: Accepted) -> None:
        def write(connection: Connection) -> None:
            row = inbox.get(connection, accepted.message)
            assert row is not None
            address = Address(row.channel, row.account, row.conversation, row.thread)
            outbox.queue(
                connection, key=f"{row.id.hex}:0", principal=row.principal, turn=None, inbox=row.id, to=address,
                content={"text": f"**you said** {row.dedupe_key}", "reply": {}},
            )  # fmt: skip

        await database.write(write)
        delivery.bell.set()

    def ring(accepted: Accepted) -> None:
        task = asyncio.create_task(answer(accepted))
        answering.add(task)
        task.add_done_callback(answering.discard)

    accept = Inbox(database, Access("open", ()), ring).accept
    channel = TelegramChannel(TelegramConfig(TOKEN, telegram.api_url), accept, OutboxProgress(database, claimer))
    delivery = Delivery(claimer, database, lives, {"telegram": channel})
    await channel.start()
    running = asyncio.create_task(delivery.run())
    try:
        yield delivery
    finally:
        await end(running)
        await asyncio.gather(*answering, return_exceptions=True)
        await delivery.drain(2)
        await channel.close()


async def test_each_message_is_answered_once_through_redelivery_and_restart(
    telegram: TelegramServer, database: Database, tmp_path: Path
) -> None:
    telegram.fail("sendMessage", Fault("rate_limit", seconds=1))
    async with gateway(telegram, database, tmp_path, "gateway-one"):
        telegram.say(*[telegram.message(f"m{number}") for number in range(3)])
        await until(lambda: len(telegram.messages) == 3, "three answers", 20)
    telegram.confirmed = 0
    async with gateway(telegram, database, tmp_path, "gateway-two"):
        telegram.say(telegram.message("m3"))
        await until(lambda: len(telegram.messages) == 4, "the fourth answer", 20)
        await asyncio.sleep(0.3)
    answers = [message["text"] for message in telegram.messages]
    keys = [f"you said telegram:7:5:{update['message']['message_id']}" for update in telegram.updates]
    assert sorted(answers) == sorted(keys)


async def test_a_lost_answer_is_counted_as_possibly_repeated(
    telegram: TelegramServer, sqlite: Database, tmp_path: Path
) -> None:
    telegram.fail("sendMessage", Fault("lose_response"))
    async with gateway(telegram, sqlite, tmp_path, "gateway-one"):
        telegram.say(telegram.message("hello"))
        await until(lambda: len(telegram.messages) == 2, "sent once more", 20)
    counts = await sqlite.read(outbox.counts)
    assert counts["possibly_repeated"] == 1
    assert counts["dead"] == 0


async def test_one_chat_that_must_wait_holds_no_other_up(
    telegram: TelegramServer, sqlite: Database, tmp_path: Path
) -> None:
    slow = Fault("rate_limit", seconds=30, when=lambda call: int(call["chat_id"]) == 5)
    telegram.fail("sendMessage", slow)
    other = {**ANN, "id": 6}
    async with gateway(telegram, sqlite, tmp_path, "gateway-one"):
        telegram.say(telegram.message("a"))
        await until(lambda: telegram.said("sendMessage"), "the first try")
        telegram.say(telegram.message("b", chat={**other, "type": "private"}, **{"from": other}))
        await until(lambda: telegram.messages, "the other chat's answer", 5)
    assert [message["chat"]["id"] for message in telegram.messages] == [6]

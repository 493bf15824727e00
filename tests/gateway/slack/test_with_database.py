"""The channel with the real inbox, outbox and delivery behind it, through crashes of the gateway."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, select

from gateway.delivery import Delivery
from gateway.drafts import Drafts
from gateway.progress import OutboxProgress
from gateway.slack.channel import SlackChannel
from gateway.slack.config import SlackConfig
from gateway.slack.threads import answered_in
from identity.access import Access
from nightporter.testing.slack import BOT_TOKEN, SIGNING_SECRET, SlackServer
from nightporter.testing.web import Fault, end, until
from router.inbox import Accepted, Inbox
from workspace_store import outbox
from workspace_store.database import Database
from workspace_store.liveness import Life
from workspace_store.outbox import Address

CLAIMER = "gateway-one"


class Gateway:
    """A gateway's Slack part. ``answers``: what an agent would queue for each message, here by the test."""

    def __init__(self, slack: SlackServer, database: Database, lives: Path, claimer: str) -> None:
        self.heard: list[Accepted] = []
        self.database = database
        inbox = Inbox(database, Access("open", ()), self.heard.append)
        config = SlackConfig(BOT_TOKEN, "", SIGNING_SECRET, slack.api_url)
        self.channel = SlackChannel(config, inbox.accept, OutboxProgress(database, claimer), answered_in(database))
        self.life: Life | None = None
        channels = {"slack": self.channel}
        drafts = Drafts(claimer, database, lives, channels)
        self.delivery = Delivery(claimer, database, lives, channels, drafts=drafts)

    @classmethod
    def living(cls, slack: SlackServer, database: Database, lives: Path) -> Gateway:
        """One whose lock others can see; the others are dead to them."""
        life = Life(lives, "gateway", "here")
        found = cls(slack, database, lives, life.id)
        found.life = life
        return found

    async def __aenter__(self) -> Gateway:
        await self.channel.start()
        self._task = asyncio.create_task(self.delivery.run())
        return self

    async def __aexit__(self, *exception: object) -> None:
        await end(self._task)
        assert self.delivery.drafts is not None
        await self.delivery.drafts.close()
        await self.delivery.drain(0)
        await self.channel.close()
        if self.life is not None:
            self.life.end()

    async def say(self, to: Accepted, conversation: str, thread: str, text: str) -> None:
        address = Address("slack", "T1", conversation, thread)
        write = partial(
            outbox.queue, key=f"{to.message.hex}:0", principal=to.principal, turn=None, inbox=to.message, to=address,
            content={"text": text, "reply": {}},
        )  # fmt: skip
        await self.database.write(lambda connection: write(connection))
        self.delivery.bell.set()


def replies(connection: Connection) -> list[tuple[str, str | None]]:
    table = outbox.outbox
    rows = connection.execute(select(table.c.status, table.c.external_id).order_by(table.c.number))
    return [(row.status, row.external_id) for row in rows]


async def hear(gateway: Gateway, slack: SlackServer, text: str) -> Accepted:
    await gateway.channel._intake.handle(slack.message(text, channel="C1", ts="5.1"))
    return gateway.heard[-1]


async def test_a_long_reply_is_finished_by_the_next_gateway(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    text = "\n\n".join(f"Part{number} " + "word " * 700 for number in range(4))
    async with Gateway(slack, database, tmp_path, CLAIMER) as first:
        accepted = await hear(first, slack, "<@UAGENT> tell me")
        # The third message goes out, its answer never comes back, and the gateway dies then.
        lost = Fault("lose_response", when=lambda call: "Part2" in call["text"])
        slack.fail("chat.postMessage", lost)
        await first.say(accepted, "C1", "5.1", text)
        await until(lambda: len(slack.messages.get("C1", [])) >= 2, "two messages")
    async with Gateway(slack, database, tmp_path, "gateway-two") as second:
        second.delivery.bell.set()
        await until(lambda: len(slack.messages["C1"]) >= 4, "the rest", 20)
        await asyncio.sleep(0.3)
    shown = [message["text"].split()[0] for message in slack.messages["C1"]]
    assert shown == ["Part0", "Part1", "Part2", "Part3"]
    ((status, ids),) = await database.read(replies)
    assert status == "sent"
    assert ids == " ".join(message["ts"] for message in slack.messages["C1"])


async def test_after_an_answer_the_thread_needs_no_mention_in_any_gateway(
    slack: SlackServer, database: Database, tmp_path: Path
) -> None:
    async with Gateway(slack, database, tmp_path, CLAIMER) as first:
        await first.say(await hear(first, slack, "<@UAGENT> tell me"), "C1", "5.1", "done")
        await until(lambda: slack.messages.get("C1"), "the answer")
    async with Gateway(slack, database, tmp_path, "gateway-two") as second:
        await second.channel._intake.handle(slack.message("and now?", channel="C1", thread_ts="5.1"))
        await second.channel._intake.handle(slack.message("others talk", channel="C1", thread_ts="6.1"))
        assert len(second.heard) == 1

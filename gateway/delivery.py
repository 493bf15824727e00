"""Delivery: replies leave the outbox in order per conversation, each marked ``sending`` before it is sent.

A bell starts a round at once; without bells there is one each second. A crash between sending and recording leaves the
row in ``sending`` under a dead claimer: the next round settles it. What fails for good becomes a dead letter and holds
nothing up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import Connection

from gateway.asking.links import Links
from gateway.channel import Channel, Outcome, Refused, Retry, Sent, Uncertain
from gateway.drafts import Drafts
from identity import codes
from workspace_store import journal, liveness, outbox
from workspace_store.crash_points import Point, reached
from workspace_store.database import Database, DatabaseUnavailable, database_now_us
from workspace_store.journal import Event
from workspace_store.outbox import Reply

log = structlog.get_logger()

POLL_SECONDS = 1.0
MAX_ATTEMPTS = 12
BACKOFF_SECONDS = 1.0
BACKOFF_MOST_SECONDS = 600.0
OUTAGE_MOST_SECONDS = 60.0
"""Between tries while a platform is away: when it is back, nobody waits longer."""
OUTAGE_PATIENCE_US = 3 * 86_400_000_000
RENEW_SECONDS = 20.0


@dataclass
class Delivery:
    """Delivers for the channels of this gateway. ``claimer``: the gateway's id, alive by its lock."""

    claimer: str
    database: Database
    lives: Path
    channels: Mapping[str, Channel]
    instant: frozenset[str] = frozenset()
    """Channels for which sending is nothing but recording: done in the transaction that claims."""
    drafts: Drafts | None = None
    """What is shown of turns that run: its showing ends before the final words are sent."""
    links: Links | None = None
    """What a question's link is made with; None: questions have none."""
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    _news: bool = False
    _closing: bool = False
    _run: asyncio.Task[object] | None = None
    _sending: set[asyncio.Task[None]] = field(default_factory=set)
    _renewed: float = 0.0
    _looked: float = 0.0

    def ring(self) -> None:
        """There is a reply: look at once."""
        self._news = True
        self.bell.set()

    async def run(self) -> None:
        """Deliver until ``drain``."""
        self._run = asyncio.current_task()
        while not self._closing:
            self.bell.clear()
            for reply in await self._claimed():
                task = asyncio.create_task(self._deliver(reply))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            # Not wait_for: in Python 3.11 it forgets that it was cancelled when the bell rings at the same moment.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self.bell.wait()

    async def drain(self, seconds: float) -> None:
        """Claim no more, and let what is being sent finish; what does not is settled by whoever claims it next."""
        self._closing = True
        self.bell.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # A claim that is under way becomes a task first: it must not be left behind as if it had been sent.
                while self._run is not None and not self._run.done():
                    await asyncio.wait({self._run})
                while self._sending:
                    await asyncio.wait(set(self._sending))
        for task in list(self._sending):
            task.cancel()

    async def _claimed(self) -> list[Reply]:
        try:
            await self._renew()
            return await self._claim()
        except DatabaseUnavailable as error:
            log.warning("could not look into the outbox", reason=str(error))
        except Exception:
            log.exception("could not look into the outbox")
        return []

    async def _renew(self) -> None:
        """Keep the claims of what takes long to send: another gateway must not send it as well."""
        now = asyncio.get_running_loop().time()
        if self._sending and now - self._renewed > RENEW_SECONDS:
            await self.database.write(partial(outbox.renew, claimer=self.claimer))
            self._renewed = now

    async def _claim(self) -> list[Reply]:
        news, self._news = self._news, False
        if not news and not await self.database.read(partial(outbox.any_due, channels=list(self.channels))):
            return []
        # Whoever died is looked for now and then, not with each reply that is new.
        now = asyncio.get_running_loop().time()
        look = now - self._looked >= POLL_SECONDS / 2
        claimed = await self.database.write(partial(self._claim_now, look=look))
        self._looked = now if look else self._looked
        if any(reply.channel in self.instant for reply in claimed):
            # What waited behind it in the same conversation is next.
            self.bell.set()
        return [reply for reply in claimed if reply.channel not in self.instant]

    def _claim_now(self, connection: Connection, *, look: bool) -> list[Reply]:
        dead = [
            claimer
            for claimer in (outbox.claimers(connection) if look else ())
            if claimer != self.claimer and liveness.is_dead(self.lives, claimer)
        ]
        claimed = outbox.claim(connection, list(self.channels), self.claimer, dead)
        at_once = [reply for reply in claimed if reply.channel in self.instant]
        outbox.sent_all(connection, [reply.id for reply in at_once], self.claimer)
        journal.append_each(connection, [(reply.principal, _delivered(reply)) for reply in at_once])
        return claimed

    async def _deliver(self, reply: Reply) -> None:
        try:
            if self.drafts is not None:
                reply = await self.drafts.finish(reply)
            if self.links is not None:
                reply = await self.links.added(reply)
            reached(Point.DELIVERY_CLAIMED)
            outcome = await self.channels[reply.channel].send(reply)
        except Exception as error:
            # A channel that knows better says so; an error it did not expect may have come after the platform's yes.
            log.exception("sending failed", channel=reply.channel, reply=str(reply.id))
            outcome = Uncertain(f"{type(error).__name__}: {error}")
        reached(Point.DELIVERY_SENT)
        await self._record(reply, outcome)
        reached(Point.DELIVERY_RECORDED)
        # What waited behind it in the same conversation is next.
        self.bell.set()

    async def _record(self, reply: Reply, outcome: Outcome) -> None:
        while True:
            try:
                await self.database.write(lambda connection: self._settle(connection, reply, outcome))
            except DatabaseUnavailable as error:
                # The row stays ours, in ``sending``: what went out is recorded as soon as the database is back.
                log.warning("could not record a delivery; trying again", reason=str(error))
                await asyncio.sleep(POLL_SECONDS)
            except Exception:
                log.exception("could not record a delivery; trying again", reply=str(reply.id))
                await asyncio.sleep(POLL_SECONDS)
            else:
                return

    def _settle(self, connection: Connection, reply: Reply, outcome: Outcome) -> None:
        if isinstance(outcome, Sent):
            repeated = outcome.repeated
            if outbox.sent(connection, reply.id, self.claimer, outcome.external_id, repeated=repeated):
                if reply.content.get("secret") and reply.channel not in self.instant:
                    # Its reader has the code now; nobody else is to find it here.
                    kept = {"text": codes.masked(str(reply.content["text"])), "reply": {}}
                    outbox.replace_content(connection, reply.id, kept)
                journal.append(connection, reply.principal, [_delivered(reply, repeated=repeated)], under=None)
        elif isinstance(outcome, Refused) or _is_given_up(connection, reply, outcome):
            if outbox.bury(connection, reply.id, self.claimer, outcome.reason):
                body = {"reply": reply.id.hex, "channel": reply.channel, "reason": outcome.reason}
                journal.append(connection, reply.principal, [Event("reply.failed", body)], under=None)
        else:
            # ``sending`` under no claim, where this attempt or an earlier one may have gone out: the next one knows.
            uncertain = isinstance(outcome, Uncertain) or reply.was_sending
            put_back = outbox.leave_uncertain if uncertain else outbox.retry
            put_back(connection, reply.id, self.claimer, outcome.reason, _next_at(connection, reply, outcome))


def _delivered(reply: Reply, *, repeated: bool = False) -> Event:
    body = {"reply": reply.id.hex, "channel": reply.channel, "possibly_repeated": repeated}
    return Event("reply.delivered", body)


def _is_given_up(connection: Connection, reply: Reply, outcome: Retry | Uncertain) -> bool:
    """Tries are bounded by their number; while nobody can be told anything, by days."""
    if reply.attempts + 1 < MAX_ATTEMPTS:
        return False
    return not outcome.outage or database_now_us(connection) - reply.queued_at > OUTAGE_PATIENCE_US


def _next_at(connection: Connection, reply: Reply, outcome: Retry | Uncertain) -> int:
    seconds = outcome.seconds if isinstance(outcome, Retry) else None
    if seconds is None:
        most = OUTAGE_MOST_SECONDS if outcome.outage else BACKOFF_MOST_SECONDS
        # The exponent is bounded too: in an outage there are hundreds of tries.
        seconds = min(BACKOFF_SECONDS * 2 ** min(reply.attempts, 20), most) * (0.5 + random.random() / 2)
    return database_now_us(connection) + int(seconds * 1e6)

"""Fetches mail from a mailbox, one gateway at a time: recorded first, marked as read after, fetched once.

Goes by the mailbox's own numbers, not by what is unread: a mail that a person has looked at is fetched like any other.
One that cannot be judged now is tried again without holding up the next, and one that cannot be read at all is kept
aside.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NoReturn, TypeVar

import structlog

from gateway.email import texts
from gateway.email.imap.session import IDLE_SECONDS, Account, Failure, Listed, NoFolder, Session
from gateway.email.smtp_server import Accepted, ReceivedMail, TryLater, Verdict
from gateway.email.threads import Threads
from gateway.reading import Reading
from workspace_store import mailboxes
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.mailboxes import Place

log = structlog.get_logger()

T = TypeVar("T")

SLICE_SECONDS = 10.0
"""How long a thread waits at a time."""
POLL_SECONDS = 30.0
"""For a server that cannot IDLE."""
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0
PUT_OFF_SECONDS = 60.0
SHORT_SECONDS = 1.0


@dataclass
class Puller:
    """``accept`` is the channel's; ``aside`` keeps what cannot be recorded. ``wrong``: why no mail comes."""

    account: Account
    accept: Callable[[ReceivedMail], Awaitable[Verdict]]
    aside: Callable[[bytes, str], Awaitable[None]]
    database: Database
    reading: Reading
    max_bytes: int
    fresh: timedelta
    wrong: str = ""
    idle_seconds: float = IDLE_SECONDS
    _session: Session | None = None
    _done: set[int] = field(default_factory=set)
    """What was dealt with above the place, while something before it is put off."""
    _put_off: dict[int, float] = field(default_factory=dict)
    _threads: Threads = field(default_factory=lambda: Threads(1, "imap"))
    _retry_seconds: float = FIRST_RETRY_SECONDS

    async def run(self) -> None:
        """Fetch until cancelled, while it is this gateway that reads."""
        try:
            await self.reading.while_ours(f"imap:{self.account.name}", self._fetch)
        finally:
            self._threads.close()

    async def _fetch(self) -> None:
        while True:
            self.wrong = await self._until_it_fails()
            if self.wrong:
                log.warning("no mail is fetched", reason=self.wrong)
            await asyncio.sleep(self._retry_seconds * (0.5 + random.random() / 2))
            self._retry_seconds = min(self._retry_seconds * 2, LONGEST_RETRY_SECONDS)

    async def _until_it_fails(self) -> str:
        """Why the mailbox cannot be read any more; empty where it is the database, of which others speak."""
        try:
            await self._read_mailbox()
        except DatabaseUnavailable as error:
            log.warning("mail is not fetched while the database is away", reason=str(error))
        except NoFolder as error:
            return texts.NO_FOLDER.format(mailbox=self.account.name, reason=error)
        except Failure as error:
            return texts.NO_MAILBOX.format(mailbox=self.account.name, reason=_words(error))
        finally:
            self._hang_up()
        return ""

    async def _read_mailbox(self) -> NoReturn:
        place = await self.database.read(partial(mailboxes.place_in, name=self.account.name))
        self._session = session = await self._in_thread(partial(Session, self.account))
        self.wrong, self._retry_seconds = "", FIRST_RETRY_SECONDS
        self._done, self._put_off = set(), {}
        place, uids = await self._begin(session, place)
        while True:
            for uid in uids:
                if uid not in self._done and self._put_off.get(uid, 0.0) <= asyncio.get_running_loop().time():
                    await self._take(session, uid)
                    place = await self._advance(place)
            place = await self._settle(place, uids)
            await self._wait(session)
            uids = await self._in_thread(partial(session.after, place.uid))

    async def _begin(self, session: Session, place: Place) -> tuple[Place, list[int]]:
        """Where to go on, and what to look at first.

        At the very first time: what is unread and fresh; the past of a mailbox is nobody's question. When the server
        has numbered its mails anew: all that is fresh; the inbox knows what it has.
        """
        if place.uid_validity == session.uid_validity:
            return place, await self._in_thread(partial(session.after, place.uid))
        look = session.unread_of_late if place.uid_validity is None else session.of_late
        uids = await self._in_thread(partial(look, self.fresh))
        before = min([*uids, session.uid_next]) - 1
        self._done = set(range(before + 1, session.uid_next)) - set(uids)
        return await self._record(Place(session.uid_validity, -1), before), uids

    async def _take(self, session: Session, uid: int) -> None:
        """Record one mail; ``_done`` or ``_put_off`` says after what became of it."""
        self._put_off.pop(uid, None)
        listed = await self._in_thread(partial(session.listed, uid))
        if listed is not None and listed.size > self.max_bytes:
            log.warning("a mail is too large to be fetched", uid=uid, bytes=listed.size)
            listed = None
        raw = await self._in_thread(partial(session.mail, uid)) if listed is not None else None
        if listed is None or raw is None:
            self._done.add(uid)
            return
        try:
            verdict = await self.accept(self._received(raw, listed))
        except Exception as error:
            # Whatever it is in this mail that nothing was prepared for: the next one does not wait for it.
            await self.aside(raw, f"{type(error).__name__}: {error}")
            self._done.add(uid)
            return
        if isinstance(verdict, TryLater):
            if verdict.code != texts.NOT_PROVEN_YET:
                raise DatabaseUnavailable(verdict.reason or texts.TRY_LATER)
            if listed.at is None or datetime.now(UTC) - listed.at < self.fresh:
                self._put_off[uid] = asyncio.get_running_loop().time() + PUT_OFF_SECONDS
                return
            log.warning("a mail was given up: its sender could not be checked in time", uid=uid)
        self._done.add(uid)
        if isinstance(verdict, Accepted):
            await self._in_thread(partial(session.seen, uid))

    @staticmethod
    def _received(raw: bytes, listed: Listed) -> ReceivedMail:
        return ReceivedMail(
            raw=raw,
            envelope_from=None,
            recipients=(),
            peer="",
            helo="",
            authenticated=False,
            encrypted=True,
            protocol="imap",
            received_at=listed.at,
        )

    async def _advance(self, place: Place) -> Place:
        """Move on over all that is dealt with, without a gap."""
        reached = place.uid
        while reached + 1 in self._done:
            reached += 1
            self._done.discard(reached)
        return await self._record(place, reached)

    async def _settle(self, place: Place, uids: list[int]) -> Place:
        """After a round: numbers that no mail has any more are dealt with too."""
        left = [uid for uid in uids if uid > place.uid and uid not in self._done]
        reached = max([place.uid, *(uid for uid in self._done)]) if not left else min(left) - 1
        self._done = {uid for uid in self._done if uid > reached}
        return await self._record(place, max(reached, place.uid))

    async def _record(self, place: Place, uid: int) -> Place:
        moved = Place(place.uid_validity, uid)
        if moved != place:
            await self.database.write(partial(mailboxes.move, name=self.account.name, place=moved))
        return moved

    async def _wait(self, session: Session) -> None:
        """Until there may be something new, or something put off is due."""
        loop = asyncio.get_running_loop()
        ends = min([loop.time() + self.idle_seconds, *self._put_off.values()])
        if not session.can_idle:
            await asyncio.sleep(min(POLL_SECONDS, max(ends - loop.time(), 0.0)))
            await self._in_thread(session.still_there)
            return
        if ends - loop.time() < SHORT_SECONDS:  # not worth an IDLE, whose end some servers miss right after its start
            await asyncio.sleep(max(ends - loop.time(), 0.0))
            return
        if session.told_of_more():
            return
        await self._in_thread(session.idle)
        while (left := ends - loop.time()) > 0:
            began = loop.time()
            if await self._in_thread(partial(session.wait, min(left, SLICE_SECONDS))):
                break
            if loop.time() - began < 0.1:
                await asyncio.sleep(0.1)  # something came that is no line yet
        await self._in_thread(session.idle_end)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._threads.run(call)

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _words(error: BaseException) -> str:
    text = error if isinstance(error, OSError) or not error.args else error.args[0]
    return (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) or type(error).__name__

"""Drafts: what is shown of a turn while it runs, where it lasts: an answer that grows, or what runs now.

The news come best effort; a draft is the turn's outbox row from before its first post, so that a crash anywhere leaves
one final message. One gateway shows a draft, and its last showing has ended before the final words are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import structlog
from sqlalchemy import Connection

from gateway import texts
from router.envelope import Envelope
from sandbox_runner.assignments import HEARTBEAT
from workspace_store import drafts, liveness
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.inbox import Row
from workspace_store.outbox import Reply

log = structlog.get_logger()

DOING_SECONDS = 3.0
"""A command that ends sooner is not worth a message that says it runs."""
ANSWERING_SECONDS = 0.7
SHOW_SECONDS = 8.0
"""What one showing may take at most; less than the final words are reserved for this gateway."""
AGAIN_SECONDS = 5.0
FADING_SECONDS = 20.0
"""Telegram's drafts fade after 30 s: what has not changed is shown again before."""
QUIET_SECONDS = 600.0
"""Without news for so long, a draft stays as it is: whoever ran the turn is gone."""
OUTPUT_CHARACTERS = 4000
MOST = 4000


@dataclass(frozen=True)
class Showing:
    """What to show: markdown. ``grows``: it is an answer, and only ever gets longer."""

    text: str
    grows: bool


@dataclass(frozen=True)
class Shown:
    """``external_id``: the platform's id of the draft, empty where it has none. ``wait``: seconds it asks for."""

    external_id: str
    wait: float = 0.0


class NotShown(Exception):
    """This draft cannot be shown here, now or later."""


class NotNow(Exception):
    """It could not be shown now; the first post of a draft may have gone out."""


class Drafting(Protocol):
    """A channel that can show drafts. ``pace``: the least seconds between two showings of one."""

    pace: float

    async def show(self, draft: Reply, known: str | None, showing: Showing) -> Shown:
        """Post a draft (``known`` is None) or change it. Raises NotShown, NotNow.

        ``draft.was_sending``: it may have been posted before by a gateway that died.
        """
        ...


@dataclass
class _Turn:
    """A turn that runs, by its news."""

    id: UUID
    message: UUID
    doing: str = ""
    since: float = 0.0
    answer: str = ""
    answering_since: float = 0.0
    output: str = ""
    news_at: float = 0.0
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    draft: Reply | None = None
    external_id: str | None = None
    rest_until: float = 0.0

    def showing(self, now: float) -> Showing | None:
        """What is worth showing at ``now``."""
        if self.doing and (self.draft or now - self.since >= DOING_SECONDS):
            running = texts.running(self.doing, now - self.since, self.output)
            return Showing("\n\n".join(filter(None, (self.answer, running))), grows=False)
        if self.answer and now - self.answering_since >= ANSWERING_SECONDS:
            return Showing(self.answer, grows=True)
        return Showing(texts.WORKING, grows=False) if self.draft else None

    def due(self, now: float) -> float | None:
        """Seconds until something is worth showing; None: not without more news."""
        waits = [self.since + DOING_SECONDS - now] if self.doing else []
        waits += [self.answering_since + ANSWERING_SECONDS - now] if self.answer else []
        return max(0.0, min(waits)) if waits else None


@dataclass
class Drafts:
    """Shows drafts on the ``channels`` that can. ``claimer``: the gateway's id, alive by its lock."""

    claimer: str
    database: Database
    lives: Path
    channels: Mapping[str, object]
    _turns: OrderedDict[UUID, _Turn] = field(default_factory=OrderedDict)

    def hear(self, told: Mapping[str, Any]) -> None:
        """A piece of news, of whatever kind."""
        progress = told.get("progress")
        try:
            if isinstance(progress, dict):
                self._progress(progress)
            elif "output" in told and (turn := self._turns.get(UUID(str(told.get("turn"))))):
                turn.output = (turn.output + str(told["output"]))[-OUTPUT_CHARACTERS:]
                self._wake(turn)
            elif told.get("bell") == "outbox" and told.get("turn"):
                self._end(UUID(str(told["turn"])))
        except (KeyError, ValueError) as error:
            log.debug("news that are none of ours", reason=str(error))

    async def finish(self, reply: Reply) -> Reply:
        """A reply whose draft is not shown any more: its last showing has ended, and its id is in the reply."""
        if drafts.draft_of(reply.content) is None or reply.turn is None:
            return reply
        turn = self._turns.get(reply.turn)
        if turn is None:
            return reply
        self._end(turn.id)
        if turn.task is not None:
            await asyncio.wait({turn.task}, timeout=SHOW_SECONDS)
        self._turns.pop(turn.id, None)
        if turn.external_id:
            return replace(reply, content={**reply.content, "draft": turn.external_id})
        return reply

    async def close(self) -> None:
        """Show nothing more; what is shown stays, and whoever sends the final words finds it in its row."""
        tasks = [turn.task for turn in self._turns.values() if turn.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # News

    def _progress(self, progress: Mapping[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        identifier = UUID(str(progress["turn"]))
        turn = self._turns.get(identifier)
        if turn is None:
            turn = self._turns[identifier] = _Turn(identifier, UUID(str(progress["message"])))
            self._forget()
        if "doing" in progress:
            turn.doing, turn.since, turn.output = str(progress["doing"]), now, ""
        if "text" in progress:
            turn.answering_since = turn.answering_since if turn.answer else now
            turn.answer = str(progress["text"])
        turn.ended = False
        self._wake(turn)

    def _wake(self, turn: _Turn) -> None:
        now = asyncio.get_running_loop().time()
        turn.news_at = now
        turn.changed.set()
        idle = turn.task is None or turn.task.done()
        if idle and now >= turn.rest_until and (turn.doing or turn.answer):
            turn.task = asyncio.create_task(self._follow(turn))

    def _end(self, identifier: UUID) -> None:
        turn = self._turns.get(identifier)
        if turn is None:
            return
        turn.ended = True
        turn.changed.set()
        if turn.draft is None and (turn.task is None or turn.task.done()):
            del self._turns[identifier]

    def _forget(self) -> None:
        """Bounded memory: the oldest whose news have ended goes first."""
        while len(self._turns) > MOST:
            _, oldest = self._turns.popitem(last=False)
            if oldest.task is not None:
                oldest.task.cancel()

    # Showing

    async def _follow(self, turn: _Turn) -> None:
        try:
            await self._show_until_it_ends(turn)
        except NotShown as error:
            log.debug("no draft", reason=str(error))
            turn.rest_until = float("inf")
        except DatabaseUnavailable as error:
            log.debug("no draft without the database", reason=str(error))
            self._rest(turn)
        except Exception:
            # A kindness: the answer itself does not depend on it.
            log.exception("a draft could not be shown", turn=str(turn.id))
            turn.rest_until = float("inf")
        finally:
            if turn.ended and turn.draft is None:
                self._turns.pop(turn.id, None)

    async def _show_until_it_ends(self, turn: _Turn) -> None:
        clock = asyncio.get_running_loop().time
        last: Showing | None = None
        shown_at = 0.0
        while not turn.ended and clock() - turn.news_at < QUIET_SECONDS:
            turn.changed.clear()
            showing = turn.showing(clock())
            if showing is None:
                await _changed(turn, turn.due(clock()))
                continue
            if showing == last and clock() - shown_at < FADING_SECONDS:
                await _changed(turn, AGAIN_SECONDS)
                continue
            if turn.draft is None:
                turn.draft = await self._begin(turn)
                if turn.draft is None:
                    self._rest(turn)
                    return
            elif not await self.database.read(partial(drafts.still, reply=turn.draft.id, claimer=self.claimer)):
                return
            channel: Any = self.channels[turn.draft.channel]
            wait = await self._show(turn, turn.draft, channel, showing)
            last, shown_at = showing, clock()
            await _pause(turn, max(wait, channel.pace))

    async def _show(self, turn: _Turn, draft: Reply, channel: Drafting, showing: Showing) -> float:
        try:
            async with asyncio.timeout(SHOW_SECONDS):
                shown = await channel.show(draft, turn.external_id, showing)
        except (TimeoutError, NotNow) as error:
            log.debug("a draft was not shown", reason=str(error))
            turn.draft = replace(draft, was_sending=turn.external_id is None)
            return AGAIN_SECONDS
        if turn.external_id is None and shown.external_id:
            turn.external_id = shown.external_id
            given = partial(drafts.posted, reply=draft.id, claimer=self.claimer, external_id=shown.external_id)
            await self.database.write(given)
        return shown.wait

    async def _begin(self, turn: _Turn) -> Reply | None:
        def transaction(connection: Connection) -> tuple[Reply, str | None] | None:
            is_dead = partial(liveness.is_dead, self.lives)
            return drafts.begin(connection, turn.id, turn.message, self.claimer, is_dead, self._content)

        draft, turn.external_id = await self.database.write(transaction) or (None, None)
        return draft

    def _content(self, row: Row) -> Mapping[str, Any] | None:
        """None where nothing is shown: on channels without drafts, and of what only its asker may see."""
        if not hasattr(self.channels.get(row.channel), "show"):
            return None
        reply = dict(Envelope.from_json(row.envelope).reply)
        # A heartbeat may have nothing to say in the end.
        return None if reply.get("private") or row.kind == HEARTBEAT else {"text": "", "reply": reply}

    @staticmethod
    def _rest(turn: _Turn) -> None:
        turn.rest_until = asyncio.get_running_loop().time() + AGAIN_SECONDS


async def _changed(turn: _Turn, seconds: float | None) -> None:
    """Until there is news of a turn, or so many seconds have passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AGAIN_SECONDS if seconds is None else seconds):
            await turn.changed.wait()


async def _pause(turn: _Turn, seconds: float) -> None:
    """So many seconds, or until the turn has ended."""
    ends = asyncio.get_running_loop().time() + seconds
    while not turn.ended and (left := ends - asyncio.get_running_loop().time()) > 0:
        turn.changed.clear()
        await _changed(turn, left)

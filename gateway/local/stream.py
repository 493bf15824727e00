"""The event stream: a principal's journal as server-sent events, resumed by ``Last-Event-ID``.

Journal events have the id ``principal:seq``; live output of a running command comes between them as ``progress``
without an id: it is news, not a record. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from workspace_store import inbox, journal
from workspace_store.database import Database, DatabaseUnavailable

POLL_SECONDS = 1.0
KEEPALIVE_SECONDS = 15.0
BATCH = 200
BACKLOG = 1000
NAMES = 4096


class Names:
    """What their senders call messages, by id; the newest are kept. For any thread."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def keep(self, message: str, name: str | None) -> None:
        with self._lock:
            self._known[message] = name
            if len(self._known) > NAMES:
                del self._known[next(iter(self._known))]

    def of(self, connection: Connection, message: str) -> str | None:
        """None: it came by another channel, whose names mean nothing here."""
        with self._lock:
            if message in self._known:
                return self._known[message]
        row = inbox.get(connection, UUID(message))
        name = row.dedupe_key.rpartition("/")[2] if row and row.channel == "local" else None
        self.keep(message, name)
        return name


class Listeners:
    """Who is to be told of a principal's news."""

    def __init__(self) -> None:
        self.names = Names()
        self._queues: dict[UUID, set[asyncio.Queue[dict[str, Any]]]] = defaultdict(set)

    def add(self, principal: UUID) -> asyncio.Queue[dict[str, Any]]:
        news: asyncio.Queue[dict[str, Any]] = asyncio.Queue(BACKLOG)
        self._queues[principal].add(news)
        return news

    def remove(self, principal: UUID, news: asyncio.Queue[dict[str, Any]]) -> None:
        self._queues[principal].discard(news)
        if not self._queues[principal]:
            del self._queues[principal]

    def tell(self, principal: UUID, news: dict[str, Any]) -> None:
        """Tell those who listen; a listener that does not keep up misses news, never journal events."""
        for waiting in self._queues.get(principal, ()):
            if not waiting.full():
                waiting.put_nowait(news)


async def stream(database: Database, listeners: Listeners, principal: UUID, after: int) -> AsyncIterator[str]:
    """Server-sent events of a principal's journal after ``after``, then as they come, until the client leaves."""
    news = listeners.add(principal)
    quiet = 0.0
    try:
        yield "retry: 500\n\n"
        while True:
            events = await _read(database, listeners.names, principal, after)
            for event, body in events:
                after = event.seq
                yield _frame(event.kind, {**body, "seq": event.seq, "at": event.at / 1e6}, f"{principal}:{event.seq}")
            quiet = 0.0 if events else quiet
            if len(events) == BATCH:
                continue
            progress = await _next_news(news)
            if progress is None:
                quiet += POLL_SECONDS
            elif "output" in progress:
                yield _frame("progress", {"text": progress["output"], "turn": progress["turn"]}, None)
                continue
            if quiet >= KEEPALIVE_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
    finally:
        listeners.remove(principal, news)


async def _read(
    database: Database, names: Names, principal: UUID, after: int
) -> list[tuple[journal.Recorded, dict[str, Any]]]:
    """The next events and what is told of each; none while the database is away: the stream goes on after it."""

    def query(connection: Connection) -> list[tuple[journal.Recorded, dict[str, Any]]]:
        events = journal.read(connection, principal, after=after, limit=BATCH)
        return [(event, _named(connection, names, event.body or {})) for event in events]

    try:
        return await database.read(query, single=True)
    except DatabaseUnavailable:
        return []


async def _next_news(news: asyncio.Queue[dict[str, Any]]) -> dict[str, Any] | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            return await news.get()
    return None


def _named(connection: Connection, names: Names, body: dict[str, Any]) -> dict[str, Any]:
    """Add the sender's own ``message_id`` to an event that is about a message."""
    identifier = body.get("message")
    if not isinstance(identifier, str):
        return body
    return {**body, "message_id": names.of(connection, identifier)}


def _frame(kind: str, body: dict[str, Any], identifier: str | None) -> str:
    head = f"id: {identifier}\n" if identifier else ""
    return f"{head}event: {kind}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n"

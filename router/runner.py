"""Serving a principal: take its lease or leave, drain its inbox in order one turn at a time, release.

What ended in mid-turn is told from the row that is still ``running`` when a dead owner's lease is taken over: a crash
is counted against it, and a message that ends its runner three times when it runs alone is set aside.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import Connection

from router.envelope import Envelope
from sandbox_runner import texts
from sandbox_runner.turn import TurnRunner
from workspace_store import inbox, journal, liveness, outbox, principal
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.principal import Lease, Owner, StaleLease

log = structlog.get_logger()

SUSPECT_CRASHES = 2
POISON_CRASHES = 3
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


class AloneGate:
    """Turns run side by side; a suspect runs when nothing else does."""

    def __init__(self) -> None:
        self._others = 0
        self._changed = asyncio.Condition()
        self._closed = False

    @contextlib.asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._closed)
            if alone:
                self._closed = True
                await self._changed.wait_for(lambda: self._others == 0)
            else:
                self._others += 1
        try:
            yield
        finally:
            async with self._changed:
                if alone:
                    self._closed = False
                else:
                    self._others -= 1
                self._changed.notify_all()


@dataclass
class Runner:
    """Serves principals in one process. ``id`` names its lock file: what makes it alive to others."""

    id: str
    database: Database
    lives: Path
    turns: TurnRunner
    publish: Callable[[UUID, dict[str, str]], None]
    shared_home: bool = True
    gate: AloneGate = field(default_factory=AloneGate)
    held: set[UUID] = field(default_factory=set)
    """Principals whose lease is in hand."""

    async def serve(self, owner: UUID) -> None:
        """Drain a principal's inbox; returns at once where it is being drained, here or by another runner."""
        if owner in self.held:
            return
        for pause in (*RETRY_SECONDS, None):
            try:
                lease = await self._take(owner)
                if lease is not None:
                    await self._drain(lease)
                return
            except StaleLease as error:
                log.warning("lease lost", reason=str(error))
                return
            except DatabaseUnavailable as error:
                log.warning("the database is not there", principal=str(owner), reason=str(error))
                if pause is None:
                    return
                await asyncio.sleep(pause)

    async def _take(self, owner: UUID) -> Lease | None:
        def transaction(connection: Connection) -> Lease | None:
            seen = principal.look(connection, owner)
            if seen is None or not self._may_take(owner, seen):
                return None
            lease = principal.take(connection, owner, self.id, seen)
            if lease is not None and seen.owner not in (None, self.id):
                inbox.count_crash(connection, owner)
            return lease

        return await self.database.write(transaction)

    def _may_take(self, owner: UUID, seen: Owner) -> bool:
        if seen.owner is None:
            return True
        if seen.owner == self.id:
            # Our own lease and not in hand: the turn that held it ended without giving it back.
            return owner not in self.held
        if self.shared_home:
            return liveness.is_dead(self.lives, seen.owner)
        return seen.expired

    async def _drain(self, lease: Lease) -> None:
        self.held.add(lease.principal)
        try:
            while not await self._serve_next(lease):
                pass
        except asyncio.CancelledError:
            with contextlib.suppress(DatabaseUnavailable):
                await asyncio.shield(self.database.write(lambda connection: principal.abandon(connection, lease)))
            raise
        finally:
            self.held.discard(lease.principal)

    async def _serve_next(self, lease: Lease) -> bool:
        """One turn; True: the inbox is drained and the lease given back."""
        row = await self.database.read(lambda connection: inbox.next_open(connection, lease.principal))
        if row is None:
            return await self.database.write(lambda connection: principal.release(connection, lease))
        if row.crashes_alone >= POISON_CRASHES:
            await self._finish_without_turn(lease, row, "set_aside", texts.set_aside(row.crashes_alone))
            return False
        if row.status == "pending" and await self._stopped(row):
            await self._finish_without_turn(lease, row, "done", texts.STOPPED_BEFORE)
            return False
        suspect = row.crashes >= SUSPECT_CRASHES
        async with self.gate.enter(alone=suspect):
            return await self.turns.run(lease, row, alone=suspect)

    async def _stopped(self, row: Row) -> bool:
        stop = await self.database.read(lambda connection: principal.stop_seq(connection, row.principal))
        return stop >= row.seq

    async def _finish_without_turn(self, lease: Lease, row: Row, status: inbox.Status, text: str) -> None:
        """Give a message its final status and its sender a word about it."""
        kind = "message.set_aside" if status == "set_aside" else "reply.queued"
        event = Event(kind, {"message": row.id.hex, "text": text})

        def transaction(connection: Connection) -> None:
            journal.append(connection, lease.principal, [event], under=lease)
            taken = [row.id]
            if row.turn is not None:
                taken = [found.id for found in inbox.taken_by(connection, row.turn)] or taken
            inbox.finish(connection, taken, status)
            principal.drained(connection, lease.principal, len(taken))
            outbox.queue(
                connection,
                key=f"{row.id.hex}:0",
                principal=lease.principal,
                turn=None,
                inbox=row.id,
                to=Address(row.channel, row.account, row.conversation, row.thread),
                content={"text": text, "reply": _reply_of(row)},
            )

        await self.database.write(transaction)
        self.publish(lease.principal, {"bell": "outbox"})


def _reply_of(row: Row) -> dict[str, object]:
    return dict(Envelope.from_json(row.envelope).reply)

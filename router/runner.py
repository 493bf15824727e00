"""Serving a principal: take its lease or leave, drain its inbox in order one turn at a time, release.

What ended in mid-turn is told from the row that is still ``running`` when a dead owner's lease is taken over: a crash
is counted against it, and a message that ends its runner three times when it runs alone is set aside.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import Connection

from identity import users
from router.bells import let_ring
from router.envelope import Envelope
from sandbox_runner import exporting, own_calls, restoring, rewind, texts
from sandbox_runner.exporting import Exporter
from sandbox_runner.restoring import Problem
from sandbox_runner.rewind import Rewinder
from sandbox_runner.sandboxes import ManagerAway
from sandbox_runner.turn import TurnRunner
from sandbox_runner.turn_in_hand import Begun
from workspace_store import bursts, drafts, inbox, inbox_counts, journal, liveness, outbox, principal, wholeness
from workspace_store.database import Database, DatabaseUnavailable, database_now_us
from workspace_store.formats import FORMAT
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.principal import Head, Lease, Owner, StaleLease
from workspace_store.tenancy import StaleTenancy

log = structlog.get_logger()

SUSPECT_CRASHES = 2
POISON_CRASHES = 3
# What keeps a turn from going on and is none of its own doing: nothing is lost, and nothing counted against it.
NOT_NOW = (DatabaseUnavailable, ManagerAway, StaleTenancy)
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
RING_AGAIN_SECONDS = 1.0


class AloneGate:
    """Turns run side by side; a suspect runs when nothing else does."""

    def __init__(self) -> None:
        self._others = 0
        self._changed = asyncio.Condition()
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether whoever comes now need not wait."""
        return not self._closed

    @contextlib.asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._closed)
            self._closed = alone
            self._others += not alone
        try:
            if alone:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._others == 0)
            yield
        finally:
            async with self._changed:
                self._closed = self._closed and not alone
                self._others -= not alone
                self._changed.notify_all()


@dataclass(frozen=True)
class Next:
    """The oldest open message, if any, and why it must not begin: /stop was said after it, or its sender is blocked.

    ``rewinds``: it goes back or forth in time, or exports, instead of a turn. ``begun``: its turn has begun already.
    ``settled_in``: with none, in how many seconds what still settles is to be served.
    """

    row: Row | None
    stopped: bool = False
    unheard: bool = False
    rewinds: bool = False
    settled_in: float | None = None
    begun: Begun | None = None
    problem: Problem | None = None
    """Why nothing may be done for it: what it would go on from is not whole."""


def _next(connection: Connection, owner: UUID) -> Next:
    found = inbox.upcoming(connection, owner)
    if found is None:
        return Next(None, settled_in=_settled_in(connection, owner))
    row = found.row
    rewinds = exporting.is_for(row) or rewind.is_for(connection, row)
    if row.status != "pending":
        return Next(row, rewinds=rewinds)
    # In a room, who speaks is not whose lease this is: their words may have waited since before they were blocked.
    unheard = row.actor not in (None, owner) and users.is_blocked(connection, row.actor)
    return Next(row, found.stopped, unheard, rewinds)


def _settled_in(connection: Connection, owner: UUID) -> float | None:
    """By the database's clock, which intake settled it by."""
    at = inbox.settled_at(connection, owner)
    return None if at is None else max(0.0, (at - database_now_us(connection)) / 1e6)


class OfNewerRelease(Exception):
    """A principal's records are of a newer release: they are not touched here."""

    def __init__(self, form: int) -> None:
        super().__init__(
            f"what is recorded is in form {form} of a newer release, and this one reads up to {FORMAT}: its messages "
            "wait for a host of that release; upgrade this one"
        )


@dataclass
class Runner:
    """Serves principals in one process. ``id`` names its lock file: what makes it alive to others."""

    id: str
    database: Database
    lives: Path
    turns: TurnRunner
    publish: Callable[[UUID, dict[str, str]], None]
    again: Callable[[UUID], bool] = lambda _: False
    """Serve a principal in this process once more, if there is room; otherwise a sweeper finds it."""
    hand_over: Callable[[UUID], None] = lambda _: None
    """Ring for whom another runner is to serve."""
    leaving: bool = False
    """Turns that have begun are ended; what comes after them is another runner's."""
    gate: AloneGate = field(default_factory=AloneGate)
    held: set[UUID] = field(default_factory=set)
    """Principals whose lease is in hand."""
    looked_into: set[UUID] = field(default_factory=set)
    """Principals whose records this process found whole when it met them first."""
    left: set[UUID] = field(default_factory=set)
    """Principals whose records this release cannot read."""
    rung_again: set[UUID] = field(default_factory=set)
    """Those of them for whom a bell rang meanwhile."""
    _served_at: float = 0.0

    def busy_at(self) -> float:
        """When somebody was served last, by the loop's time: now, while anybody is."""
        return asyncio.get_running_loop().time() if self.held else self._served_at

    async def serve(self, owner: UUID) -> None:
        """Drain a principal's inbox; returns at once where it is being drained, here or by another runner."""
        if owner in self.held:
            # The lease may have been given back already, with this message behind it: look again at the end.
            self.rung_again.add(owner)
            return
        # From before the lease is asked for: a second bell at the same moment would take it over from the first.
        self.held.add(owner)
        try:
            await self._serve(owner)
            while owner in self.rung_again and not self.leaving:
                self.rung_again.discard(owner)
                await self._serve(owner)
        except StaleLease as error:
            log.warning("lease lost", reason=str(error))
        finally:
            self.held.discard(owner)
            self.rung_again.discard(owner)
            self._served_at = asyncio.get_running_loop().time()

    async def _serve(self, owner: UUID) -> None:
        for pause in (*RETRY_SECONDS, None):
            try:
                taken = await self._take(owner)
                if taken is not None:
                    await self._drain(*taken)
                return
            except OfNewerRelease as error:
                self._leave_to_newer(owner, error)
                return
            except NOT_NOW as error:
                log.warning("not now; trying again", principal=str(owner), reason=str(error))
                if pause is None:
                    return
                await asyncio.sleep(pause)

    def _leave_to_newer(self, owner: UUID, error: OfNewerRelease) -> None:
        """Ring again after a while, for whoever reads what is recorded; nothing of the message is touched."""
        if owner not in self.left:
            self.left.add(owner)
            log.warning("left to a newer release", principal=str(owner), reason=str(error))
        asyncio.get_running_loop().call_later(RING_AGAIN_SECONDS, self.hand_over, owner)

    async def _take(self, owner: UUID) -> tuple[Lease, Next] | None:
        def transaction(connection: Connection) -> tuple[Lease, Next] | None:
            if owner in self.looked_into and (free := principal.take_free(connection, owner, self.id)):
                return free[0], self._next(connection, *free)
            seen = self._look(connection, owner)
            if seen is None or not self._may_take(seen):
                return None
            if not seen.is_readable:
                raise OfNewerRelease(seen.format)
            lease = principal.take(connection, owner, self.id, seen)
            if lease is None:
                return None
            if seen.owner is not None and seen.owner.startswith("runner-") and seen.owner != self.id:
                inbox.count_crash(connection, owner)
            return lease, self._next(connection, lease)

        # What the turn does outside follows a request that it records.
        return await self.database.write(transaction, followed=True)

    def _next(self, connection: Connection, lease: Lease, head: Head | None = None) -> Next:
        """What is next; where nothing keeps its turn from beginning, it begins in the same transaction.

        ``head``: the journal's, where this transaction has taken the lease.
        """
        upcoming = _next(connection, lease.principal)
        row = upcoming.row
        if row is not None and (problem := self._problem(connection, row)):
            return replace(upcoming, problem=problem)
        held_up = upcoming.stopped or upcoming.unheard or upcoming.rewinds
        if row is None or held_up or row.crashes >= SUSPECT_CRASHES or row.crashes_alone or not self.gate.is_open:
            return upcoming
        return replace(upcoming, begun=self.turns.begin(connection, lease, row, alone=False, locked=head))

    def _look(self, connection: Connection, owner: UUID) -> Owner | None:
        """Who owns the lease; with the same statement, of a person it meets first, whether their records are whole."""
        if owner in self.looked_into:
            return principal.look(connection, owner)
        found = wholeness.look(connection, owner)
        if found is not None and found[1]:
            self.looked_into.add(owner)
        return found[0] if found is not None else None

    def _problem(self, connection: Connection, row: Row) -> Problem | None:
        """Looked for where a turn was cut off, and where the records were not found whole."""
        if row.turn is None and row.principal in self.looked_into:
            return None
        return restoring.refusal(connection, row)

    def _may_take(self, seen: Owner) -> bool:
        if seen.owner is None or seen.owner == self.id:
            # Our own: the turn that held it ended without giving it back, for nothing else here serves this principal.
            return True
        return liveness.is_dead(self.lives, seen.owner, expired=seen.expired)

    async def _drain(self, lease: Lease, upcoming: Next) -> None:
        try:
            while not await self._serve_next(lease, upcoming):
                if self.leaving:
                    await self.database.write(lambda connection: principal.abandon(connection, lease))
                    self.hand_over(lease.principal)
                    return
                upcoming = await self.database.write(partial(self._next, lease=lease))
        except asyncio.CancelledError:
            with contextlib.suppress(DatabaseUnavailable):
                await asyncio.shield(self.database.write(lambda connection: principal.abandon(connection, lease)))
            raise

    async def _serve_next(self, lease: Lease, upcoming: Next) -> bool:
        """One turn; True: the inbox is drained and the lease given back."""
        row = upcoming.row
        if row is None and upcoming.settled_in is not None:
            # Nobody need hold a lease only to wait: what comes meanwhile rings as always.
            await self.database.write(lambda connection: principal.abandon(connection, lease))
            asyncio.get_running_loop().call_later(upcoming.settled_in, self.again, lease.principal)
            return True
        if row is None:
            return await self.database.write(lambda connection: principal.release(connection, lease))
        if upcoming.problem is not None:
            problem = upcoming.problem
            await self._finish_without_turn(lease, row, "failed", problem.text, [problem.event()])
            return False
        if row.crashes_alone >= POISON_CRASHES:
            await self._finish_without_turn(lease, row, "set_aside", texts.set_aside(row.crashes_alone))
            return False
        if upcoming.unheard:
            await self._finish_without_turn(lease, row, "done", None)
            return False
        if upcoming.stopped:
            await self._finish_without_turn(lease, row, "done", texts.STOPPED_BEFORE)
            return False
        suspect = row.crashes >= SUSPECT_CRASHES
        async with self.gate.enter(alone=suspect):
            try:
                if exporting.is_for(row):
                    turns = self.turns
                    exporter = Exporter(self.database, turns.blobs, turns.limits, turns.publish)
                    return await exporter.run(lease, turns.read_message(row), alone=suspect)
                if upcoming.rewinds:
                    rewinder = Rewinder(self.database, self.turns.sandboxes, self.turns.publish)
                    return await rewinder.run(lease, self.turns.read_message(row), alone=suspect)
                released = await self.turns.run(lease, row, alone=suspect, begun=upcoming.begun)
                await let_ring()
                return released
            except (StaleLease, *NOT_NOW):
                raise
            except Exception:
                log.exception("a turn raised", principal=str(row.principal), message=str(row.id))
        await self._count_failure(lease, row)
        return False

    async def _count_failure(self, lease: Lease, row: Row) -> None:
        """What makes its turn raise each time is poison as well: it must not hold up what is behind it for ever."""

        def transaction(connection: Connection) -> None:
            principal.fence(connection, lease)
            inbox.count_failure(connection, row.id)

        await self.database.write(transaction)
        await asyncio.sleep(RETRY_SECONDS[min(row.crashes_alone, len(RETRY_SECONDS) - 1)])

    async def _finish_without_turn(
        self, lease: Lease, row: Row, status: inbox.Status, text: str | None, why: Sequence[Event] = ()
    ) -> None:
        """Give a message its final status and its sender a word about it; what its turn had taken in waits again.

        None for ``text``: nothing is said.
        """
        body = {"message": row.id.hex, "text": text}
        events = [*why, *([Event("message.set_aside", body)] if status == "set_aside" else [])]
        events += [Event("reply.queued", body)] if text is not None else [Event("message.dropped", body)]

        def transaction(connection: Connection) -> None:
            journal.append(connection, lease.principal, events, under=lease)
            if row.turn is not None:
                inbox.give_back(connection, row.turn)
                own_calls.give_up(connection, row.turn)
            finished = [
                row.id,
                *(one.id for one in bursts.of(connection, row.burst or row.id) if one.id != row.id),
            ]
            inbox.finish(connection, finished, status)
            inbox_counts.drained(connection, lease.principal, len(finished))
            key, content = f"{row.id.hex}:0", {"text": text or "", "reply": _reply_of(row)}
            shown = row.turn and drafts.finish(connection, key=key, turn=row.turn, message=row.id, content=content)
            if shown or text is None:
                return
            outbox.queue(
                connection,
                key=key,
                principal=lease.principal,
                turn=None,
                inbox=row.id,
                to=Address(row.channel, row.account, row.conversation, row.thread),
                content=content,
            )

        await self.database.write(transaction)
        self.publish(lease.principal, {"bell": "outbox"})


def _reply_of(row: Row) -> dict[str, object]:
    return dict(Envelope.from_json(row.envelope).reply)

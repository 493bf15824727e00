"""Folding old turns once the reply has gone, off anybody's path; a model may write the records, if nobody waits.

A folding that does not pass its check changes nothing and is counted; after three in a row it rests, and ``/status``,
``nightporter status`` and the log say so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import Connection

from agent import old_turns, record_writing
from agent.checker import CheckFailed, check
from agent.engine import Engine, Step
from workspace_store import archiving, facts, inbox_counts, journal, principal, spending
from workspace_store.database import Database
from workspace_store.journal import Event
from workspace_store.principal import Lease

log = structlog.get_logger()

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Folder:
    """``with_model``: records are asked from the engine, as long as no message waits."""

    with_model: bool = False
    check: old_turns.Check = check

    async def run(self, database: Database, engine: Engine, lease: Lease) -> bool:
        """Fold what is due for the lease's principal; whether the lease was given back with it, as nothing waits.

        Raises StaleLease, DatabaseUnavailable.
        """
        owner = lease.principal
        written: Mapping[int, str] = {}
        steps: list[Step] = []
        if self.with_model and engine.looks_back:
            written, steps = await self._ask(database, engine, owner)
        window = engine.context_window if engine.looks_back else None

        def transaction(connection: Connection) -> tuple[bool, bool]:
            folded = old_turns.fold_old(connection, owner, window, written=written, check=self.check)
            if folded.turns:
                events = [Event("context.compressed", {"turns": list(folded.turns)})]
                events += [
                    Event("commitment.made", {"promise": one.number, "text": one.body, "noticed": True})
                    for one in folded.noticed
                ]
                journal.append(connection, owner, events, under=lease)
                facts.succeeded(connection, owner)
            freezes = archiving.due(connection, owner)
            return not freezes and principal.release(connection, lease), freezes

        if steps:
            await database.write(partial(_pay, owner=owner, steps=steps))
        try:
            released, freezes = await database.write(transaction)
            if freezes:
                released = await database.write(partial(_freeze, lease=lease))
            return released
        except CheckFailed as error:
            failures = await database.write(partial(_failed, lease=lease, reason=str(error)))
            log.error(
                "folding did not pass its check; the context stays as it was",
                principal=str(owner), failures=failures, reason=str(error), stopped=failures >= facts.BREAKER,
            )  # fmt: skip
            return False

    async def _ask(self, database: Database, engine: Engine, owner: UUID) -> tuple[dict[int, str], list[Step]]:
        """Records by seq, as far as the model gives them before somebody waits."""
        records = await database.read(partial(old_turns.to_fold, owner=owner))
        writing = asyncio.gather(*(record_writing.write(engine, record) for record in records))
        try:
            while not (await asyncio.wait([writing], timeout=POLL_SECONDS))[0]:
                if await database.read(partial(inbox_counts.waiting, identifier=owner)):
                    return {}, []
            steps = [step for step in writing.result() if step is not None]
            written = {
                record.seq: step.replies.get(record_writing.ASKED, "").strip()
                for record, step in zip(records, writing.result(), strict=True)
                if step is not None
            }
            return written, steps
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing


def _pay(connection: Connection, owner: UUID, steps: list[Step]) -> None:
    for step in steps:
        if step.usage is not None:
            spending.add(connection, owner, step.model, step.usage)


def _freeze(connection: Connection, lease: Lease) -> bool:
    principal.fence(connection, lease)
    archiving.freeze(connection, lease.principal)
    return principal.release(connection, lease)


def _failed(connection: Connection, lease: Lease, reason: str) -> int:
    failures = facts.failed(connection, lease.principal, reason)
    body = {"reason": reason, "failures": failures, "stopped": failures >= facts.BREAKER}
    journal.append(connection, lease.principal, [Event("context.kept", body)], under=lease)
    return failures

"""``/export``: a turn without an engine that sends a person what is kept of them, as a file, to them alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any
from uuid import UUID, uuid4

from sqlalchemy import Connection

from agent import context
from agent.trajectory import Said
from sandbox_runner import texts
from sandbox_runner.assignments import Assignment
from workspace_store import checkpoints, inbox, inbox_counts, journal, keepsake, outbox, principal
from workspace_store.blobs import Blobs
from workspace_store.database import Database, today
from workspace_store.file_limits import FileLimits
from workspace_store.inbox import Row
from workspace_store.journal import Event
from workspace_store.principal import Lease

INBOX_KIND = "export"
PIECE = 1 << 20
IN_MEMORY = 8 << 20


def is_for(row: Row) -> bool:
    return row.kind == INBOX_KIND


@dataclass
class Exporter:
    """Runs these turns. ``publish`` tells of progress, best effort."""

    database: Database
    blobs: Blobs
    limits: FileLimits
    publish: Callable[[UUID, dict[str, Any]], None]

    async def run(self, lease: Lease, asked: Assignment, *, alone: bool) -> bool:
        """One turn to its commit; whether the lease was given back with it. Raises as ``TurnRunner.run``."""
        turn = asked.row.turn or uuid4()
        shared = await self.database.write(lambda connection: _begin(connection, lease, asked.row, turn, alone))
        file, text = None, texts.EXPORT_IN_PRIVATE
        if not shared:
            file = await self._file(lease.principal)
            text = texts.EXPORTED if file else texts.EXPORT_TOO_LARGE
        released = await self.database.write(lambda connection: _commit(connection, lease, asked, turn, text, file))
        self.publish(lease.principal, {"bell": "outbox", "turn": turn.hex})
        return released

    async def _file(self, owner: UUID) -> dict[str, Any] | None:
        """The archive as a reply carries it; None: it is more than one may carry."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            await self.database.read(lambda connection: keepsake.write(connection, owner, file))
            size = file.tell()
            if size > self.limits.max_bytes:
                return None
            blob = await asyncio.to_thread(self.blobs.put_stream, owner, _pieces(file))
        name = f"nightporter-{today()}.zip"
        return {"name": name, "content_type": "application/zip", "size": size, "blob": blob}


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece


def _begin(connection: Connection, lease: Lease, row: Row, turn: UUID, alone: bool) -> bool:
    """Count the turn; whether it was asked for in a room."""
    body = {"message": row.id.hex, "resumed": row.turn is not None}
    journal.append(connection, lease.principal, [Event("turn.started", body)], under=lease, turn=turn)
    inbox.start(connection, row.id, turn, alone=alone)
    return principal.kind(connection, lease.principal) == "room"


def _commit(
    connection: Connection, lease: Lease, asked: Assignment, turn: UUID, text: str, file: dict[str, Any] | None
) -> bool:
    owner, row = lease.principal, asked.row
    said = [Said("user", asked.text, message=row.id.hex, speaker=asked.speaker)]
    said.append(Said("assistant", text, message=row.id.hex))
    events = [
        Event("reply.queued", {"message": row.id.hex, "text": text}),
        Event("checkpoint.committed", {"generation": None, "status": "done"}),
    ]
    seq = journal.append(connection, owner, events, under=lease, turn=turn)
    messages = [each.to_json() for each in said]
    checkpoints.record_turn(connection, owner, seq, turn, messages, context.tokens_of(said))
    content: dict[str, Any] = {"text": text, "reply": dict(asked.reply)}
    if file is not None:
        content["files"] = [file]
    outbox.queue(
        connection, key=f"{turn.hex}:0", principal=owner, turn=turn, inbox=row.id, to=asked.address, content=content
    )
    inbox.finish(connection, [row.id], "done")
    inbox_counts.drained(connection, owner)
    return principal.release(connection, lease)

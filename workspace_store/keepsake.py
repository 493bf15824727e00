"""What is kept of a principal's talk, as one archive of their own: notes, turns, imported words and journal.

Files are not in it (``workspace export`` has those), nor anything of anybody else. JSON lines in a zip, times in Unix
seconds.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any
from uuid import UUID

from sqlalchemy import Connection, select

from workspace_store import cold_turns, journal, memory, principal, texts
from workspace_store.checkpoints import COLD, turn_record
from workspace_store.imported import imported

PAGE = 500
ALL = 1 << 31


def write(connection: Connection, owner: UUID, file: IO[bytes]) -> dict[str, int]:
    """Write the archive of an owner and of those merged into them; how many lines each part has."""
    scope = principal.scope(connection, owner)
    parts: dict[str, Iterable[dict[str, Any]]] = {
        "notes": map(memory.as_json, memory.notes(connection, owner, ALL, ever=True)),
        "turns": _turns(connection, scope),
        "imported": _imported(connection, scope),
        "journal": _journal(connection, scope),
    }
    counts = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", texts.KEEPSAKE)
        for name, rows in parts.items():
            with archive.open(f"{name}.jsonl", "w") as raw, io.TextIOWrapper(raw, "utf-8", "replace") as out:
                counts[name] = 0
                for row in rows:
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
                    counts[name] += 1
    return counts


def _turns(connection: Connection, scope: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    for owner in scope:
        query = select(turn_record).where(turn_record.c.principal == owner).order_by(turn_record.c.seq)
        segment: Mapping[int, str] = {}
        for row in connection.execute(query, execution_options={"yield_per": PAGE}):
            if row.messages == COLD and row.seq not in segment:
                segment = cold_turns.turns_beside(connection, owner, row.seq)
            messages = json.loads(row.messages or segment[row.seq])
            yield {"turn": str(row.turn), "at": row.at / 1e6, "messages": messages}


def _imported(connection: Connection, scope: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    for owner in scope:
        query = select(imported).where(imported.c.principal == owner).order_by(imported.c.at)
        for row in connection.execute(query, execution_options={"yield_per": PAGE}):
            yield {"id": row.key, "time": row.at / 1e6, "role": row.role, "text": row.text, "channel": row.channel}


def _journal(connection: Connection, scope: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    for owner in scope:
        after = 0
        while page := journal.read(connection, owner, after=after, limit=PAGE):
            after = page[-1].seq
            for event in page:
                yield {
                    "principal": str(owner), "seq": event.seq, "at": event.at / 1e6, "kind": event.kind,
                    "turn": event.turn and str(event.turn), "body": event.body, "hash": event.hash,
                }  # fmt: skip

"""The librarian: after the replies, off anybody's path, it gives what was said its vectors.

There is no queue: whatever has no vector is found by an index, so that a crash, a server that is away for a day or a
new model only means that it is done later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import Connection

from agent.embeddings.embedder import Embedder, EmbedderAway
from workspace_store import memory_index
from workspace_store.database import Database, DatabaseUnavailable

log = structlog.get_logger()

LOOK_SECONDS = 2.0
BATCH = 32
AWAY_SECONDS = (5.0, 30.0, 120.0, 600.0)

Entry = tuple[int, UUID, str]


@dataclass
class Librarian:
    """``embedder`` makes the vectors."""

    database: Database
    embedder: Embedder

    async def run(self) -> None:
        """Go on until cancelled."""
        failures = 0
        while True:
            try:
                while await self.catch_up():
                    failures = 0
                seconds = LOOK_SECONDS
            except EmbedderAway as error:
                seconds = AWAY_SECONDS[min(failures, len(AWAY_SECONDS) - 1)]
                failures += 1
                log.warning("no vectors now; words are found without", reason=str(error), seconds=seconds)
            except DatabaseUnavailable as error:
                seconds = LOOK_SECONDS
                log.warning("could not look for what has no vector", reason=str(error))
            except Exception:
                seconds = AWAY_SECONDS[-1]
                log.exception("could not make vectors")
            await asyncio.sleep(seconds)

    async def catch_up(self) -> bool:
        """Give the next entries their vectors; False: nothing is left to do. Raises EmbedderAway."""
        if await self.database.read(partial(memory_index.has_vectors_of_others, model=self.embedder.model)):
            await self.database.write(partial(memory_index.drop_vectors_of_others, model=self.embedder.model))
            return True
        entries: list[Entry] = await self.database.read(partial(memory_index.bare, most=BATCH))
        if not entries:
            return False
        vectors = await self.embedder.embed([words for _, _, words in entries])
        found = [(entry, owner, vector) for (entry, owner, _), vector in zip(entries, vectors, strict=True)]

        def store(connection: Connection) -> None:
            memory_index.store_vectors(connection, self.embedder.model, found)

        await self.database.write(store)
        return True

"""Fetching: files that a platform keeps become blobs, after their message was acknowledged and before its turn acts.

What is to be fetched is a row of the message's own transaction, claimed as replies are: a crash of the gateway, or a
platform that is away, loses nothing, within the time that a message waits. Whoever waits is told the reason in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import Connection

from gateway import texts
from gateway.files import Fetch, Fetched, NoFile, NotYet
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store import attachments, liveness, names, principal
from workspace_store.attachments import File
from workspace_store.blobs import Blobs
from workspace_store.database import Database, DatabaseUnavailable, database_now_us, storable
from workspace_store.file_limits import FileLimits

log = structlog.get_logger()

Accept = Callable[[Envelope], Awaitable[Accepted | None]]

POLL_SECONDS = 1.0
AT_ONCE = 4
BACKOFF_SECONDS = 0.5
TRY_SECONDS = 60.0


@dataclass
class Fetching:
    """Fetches for the channels of this gateway. ``claimer``: the gateway's id, alive by its lock; ``seconds``: how long
    a file is tried for."""

    claimer: str
    database: Database
    lives: Path
    fetchers: Mapping[str, Fetch]
    blobs: Blobs
    limits: FileLimits
    seconds: float
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _working: set[asyncio.Task[None]] = field(default_factory=set)

    def after(self, accept: Accept) -> Accept:
        """``accept``, and then at once a look for the files of what was accepted."""

        async def accepting(envelope: Envelope) -> Accepted | None:
            accepted = await accept(envelope)
            if accepted is not None and envelope.attachments:
                self._bell.set()
            return accepted

        return accepting

    async def run(self) -> None:
        """Fetch until cancelled; what is under way then is claimed again by whoever lives."""
        try:
            while True:
                self._bell.clear()
                for file in await self._claimed():
                    task = asyncio.create_task(self._fetch(file))
                    self._working.add(task)
                    task.add_done_callback(self._done)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._bell.wait()
        finally:
            for task in self._working:
                task.cancel()
            await asyncio.gather(*self._working, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        # There is room for another.
        self._bell.set()

    async def _claimed(self) -> list[File]:
        free = AT_ONCE - len(self._working)
        if not self.fetchers or free <= 0:
            return []
        try:
            if await self.database.read(partial(attachments.any_waiting, channels=list(self.fetchers))):
                return await self.database.write(partial(self._claim, limit=free))
        except DatabaseUnavailable as error:
            log.warning("could not look for files to fetch", reason=str(error))
        except Exception:
            log.exception("could not look for files to fetch")
        return []

    def _claim(self, connection: Connection, limit: int) -> list[File]:
        others = [name for name in attachments.claimers(connection) if name != self.claimer]
        dead = [name for name in others if liveness.is_dead(self.lives, name)]
        return attachments.claim(connection, list(self.fetchers), self.claimer, dead, limit)

    async def _fetch(self, file: File) -> None:
        """One try; its outcome is recorded, or the claim ends and somebody tries again."""
        try:
            await self._settle(file, await self._try(file))
        except DatabaseUnavailable as error:
            log.warning("could not record a file", reason=str(error))
        except Exception:
            log.exception("could not record a file", channel=file.channel)

    async def _try(self, file: File) -> Fetched | NoFile | NotYet:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                fetched = await self.fetchers[file.channel](file.account, file.reference, self.limits.max_bytes)
        except (NoFile, NotYet) as error:
            return error
        except TimeoutError:
            return NotYet(texts.FETCH_TAKES_TOO_LONG)
        except Exception as error:
            log.exception("fetching failed", channel=file.channel)
            return NotYet(f"{type(error).__name__}: {error}")
        if len(fetched.content) > self.limits.max_bytes:
            return NoFile(texts.file_too_large(self.limits.max_bytes))
        return fetched

    async def _settle(self, file: File, outcome: Fetched | NoFile | NotYet) -> None:
        if isinstance(outcome, Fetched):
            blob = await asyncio.to_thread(self.blobs.put, file.principal, outcome.content)
            await self.database.write(lambda connection: self._stored(connection, file, outcome, blob))
        else:
            log.info("a file was not fetched", channel=file.channel, reason=str(outcome), again=_may_try_again(outcome))
            await self.database.write(lambda connection: self._not_stored(connection, file, outcome))

    def _stored(self, connection: Connection, file: File, fetched: Fetched, blob: str) -> None:
        # Another file of the message may be on its way in as well: one after the other, so that both are counted.
        principal.lock(connection, file.principal)
        others = [other for other in attachments.of(connection, [file.inbox]) if other.position != file.position]
        size = len(fetched.content)
        if size + sum(other.size for other in others if other.status == "stored") > self.limits.max_message_bytes:
            reason = texts.files_too_large(self.limits.max_message_bytes)
            attachments.settle(connection, file, self.claimer, status="failed", reason=reason, size=size)
            return
        taken = {other.name.casefold() for other in others}
        attachments.settle(
            connection, file, self.claimer, status="stored", blob=blob, size=size,
            name=names.unique_name(names.safe_name(fetched.name, file.name), taken),
            content_type=storable(fetched.content_type or file.content_type),
        )  # fmt: skip

    def _not_stored(self, connection: Connection, file: File, why: NoFile | NotYet) -> None:
        now, reason = database_now_us(connection), storable(str(why))
        wait = (why.seconds if isinstance(why, NotYet) else None) or BACKOFF_SECONDS * 2**file.attempts
        next_at = now + int(wait * 1e6)
        ends = (file.first_tried_at or now) + int(self.seconds * 1e6)
        if _may_try_again(why) and next_at < ends:
            attachments.settle(connection, file, self.claimer, next_at=next_at)
        else:
            attachments.settle(connection, file, self.claimer, status="failed", reason=reason)


def _may_try_again(why: NoFile | NotYet) -> bool:
    return isinstance(why, NotYet)

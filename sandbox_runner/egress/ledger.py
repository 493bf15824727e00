"""The proxy's pen: intended before it goes out, settled after, the harmless in batches, and what nobody saw the end of.

Nothing goes out that could not be written first; what has gone out is written even if the sandbox is gone meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection

from sandbox_runner.egress import texts
from sandbox_runner.egress.answers import Refused
from workspace_store import effects, inbox, journal
from workspace_store.crash_points import Point, reached
from workspace_store.database import Database, DatabaseUnavailable, now_us, today
from workspace_store.effects import Effect, Settled, Status
from workspace_store.journal import Event
from workspace_store.tenancy import StaleTenancy, Tenancy

log = structlog.get_logger()

FLUSH_SECONDS = 1.0
BATCH_SECONDS = 0.05
"""How long a request that changes nothing waits for others: whoever asks after the command is to find it."""
BATCH = 200
MOST_WAITING = 20_000
SETTLE_SECONDS = 5.0


@dataclass
class Outgoing:
    """A request or tunnel on its way: what is known of it so far."""

    tenancy: Tenancy
    host: str
    port: int
    method: str
    path_digest: str
    digest: hashlib._Hash
    id: UUID = field(default_factory=uuid4)
    at: int = field(default_factory=now_us)
    outcome: int | None = None
    bytes_out: int = 0
    bytes_in: int = 0
    sent: bool = False
    """Something of it has left."""

    def row(self, proxy: str, status: Status, reason: str = "", turn: UUID | None = None) -> Effect:
        ended = None if status == "intended" else now_us()
        return Effect(
            self.id, self.tenancy.principal, self.tenancy.epoch, turn, proxy, self.host, self.port, self.method,
            self.path_digest, self.digest.hexdigest(), status, self.at, self.outcome, reason, self.bytes_out,
            self.bytes_in, ended, status not in ("refused", "uncertain"),
        )  # fmt: skip

    def settled(self, status: Status, reason: str = "") -> Settled:
        return Settled(
            self.id, status, self.outcome, reason, self.bytes_out, self.bytes_in, self.digest.hexdigest(), now_us()
        )


def outgoing(tenancy: Tenancy, host: str, port: int, method: str, target: str) -> Outgoing:
    """A new one; ``target`` (path and query) is kept by its digest only."""
    digest = hashlib.sha256(f"{method} {host}:{port} {target}\n".encode())
    return Outgoing(tenancy, host, port, method, hashlib.sha256(target.encode()).hexdigest(), digest)


class Ledger:
    """``proxy`` is this process's id, ``egress-HOST-…``; ``of_host`` what those of the same host begin with."""

    def __init__(self, database: Database, proxy: str, of_host: str) -> None:
        self._database = database
        self.proxy = proxy
        self._of_host = of_host
        self._waiting: list[tuple[Tenancy, Effect]] = []
        self._noted = asyncio.Event()
        self._ended: list[tuple[Tenancy, Settled, Outgoing]] = []
        self._used: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0])
        self._turns: dict[UUID, UUID | None] = {}

    # Before and after what may change something

    async def intend(self, going: Outgoing) -> None:
        """Write it down before it goes out. Raises Refused, so that it does not, where that cannot be done."""

        def transaction(connection: Connection) -> UUID | None:
            turn = inbox.running_turn(connection, going.tenancy.principal)
            body = {
                "effect": going.id.hex, "host": going.host, "port": going.port, "method": going.method,
                "path_digest": going.path_digest,
            }  # fmt: skip
            owner = going.tenancy.principal
            journal.append(connection, owner, [Event("effect.intended", body)], under=going.tenancy, turn=turn)
            effects.write(connection, [going.row(self.proxy, "intended", turn=turn)])
            return turn

        try:
            self._turns[going.id] = await self._database.write(transaction)
            reached(Point.EFFECT_INTENDED)
        except StaleTenancy:
            raise Refused(403, "stale_sandbox", texts.stale(), texts.HOW_AGAIN, going.host, going.port) from None
        except DatabaseUnavailable:
            reason = texts.cannot_record()
            raise Refused(503, "not_recorded", reason, texts.HOW_AGAIN, going.host, going.port) from None

    async def settle(self, going: Outgoing, status: Status, reason: str = "") -> None:
        """Say how it ended; kept until the database takes it, and waited for a little."""
        reached(Point.EFFECT_DONE)
        self._ended.append((going.tenancy, going.settled(status, reason), going))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await asyncio.shield(self._write_ended())
                reached(Point.EFFECT_SETTLED)

    async def _write_ended(self) -> None:
        ended, self._ended = self._ended, []
        try:
            while ended:
                tenancy, how, going = ended[0]
                try:
                    await self._write(tenancy, partial(self._settled, tenancy=tenancy, how=how, going=going))
                except DatabaseUnavailable as error:
                    log.warning("could not settle an effect; trying again", reason=str(error))
                    return
                except Exception:
                    # It stays intended, and is told as uncertain once this proxy has ended.
                    log.exception("an effect cannot be settled", effect=how.id.hex)
                self._turns.pop(ended.pop(0)[1].id, None)
        finally:
            self._ended[:0] = ended

    def _settled(self, connection: Connection, under: Tenancy | None, tenancy: Tenancy, how: Settled,
                 going: Outgoing) -> None:  # fmt: skip
        if not effects.settle(connection, how):
            return
        body = {
            "effect": how.id.hex, "host": going.host, "port": going.port, "method": going.method,
            "status": how.status, "outcome": how.outcome, "reason": how.reason, "bytes_out": how.bytes_out,
            "bytes_in": how.bytes_in, "request_digest": how.request_digest,
        }  # fmt: skip
        turn = self._turns.get(how.id)
        journal.append(connection, tenancy.principal, [Event("effect.settled", body)], under=under, turn=turn)

    async def _write(self, tenancy: Tenancy, transaction: Callable[..., None]) -> None:
        """What has happened is written though the tenancy has gone: then as an event that carries no epoch."""
        try:
            await self._database.write(lambda connection: transaction(connection, tenancy))
        except StaleTenancy:
            await self._database.write(lambda connection: transaction(connection, None))

    # What only asks, and what was refused

    def note(self, going: Outgoing, reason: str = "") -> None:
        """A request that changes nothing, to be written with the next batch."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((going.tenancy, going.row(self.proxy, "settled", reason)))
            self._noted.set()

    async def refuse(self, going: Outgoing, reason: str) -> None:
        """Written at once, so that it is there when the command that asked has ended."""
        self._waiting.append((going.tenancy, going.row(self.proxy, "refused", reason)))
        await self._write_batches()

    def use(self, principal: UUID, requests: int, count: int) -> None:
        used = self._used[principal, today()]
        used[0] += requests
        used[1] += count

    async def keep(self) -> None:
        """Write what was noted soon after, and everything each second, until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + FLUSH_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._noted.wait()
                    await asyncio.sleep(BATCH_SECONDS)
            self._noted.clear()
            if loop.time() < due:
                await self._trying(self._write_batches)
            else:
                await self.flush()
                due = loop.time() + FLUSH_SECONDS

    async def flush(self) -> None:
        """Write everything that waits."""
        await self._trying(self._write_ended, self._write_batches, self._write_use)

    @staticmethod
    async def _trying(*writing: Callable[[], Awaitable[None]]) -> None:
        try:
            for write in writing:
                await write()
        except DatabaseUnavailable as error:
            log.warning("could not write the effect ledger; trying again", reason=str(error))
        except Exception:
            log.exception("could not write the effect ledger")

    async def _write_batches(self) -> None:
        """Whatever stops it, also a caller that is cancelled: what was not written waits for the next time."""
        waiting, self._waiting = self._waiting, []
        by_tenancy: dict[Tenancy, list[Effect]] = defaultdict(list)
        for tenancy, row in waiting:
            by_tenancy[tenancy].append(row)
        batches = [
            (tenancy, rows[start : start + BATCH])
            for tenancy, rows in by_tenancy.items()
            for start in range(0, len(rows), BATCH)
        ]
        try:
            while batches:
                await self._write_batch(*batches[0])
                del batches[0]
        finally:
            self._waiting[:0] = [(tenancy, row) for tenancy, rows in batches for row in rows]

    async def _write_batch(self, tenancy: Tenancy, rows: list[Effect]) -> None:
        """Raises DatabaseUnavailable. A row that cannot be written at all takes no other with it."""
        try:
            await self._write(tenancy, partial(self._recorded, owner=tenancy.principal, rows=rows))
        except DatabaseUnavailable:
            raise
        except Exception:
            if len(rows) == 1:
                log.exception("an effect cannot be recorded", host=rows[0].host, method=rows[0].method)
                return
            log.warning("a batch of effects cannot be recorded as one; recording each by itself")
            while rows:
                await self._write_batch(tenancy, rows[:1])
                del rows[0]

    @staticmethod
    def _recorded(connection: Connection, under: Tenancy | None, owner: UUID, rows: Sequence[Effect]) -> None:
        turn = inbox.running_turn(connection, owner)
        effects.write(connection, [replace(row, turn=turn) for row in rows])
        hosts = sorted({f"{row.status} {row.host}:{row.port}" for row in rows})[:20]
        digest = hashlib.sha256("".join(f"{row.id.hex}{row.request_digest}" for row in rows).encode()).hexdigest()
        body = {"count": len(rows), "hosts": hosts, "digest": digest}
        journal.append(connection, owner, [Event("effect.recorded", body)], under=under, turn=turn)

    async def _write_use(self) -> None:
        used = {key: tuple(value) for key, value in self._used.items() if any(value)}
        if not used:
            return

        def transaction(connection: Connection) -> None:
            for (owner, day), (requests, count) in used.items():
                effects.use(connection, owner, day, requests, count)

        await self._database.write(transaction)
        for key, (requests, count) in used.items():
            self._used[key][0] -= requests
            self._used[key][1] -= count
        for key in [key for key, value in self._used.items() if not any(value) and key[1] != today()]:
            del self._used[key]

    # What nobody saw the end of

    async def give_up_left_over(self) -> int:
        """Effects that a proxy of this host left when it died: uncertain from now on; how many."""
        find = partial(effects.unfinished, but_of=self.proxy, proxies=self._of_host)
        return await self._give_up(await self._database.read(find))

    async def give_up_before(self, tenancy: Tenancy) -> int:
        """The same for effects of the principal's earlier sandboxes, wherever they were."""
        find = partial(effects.unfinished_before, owner=tenancy.principal, epoch=tenancy.epoch)
        return await self._give_up(await self._database.read(find))

    async def _give_up(self, left: Sequence[Effect]) -> int:
        for row in left:
            await self._database.write(partial(effects.give_up, row=row, reason=texts.cut_off()))
        return len(left)

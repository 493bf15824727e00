"""Health: what is not ready, by name, and figures for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import redis.asyncio
from redis.exceptions import RedisError
from sqlalchemy import Connection

from router import presence
from workspace_store import approvals, effects, facts, liveness, outbox, principal
from workspace_store.database import Database, DatabaseUnavailable, now_us, today
from workspace_store.disk_room import DiskRoom, free

REDIS_SECONDS = 1.0
"""Its client tries again for longer than who asks would wait."""
_DAY_US = 86_400_000_000
PARTS = (*presence.ROLES, "database", "redis", "disk")
"""What may be missing, by name."""

METRICS = {
    "nightporter_disk_free_bytes": "Bytes that are free where messages are written to",
    "nightporter_egress_bytes": "Bytes that sandboxes sent and received today (UTC)",
    "nightporter_egress_pending": "Hosts that a person is asked to allow",
    "nightporter_egress_refused": "Requests of sandboxes that were refused in the last 24 hours",
    "nightporter_egress_requests": "Requests and tunnels of sandboxes that went out today (UTC)",
    "nightporter_inbox_waiting": "Messages that have no final status yet",
    "nightporter_outbox_replies": "Replies in the outbox, by status",
    "nightporter_principals_owned": "Principals whose turns run now",
    "nightporter_sandboxes_awake": "Principals whose sandbox is awake",
    "nightporter_folding_stopped": "People and rooms whose old turns are no longer shortened: that failed its check",
    "nightporter_services_alive": "Living processes, by role; gateways of this home only",
}


@dataclass
class Health:
    database: Database
    lives: Path
    connect: Callable[[], redis.asyncio.Redis]
    channels_wrong: Callable[[], list[str]] = list
    """What keeps a channel from working, a sentence each: told, while the others go on."""
    room: DiskRoom = field(default_factory=DiskRoom)

    async def missing(self) -> list[str]:
        """Names of what is not ready; empty: everything is."""
        elsewhere = await self._elsewhere()
        away = elsewhere or {}
        missing = [role for role in presence.ROLES if not liveness.alive(self.lives, role) and not away.get(role)]
        try:
            await self.database.read(principal.figures)
        except DatabaseUnavailable:
            missing.append("database")
        if elsewhere is None:
            missing.append("redis")
        if self.room.is_short:
            missing.append("disk")
        return missing

    async def _elsewhere(self) -> dict[str, int] | None:
        """How many serve in other homes, by role; None: Redis is not there."""
        connection = self.connect()
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                return await presence.elsewhere(connection, self.lives)
        except (RedisError, OSError):  # TimeoutError is an OSError
            return None
        finally:
            await connection.aclose()

    async def metrics(self) -> str:
        """The figures in Prometheus' text format. Raises DatabaseUnavailable."""
        from prometheus_client import CollectorRegistry, Gauge, generate_latest  # with its HTTP server, 120 ms

        def query(connection: Connection) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
            outside = effects.figures(connection, today(), now_us() - _DAY_US)
            outside["pending"] = approvals.pending(connection, kind="egress.host")
            of_all = {**principal.figures(connection), "stopped": facts.stopped(connection)}
            return of_all, outbox.counts(connection), outside

        figures, replies, outside = await self.database.read(query)
        registry = CollectorRegistry()
        gauge = {name: Gauge(name, text, _labels(name), registry=registry) for name, text in METRICS.items()}
        gauge["nightporter_inbox_waiting"].set(figures["waiting"])
        gauge["nightporter_principals_owned"].set(figures["owned"])
        gauge["nightporter_sandboxes_awake"].set(figures["awake"])
        gauge["nightporter_folding_stopped"].set(figures["stopped"])
        if self.room.folders:
            gauge["nightporter_disk_free_bytes"].set(min(free(folder).bytes for folder in self.room.folders))
        for name, count in outside.items():
            gauge[f"nightporter_egress_{name}"].set(count)
        for status, count in replies.items():
            gauge["nightporter_outbox_replies"].labels(status).set(count)
        elsewhere = await self._elsewhere() or {}
        for role in ("gateway", *presence.ROLES):
            living = len(liveness.alive(self.lives, role)) + elsewhere.get(role, 0)
            gauge["nightporter_services_alive"].labels(role).set(living)
        return generate_latest(registry).decode()


def _labels(name: str) -> tuple[str, ...]:
    return {"nightporter_outbox_replies": ("status",), "nightporter_services_alive": ("role",)}.get(name, ())

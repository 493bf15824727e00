"""Who serves elsewhere: nobody sees the locks of another home, so each runner says through Redis who lives in its own.

What is not said again is forgotten, by Redis's clock. Told to people and probes only: no turn relies on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import redis
import redis.asyncio

from router.bells import Ringer, enqueue
from workspace_store import liveness

MANAGER = "sandbox-manager"
ROLES = ("runner", MANAGER)
"""Without whom no turn runs to its end."""
PREFIX = "nightporter:present:"
SAY_SECONDS = 5.0
FORGOTTEN_SECONDS = 15


async def keep(ringer: Ringer, lives: Path) -> None:
    """Say again and again who lives here, until cancelled."""
    while True:
        living = {role: found for role in ROLES if (found := liveness.alive(lives, role))}
        ringer.send(partial(_say, living=living))
        await asyncio.sleep(SAY_SECONDS)


def _say(connection: redis.Redis, living: Mapping[str, Sequence[str]]) -> None:
    now = _seconds(connection.time())
    with connection.pipeline() as pipeline:
        for role, ids in living.items():
            pipeline.zremrangebyscore(PREFIX + role, "-inf", now)
            pipeline.zadd(PREFIX + role, dict.fromkeys(ids, now + FORGOTTEN_SECONDS))
            pipeline.expire(PREFIX + role, FORGOTTEN_SECONDS)
        pipeline.execute()


def leave(connection: redis.Redis, lives: Path, host: str) -> None:
    """This host serves nobody any more: what is warm there is rung for elsewhere. Raises RedisError."""
    for role in ROLES:
        gone = [one for one in liveness.alive(lives, role) if liveness.host_of(one, role) == host]
        if gone:
            connection.zrem(PREFIX + role, *gone)


def ring(ringer: Ringer, lives: Path, principal: UUID, manager: str | None) -> None:
    """Ring at the host whose sandbox manager keeps the sandbox warm; for every host where none does, or it is gone."""
    if manager is None or liveness.is_dead(lives, manager):
        ringer.ring(principal)
    elif liveness.is_of(liveness.home_name(lives), manager):
        ringer.ring(principal, liveness.host_of(manager, MANAGER))
    else:
        ringer.send(partial(_ring_elsewhere, principal=principal, manager=manager))


def _ring_elsewhere(connection: redis.Redis, principal: UUID, manager: str) -> None:
    """Where it is not heard of any more, its host is gone."""
    until: Any = connection.zscore(PREFIX + MANAGER, manager)
    here = until is not None and until > _seconds(connection.time())
    enqueue(connection, principal, liveness.host_of(manager, MANAGER) if here else None)


async def elsewhere(connection: redis.asyncio.Redis, lives: Path) -> dict[str, int]:
    """How many live in other homes, by role. Raises RedisError."""
    now = _seconds(await connection.time())
    home = liveness.home_name(lives)
    found = {}
    for role in ROLES:
        told: list[Any] = await connection.zrangebyscore(PREFIX + role, now, "+inf")
        ids = [one.decode() for one in told]
        found[role] = sum(not home or not liveness.is_of(home, one) for one in ids)
    return found


def _seconds(told: tuple[int, int]) -> float:
    return told[0] + told[1] / 1e6

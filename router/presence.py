"""Who serves elsewhere: nobody sees the locks of another home, so each runner says through Redis who lives in its own.

What is not said again is forgotten, by Redis's clock. Told to people and probes only: no turn relies on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from router.bells import Ringer
from workspace_store import liveness

ROLES = ("runner", "sandbox-manager")
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

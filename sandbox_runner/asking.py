"""Asking the engine for a step: a wait that /stop ends at once, and patience with what cannot be reached now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from agent.engine import EngineError, EngineUnavailable, Step
from sandbox_runner import texts
from workspace_store.database import now_us

LONGEST_WAIT_SECONDS = 30.0

Got = TypeVar("Got")


class Stopped(Exception):
    """The person said /stop, or more while arrivals interrupt."""


async def ask(
    think: Callable[[], Coroutine[Any, Any, Step]],
    stopping: asyncio.Event,
    unreachable: Callable[[EngineUnavailable], Awaitable[int]],
) -> Step:
    """The engine's next step (``think``), however long it takes until it can be asked.

    ``unreachable`` records that it cannot be asked now and says until when to try again (microseconds since the epoch).
    Raises Stopped; EngineError where it will not work, or has not until then.
    """
    while True:
        try:
            return await unless_stopped(think(), stopping)
        except EngineUnavailable as error:
            left = (await unreachable(error) - now_us()) / 1e6
            if left <= 0:
                raise EngineError(texts.gave_up_asking(str(error))) from error
            wait = min(error.seconds, LONGEST_WAIT_SECONDS, left)
            await unless_stopped(asyncio.sleep(wait), stopping)


async def unless_stopped(work: Coroutine[Any, Any, Got], stopping: asyncio.Event) -> Got:
    """What ``work`` gives; cut off where /stop comes first. Raises Stopped."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Stopped
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            # Not awaited by itself: a cancellation of the turn that comes meanwhile must not be taken for this one's.
            await asyncio.gather(working, return_exceptions=True)
        elif not working.cancelled():
            # Looked at, or asyncio says that nobody did: the turn may have been cancelled at the same moment.
            working.exception()

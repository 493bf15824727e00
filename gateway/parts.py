"""Sending a reply that is several messages: in order, recorded as they go, one of unknown fate settled first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain
from gateway.progress import Progress
from workspace_store.crash_points import Point, reached
from workspace_store.database import DatabaseUnavailable
from workspace_store.outbox import Reply

SEND_SECONDS = 30.0
"""Less than the outbox's claim by more than one request may take: what remains is sent under the next claim."""


@dataclass(frozen=True)
class Found:
    """What reading back says about a message: its id if it went out; ``unsure``: that cannot be told."""

    external_id: str | None = None
    unsure: bool = False


Post = Callable[[int], Awaitable[str | Retry | Refused | Uncertain]]
"""Send the message at a position: the platform's id of it, or why not."""
Find = Callable[[int], Awaitable[Found | Uncertain]]
"""Look whether the message at a position has gone out."""


async def cannot_look(part: int) -> Found:
    """For platforms that offer no way to look: sent once more, and said to be possibly repeated."""
    return Found(unsure=True)


async def send_parts(
    reply: Reply,
    chunks: Sequence[object],
    progress: Progress,
    post: Post,
    find: Find = cannot_look,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Send what of a reply has not gone out yet. ``chunks``: its messages, whatever the channel makes of each."""
    # Of a first attempt nothing has gone out.
    sent = await progress.sent(reply.id) if reply.attempts or reply.was_sending else ()
    began, ends = len(sent), clock() + SEND_SECONDS
    unsure, repeated = reply.was_sending, False
    while len(sent) < len(chunks):
        found = Found()
        if unsure:
            looked = await find(len(sent))
            if isinstance(looked, Uncertain):
                return looked
            found, unsure = looked, False
            repeated = found.unsure
        external_id = found.external_id or await post(len(sent))
        if isinstance(external_id, Retry) and len(sent) > began and clock() + (external_id.seconds or 1.0) < ends:
            # Under way, a wait that the platform asks for is no failed attempt.
            await asyncio.sleep(external_id.seconds or 1.0)
            continue
        if not isinstance(external_id, str):
            return external_id
        sent = (*sent, external_id)
        reached(Point.PART_SENT)
        try:
            if len(chunks) > 1:
                await progress.record(reply.id, sent)
                reached(Point.PART_RECORDED)
        except DatabaseUnavailable as error:
            # It went out, but nobody will know: the next attempt has to look.
            return Uncertain(str(error), outage=True)
        if clock() > ends and len(sent) < len(chunks):
            return Retry("the rest follows", 0.0)
    return Sent(" ".join(sent) or None, repeated)

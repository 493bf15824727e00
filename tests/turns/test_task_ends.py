"""A background task's end is an event: told once, where its person was last heard, also when nobody waits."""

from __future__ import annotations

import asyncio
from uuid import UUID

from agent.operator import Operator
from sandbox_runner.manager import Manager
from tests.turns.stage import Stage
from workspace_store import inbox, principal


async def say(stage: Stage, text: str) -> str:
    message = await stage.hear(text)
    await stage.serve(Operator())
    return "\n".join(await stage.replies(message))


def rings(manager: Manager) -> asyncio.Queue[UUID]:
    rung: asyncio.Queue[UUID] = asyncio.Queue()
    manager.ring = rung.put_nowait
    return rung


async def told(stage: Stage) -> list[str]:
    """Replies to what no person said."""
    rows = await stage.database.read(lambda c: [row for row in inbox.newest(c, stage.owner) if row.kind == "task"])
    return [text for row in rows for text in await stage.replies(row.id)]


async def test_a_task_that_ends_is_told_once_with_what_it_printed_last(stage: Stage) -> None:
    assert stage.manager is not None
    rung = rings(stage.manager)
    await say(stage, "$& read -t 0.3 x <> <(:); echo all done; exit 3")
    async with asyncio.timeout(30):
        assert await rung.get() == stage.owner
    await stage.serve(Operator())
    (said,) = await told(stage)
    assert "ended with exit code 3" in said
    assert "all done" in said
    (event,) = await stage.events("task.ended")
    assert event.body is not None
    assert event.body["exit_code"] == 3
    assert await stage.database.read(lambda c: principal.waiting(c, stage.owner)) == 0
    assert await stage.verified()


async def test_what_was_stopped_or_fell_asleep_is_not_told(stage: Stage) -> None:
    assert stage.manager is not None
    rung = rings(stage.manager)
    await say(stage, "$& sleep 300")
    await say(stage, "$& sleep 301")
    assert "exited" in await say(stage, "stop 1")
    assert await stage.manager.sleep(stage.owner)
    assert rung.empty()
    assert await told(stage) == []
    assert await stage.events("task.ended") == []

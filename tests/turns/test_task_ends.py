"""A background task's end is an event: told once, where its person was last heard, also when nobody waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from agent.operator import Operator
from sandbox_runner import ends
from sandbox_runner.manager import Manager
from tests.turns.stage import Stage
from workspace_store import inbox, inbox_counts
from workspace_store.database import DatabaseUnavailable


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
    assert await stage.database.read(lambda c: inbox_counts.waiting(c, stage.owner)) == 0
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


async def test_an_end_that_the_manager_did_not_live_to_record_is_told_at_the_next_wake_once(stage: Stage) -> None:
    assert stage.manager is not None
    rung = rings(stage.manager)
    await say(stage, "$ true")
    state = stage.folder / "volumes" / str(stage.owner) / "live/home/.nightporter/session_state.json"
    # As a manager that is killed the moment before.
    hear = stage.manager.ends.heard
    stage.manager.ends.heard = lambda *_: None  # type: ignore[method-assign]
    await say(stage, "$& read -t 0.2 x <> <(:); echo half of it; exit 4")
    async with asyncio.timeout(30):
        while not json.loads(state.read_text())["ended"]:
            await asyncio.sleep(0.05)
    await stage.manager._kill(stage.manager._seats[stage.owner])
    stage.manager.ends.heard = hear  # type: ignore[method-assign]
    await say(stage, "$ true")
    async with asyncio.timeout(30):
        assert await rung.get() == stage.owner
    await stage.serve(Operator())
    (said,) = await told(stage)
    assert "ended with exit code 4" in said
    assert "half of it" in said
    assert await stage.manager.sleep(stage.owner)
    assert json.loads(state.read_text())["ended"] == []
    await say(stage, "$ true")
    assert len(await stage.events("task.ended")) == 1


async def test_an_end_waits_for_a_database_that_is_away(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stage.manager is not None
    monkeypatch.setattr(ends, "AGAIN_SECONDS", 0.05)
    rung = rings(stage.manager)
    tries = []

    class Away:
        async def write(self, work: Callable[..., Any]) -> Any:
            tries.append(work)
            if len(tries) < 3:
                raise DatabaseUnavailable("away")
            return await stage.database.write(work)

    stage.manager.ends.database = Away()  # type: ignore[assignment]
    await say(stage, "$& exit 5")
    async with asyncio.timeout(30):
        assert await rung.get() == stage.owner
    assert len(tries) == 3
    assert len(await stage.events("task.ended")) == 1

"""A task may ask for its sandbox to stay awake, within the cap; before it sleeps it is told and waited for."""

from __future__ import annotations

import pytest

from agent.operator import Operator
from sandbox_runner.manager import Manager
from tests.turns.stage import Stage

TASK = "$& porter-awake 1h > asked; trap 'echo told > /workspace/told; exit 0' TERM; while :; do sleep 0.05; done"


async def say(stage: Stage, text: str) -> str:
    message = await stage.hear(text)
    await stage.serve(Operator())
    return "\n".join(await stage.replies(message))


async def asking(stage: Stage, text: str = TASK) -> Manager:
    """A manager whose sandbox has been idle for long enough, with a task that has asked."""
    assert stage.manager is not None
    stage.manager.idle_seconds = 0.0
    await say(stage, text)
    assert "awake until" in await say(stage, "$ until grep -s awake asked; do sleep 0.05; done")
    return stage.manager


async def test_a_task_that_asked_keeps_its_sandbox_awake(stage: Stage) -> None:
    manager = await asking(stage)
    assert await manager._idle() == []
    assert "sleeps when it is idle" in await say(stage, "$ porter-awake 0")
    assert await manager._idle() == [stage.owner]


async def test_never_beyond_the_cap(stage: Stage) -> None:
    manager = await asking(stage)
    manager.max_awake_seconds = 0.0
    assert await manager._idle() == [stage.owner]


async def test_only_while_a_task_runs(stage: Stage) -> None:
    manager = await asking(stage)
    await say(stage, "stop 1")
    assert await manager._idle() == [stage.owner]


@pytest.mark.parametrize(
    "planted",
    [
        "echo soon > F",
        "yes 9 | head -c 1000000 | tr -d '\\n' > F",
        "rm F; ln -s /etc/hostname F",
        "rm F; mkfifo F",
        "rm F; mkdir F",
    ],
)
async def test_a_wish_that_is_none_puts_off_nothing(stage: Stage, planted: str) -> None:
    manager = await asking(stage)
    await say(stage, f"$ {planted.replace('F', '~/.nightporter/awake')}")
    assert await manager._idle() == [stage.owner]


async def test_what_is_no_time_is_refused_with_how_to_say_it(stage: Stage) -> None:
    for wrong in ("", "soon", "-1", "99999999999", "1d"):
        assert "usage: porter-awake SECONDS" in await say(stage, f"$ porter-awake {wrong}")


async def test_a_task_is_told_before_its_sandbox_sleeps_and_waited_for(stage: Stage) -> None:
    manager = await asking(stage)
    assert manager.task_grace == 10.0
    assert await manager.sleep(stage.owner)
    (workspace,) = stage.folder.glob("volumes/*/live/workspace")
    assert (workspace / "told").read_text() == "told\n"
    assert manager.awake() == []


async def test_a_task_that_does_not_listen_is_ended_after_the_grace(stage: Stage) -> None:
    manager = await asking(stage, "$& porter-awake 1h > asked; trap '' TERM; while :; do sleep 0.05; done")
    manager.task_grace = 0.3
    assert await manager.sleep(stage.owner)
    assert manager.awake() == []

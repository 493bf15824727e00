"""One message ends its runner each time, beside 99 that are innocent: it alone is set aside, and told."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from uuid import UUID

import pytest

from agent.engine import Step
from agent.trajectory import Context
from router.runner import POISON_CRASHES, SUSPECT_CRASHES
from router.sweeper import Sweeper
from sandbox_runner import texts
from tests import processes
from tests.turns.stage import Scripted, Stage, answer
from workspace_store import principal

INNOCENT = 99
POISON = "poison"


def runner(folder: Path, url: str, life: int) -> None:
    """A runner's life: until nothing waits any more, or until the poison ends it."""
    begun = folder / f"begun-{life}"
    begun.mkdir()

    async def think(context: Context) -> Step:
        words = context.turn[0].text
        (begun / words.replace(" ", "-")).touch()
        if life < SUSPECT_CRASHES:
            # All of them think at once, and none is done when it happens.
            while len(os.listdir(begun)) <= INNOCENT or words != POISON:
                await asyncio.sleep(0.01)
        if words == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(context, f"answer to {words}")

    async def live() -> None:
        stage = Stage(folder, url)
        async with stage.running(Scripted(think, looks_back=False)) as found:
            tasks: set[asyncio.Task[None]] = set()

            def serve(owner: UUID) -> bool:
                task = asyncio.create_task(found.serve(owner))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                return True

            found.again = serve
            sweeping = asyncio.create_task(Sweeper(found.id, stage.database, stage.lives, serve, found.held).run())
            while (await stage.database.read(principal.figures))["waiting"]:
                await asyncio.sleep(0.05)
            sweeping.cancel()
            await asyncio.gather(sweeping, *tasks, return_exceptions=True)
        stage.database.close()

    asyncio.run(live())


@pytest.mark.slow
async def test_poison_is_set_aside_and_the_99_beside_it_are_not(tmp_path: Path, sqlite_url: str) -> None:
    stage = Stage(tmp_path, sqlite_url)
    innocent = {f"hello {number}": await stage.hear(f"hello {number}", user=f"u{number}") for number in range(INNOCENT)}
    poison = await stage.hear(POISON, user="mallory")
    behind = await stage.hear("the next one", thread="another", user="mallory")
    lives = 0
    while processes.codes(processes.start(runner, tmp_path, sqlite_url, lives)) != [0]:
        lives += 1
        assert lives < 20
    assert lives == SUSPECT_CRASHES + POISON_CRASHES, "it ended two with others in them, and three when it ran alone"

    async def found(message: UUID) -> tuple[str, list[str]]:
        return await stage.status(message), await stage.replies(message)

    assert await found(poison) == ("set_aside", [texts.set_aside(POISON_CRASHES)])
    assert await found(behind) == ("done", ["answer to the next one"])
    for words, message in innocent.items():
        assert await found(message) == ("done", [f"answer to {words}"])
    stage.database.close()

"""A turn that is cut off goes on from what it recorded: nothing recorded is asked or run again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from agent.engine import Step
from agent.trajectory import Context
from tests.turns.stage import Crash, Scripted, Stage, answer, shell
from workspace_store.database import Database


def results(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "tool"]


def workspace(stage: Stage, name: str) -> str:
    return (stage.folder / "volumes" / str(stage.owner) / "live" / "workspace" / name).read_text()


async def two_commands(context: Context) -> Step:
    if len(results(context)) < 2:
        return shell(len(results(context)) + 1, f"echo line{len(results(context)) + 1} >> log; cat log")
    return answer(context)


async def test_recorded_answers_and_results_are_used_again(stage: Stage) -> None:
    async def crashing(context: Context) -> Step:
        if len(results(context)) == 2:
            raise Crash
        return await two_commands(context)

    message = await stage.hear("go")
    await stage.crash(Scripted(crashing))
    assert await stage.status(message) == "running"
    engine = Scripted(two_commands)
    await stage.serve(engine)
    assert engine.asked == 1, "only for what was not recorded"
    assert workspace(stage, "log") == "line1\nline2\n"
    assert len(await stage.replies(message)) == 1
    assert len(await stage.events("tool.returned")) == 2
    assert len(await stage.events("turn.started")) == 2
    assert await stage.events("turn.rolled_back") == []
    assert await stage.verified()


async def test_a_result_whose_shell_state_is_gone_is_rolled_back_and_told(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        return answer(context) if results(context) else shell(1, "cd /tmp; echo moved")

    async def crashing(context: Context) -> Step:
        if results(context):
            raise Crash
        return await one_command(context)

    message = await stage.hear("go")
    await stage.crash(Scripted(crashing))
    # The host is lost and what is there is an older state: the shell is a command behind.
    assert stage.manager is not None
    await stage.manager.close(0)
    state = stage.folder / "volumes" / str(stage.owner) / "live" / "home" / ".nightporter" / "session_state.json"
    older = json.loads(state.read_text())
    older["terminals"]["main"]["cwd"] = "/workspace"
    state.write_text(json.dumps(older))
    stage.socket.unlink()
    async with stage.managing():
        await stage.serve(Scripted(one_command))
    assert len(await stage.events("turn.rolled_back")) == 1
    reply = (await stage.replies(message))[0]
    assert "was lost with its sandbox" in reply
    assert "moved" in reply
    assert len(await stage.events("tool.returned")) == 1, "it was not run again"


@contextlib.asynccontextmanager
async def cut_off(stage: Stage, engine: Scripted, when: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Serve, and leave as a SIGKILL does once ``when`` is true: connection dropped, lease not given back."""
    async with stage.running(engine) as runner:
        serving = asyncio.create_task(runner.serve(stage.owner))
        while not await when():
            await asyncio.sleep(0.005)
        runner.database = Database(stage.url)
        runner.database.close()
        runner.turns.sandboxes.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    yield


async def test_a_command_under_way_is_fetched_from_the_sandbox_that_lived_on(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        return answer(context) if results(context) else shell(1, "echo once >> log; sleep 1; cat log")

    async def begun() -> bool:
        return bool(list((stage.folder / "volumes").glob("*/live/workspace/log")))

    message = await stage.hear("go")
    async with cut_off(stage, Scripted(one_command), begun):
        await stage.serve(Scripted(one_command))
    assert workspace(stage, "log") == "once\n"
    assert "once" in (await stage.replies(message))[0]
    assert "interrupted" not in (await stage.replies(message))[0]


async def test_a_command_that_provably_never_began_is_run(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        return answer(context) if results(context) else shell(1, "echo once >> log; cat log")

    message = await stage.hear("go")
    async with stage.running(Scripted(one_command)) as runner:
        ask = runner.turns.sandboxes.ask

        async def crash_before_it_is_sent(op: str, *arguments: object, **more: object) -> object:
            if op == "run":
                raise Crash
            return await ask(op, *arguments, **more)  # type: ignore[arg-type]

        runner.turns.sandboxes.ask = crash_before_it_is_sent  # type: ignore[method-assign,assignment]
        with contextlib.suppress(Crash):
            await runner.serve(stage.owner)
    assert len(await stage.events("tool.requested")) == 1
    await stage.serve(Scripted(one_command))
    assert workspace(stage, "log") == "once\n"
    assert "interrupted" not in (await stage.replies(message))[0]


async def test_a_command_whose_sandbox_died_is_closed_as_uncertain_and_never_run_again(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        if results(context):
            return answer(context)
        return shell(1, "echo once >> log; kill -9 -1; sleep 5")

    message = await stage.hear("go")
    assert stage.manager is not None
    await stage.serve(Scripted(one_command))
    assert workspace(stage, "log") == "once\n"
    assert len(await stage.replies(message)) == 1
    assert await stage.verified()

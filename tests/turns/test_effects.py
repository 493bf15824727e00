"""What a turn did outside counts, also when the turn is cut off; and what nobody knows is told."""

from __future__ import annotations

import asyncio
import os
import signal
from uuid import UUID, uuid4

from agent.engine import Step
from agent.trajectory import Context
from tests.turns.stage import Scripted, Stage, answer, shell
from workspace_store import effects, inbox
from workspace_store.database import now_us
from workspace_store.effects import Effect, Status


async def write(stage: Stage, method: str, host: str, status: Status, *, told: bool = True, reason: str = "") -> UUID:
    """An effect of the turn that runs now, as the proxy writes it."""
    identifier = uuid4()

    def transaction(connection: object) -> None:
        turn = inbox.running_turn(connection, stage.owner)  # type: ignore[arg-type]
        outcome = 201 if status == "settled" else None
        row = Effect(
            identifier, stage.owner, 1, turn, "egress-here-1", host, 443, method, "p", "r", status, now_us(), outcome,
            reason, 5, 6, now_us(), told,
        )  # fmt: skip
        effects.write(connection, [row])  # type: ignore[arg-type]

    await stage.database.write(transaction)
    return identifier


def results(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "tool"]


async def test_an_interrupted_command_s_result_names_what_went_out(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        if results(context):
            return answer(context)
        await write(stage, "POST", "api.example", "settled")
        await write(stage, "GET", "news.example", "settled")
        return shell(1, "touch begun; sleep 30")

    message = await stage.hear("go")
    serving = asyncio.create_task(stage.serve(Scripted(one_command)))
    async with asyncio.timeout(60):
        while not list((stage.folder / "volumes").glob("*/live/workspace/begun")):
            await asyncio.sleep(0.01)
        assert stage.manager is not None
        (seat,) = stage.manager._seats.values()
        assert seat.awake is not None
        os.kill(seat.awake.running.pid, signal.SIGKILL)
        await serving
    (reply,) = await stage.replies(message)
    assert "This was interrupted" in reply
    assert "POST to api.example (answered with 201)" in reply
    assert "news.example" not in reply, "asking changed nothing"


async def test_what_was_refused_or_is_uncertain_is_told_once(stage: Stage) -> None:
    async def two_commands(context: Context) -> Step:
        if not results(context):
            await write(stage, "CONNECT", "other.example", "refused", told=False, reason="it is not allowed")
            await write(stage, "POST", "api.example", "uncertain", told=False, reason="the proxy ended")
            return shell(1, "echo first")
        if len(results(context)) == 1:
            return shell(2, "echo second")
        return answer(context)

    message = await stage.hear("go")
    await stage.serve(Scripted(two_commands))
    (reply,) = await stage.replies(message)
    first, second = (event.body or {} for event in await stage.events("tool.returned"))
    assert "Egress refused other.example: it is not allowed" in first["text"]
    assert "nobody saw how POST to api.example ended" in first["text"]
    assert second["text"] == "```\nsecond\n```"
    assert reply.count("other.example") == 1
    assert await stage.database.read(lambda connection: effects.untold(connection, stage.owner)) == []


async def test_a_hundred_refusals_are_told_in_a_few_lines(stage: Stage) -> None:
    async def one_command(context: Context) -> Step:
        if results(context):
            return answer(context)
        for number in range(20):
            await write(stage, "CONNECT", f"h{number}.example", "refused", told=False, reason="not allowed")
            await write(stage, "CONNECT", "same.example", "refused", told=False, reason="not allowed")
        await write(stage, "POST", "api.example", "uncertain", told=False, reason="the proxy ended")
        return shell(1, "echo done")

    message = await stage.hear("go")
    await stage.serve(Scripted(one_command))
    (reply,) = await stage.replies(message)
    assert reply.count("same.example") == 1
    assert len(reply.splitlines()) < 15
    assert "POST to api.example" in reply, "what is uncertain is never left out for what was only refused"
    assert "16 more; `/egress` lists them" in reply
    assert await stage.database.read(lambda connection: effects.untold(connection, stage.owner)) == []

"""What a turn tells while it runs: what runs, and the answer so far; and that its end takes a draft's place."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agent.engine import Step
from agent.trajectory import Context
from sandbox_runner.progress import ANSWER_SECONDS, TurnProgress
from tests.turns.stage import Scripted, Stage, answer, shell
from workspace_store import drafts, outbox


def results(context: Context) -> int:
    return len([said for said in context.turn if said.role == "tool"])


async def test_a_turn_tells_what_runs_and_what_its_engine_writes(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if results(context):
            assert engine.progress is not None
            engine.progress.answering("It is ")
            return answer(context, "It is done")
        return shell(1, "echo one; # and\necho two")

    engine = Scripted(script)
    message = await stage.hear("go")
    await stage.serve(engine)
    told = [news["progress"] for news in stage.told if "progress" in news]
    assert [item.get("doing") for item in told] == ["echo one; # and…", "", None]
    assert told[2]["text"] == "It is "
    assert {item["message"] for item in told} == {message.hex}
    assert stage.told[-1] == {"bell": "outbox", "turn": told[0]["turn"]}


async def test_the_reply_takes_the_place_of_the_draft(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if results(context):
            return answer(context, "the end")
        assert engine.progress is not None
        turn = engine.progress.turn  # type: ignore[attr-defined]
        await stage.database.write(lambda connection: drafts.begin(
            connection, turn, message, "gateway", lambda _: False, lambda row: {"text": "", "reply": {}}
        ))  # fmt: skip
        return shell(1, "true")

    engine = Scripted(script)
    message = await stage.hear("go")
    await stage.serve(engine)
    (row,) = await stage.database.read(lambda connection: connection.execute(outbox.outbox.select()).all())
    assert (row.status, row.inbox, row.claimed_by) == ("queued", message, "gateway")
    assert await stage.replies(message) == ["the end"]


def test_of_an_answer_that_grows_fast_some_pieces_are_dropped() -> None:
    told: list[dict[str, Any]] = []
    now = 100.0
    progress = TurnProgress(UUID(int=1), UUID(int=2), UUID(int=3), lambda _, news: told.append(news), lambda: now)
    for number in range(10):
        progress.answering("x" * number)
    now += ANSWER_SECONDS
    progress.answering("all")
    assert [news["progress"]["text"] for news in told] == ["", "all"]

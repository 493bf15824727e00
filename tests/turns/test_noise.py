"""A noisy command is read without its noise; whole, it stays in its blob."""

from __future__ import annotations

from agent.engine import Step
from agent.trajectory import Context
from tests.turns.stage import Scripted, Stage, answer, shell

NOISY = (
    r"for i in $(seq 3000); do printf '\r\033[32m%d of 3000\033[0m' $i; done; echo; "
    "for i in $(seq 500); do echo waiting for the server; done; echo sha 9f86d081884c7d65"
)


async def test_a_progress_bar_and_repeated_lines_are_dropped_before_the_preview(stage: Stage) -> None:
    read = []

    async def script(context: Context) -> Step:
        results = [said.text for said in context.turn if said.role == "tool"]
        if not results:
            return shell(1, NOISY)
        read.extend(results)
        return answer(context, "Done.")

    await stage.hear("start it")
    await stage.serve(Scripted(script))
    (returned,) = await stage.events("tool.returned")
    body = returned.body or {}
    assert read == [body["text"]]
    assert read[0].strip("`\n").split("\n")[-4:] == [
        "3000 of 3000",
        "waiting for the server",
        "[… the same line 499 more times …]",
        "sha 9f86d081884c7d65",
    ]
    assert len(read[0]) < 200
    assert stage.blobs.get(stage.owner, body["blob"]).decode().count("waiting for the server") == 500

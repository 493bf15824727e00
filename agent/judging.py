"""A second opinion on a claim: a model that is told goal and evidence, and nothing else, says whether it is met.

It has no tools and no memory, and it never hears who claims. Its answer begins with one of two words; any other answer
decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent import task_texts as texts
from agent.engine import Engine, EngineError, Step
from agent.progress import SILENT
from agent.trajectory import Context, Said
from workspace_store.tasks import Task

ASKED = "claim"
VERDICT = re.compile(r"\W*(?P<word>NOT[ _-]?MET|MET)\b[\W_]*(?P<why>.*)", re.DOTALL)
TRIES = 2


@dataclass(frozen=True)
class Judgement:
    """``met`` None: nothing was decided, and ``why`` says what to do about it. ``steps`` are to be paid for."""

    met: bool | None
    why: str
    steps: tuple[Step, ...] = ()


async def judge(engine: Engine, task: Task, facts: Sequence[str]) -> Judgement:
    """Ask ``engine`` about a claimed task. ``facts``: what the runtime itself recorded of the work."""
    said = Said("user", texts.claim_to_judge(task, facts), message=ASKED, data={"context": texts.evidence(task, facts)})
    context = Context(texts.JUDGE, [], [], [], [said], texts.JUDGE_STATUS)
    steps: list[Step] = []
    for _ in range(TRIES):
        try:
            step = await engine.step(context, SILENT)
        except EngineError as error:
            return Judgement(None, texts.judge_away(str(error)), tuple(steps))
        steps.append(step)
        match = VERDICT.match(step.replies.get(ASKED, ""))
        if match:
            return Judgement(match["word"] == "MET", match["why"].strip(), tuple(steps))
    return Judgement(None, texts.JUDGE_UNCLEAR, tuple(steps))

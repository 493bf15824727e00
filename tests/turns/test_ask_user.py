"""A question to the person ends the turn in ``waiting``; whenever and wherever the answer comes, work goes on."""

from __future__ import annotations

import contextlib
import json

from sqlalchemy import select

from agent.engine import Step, ToolCall
from agent.trajectory import Context
from nightporter.approval_hooks import HOOKS
from router import actions
from tests.turns.stage import Scripted, Stage, answer
from workspace_store import approvals, inbox
from workspace_store.outbox import outbox


def asking(*choices: str) -> Scripted:
    """Asks when told to; says what it heard after."""

    async def script(context: Context) -> Step:
        said = context.turn[0].text
        if said == "paint it":
            arguments = {"question": "Which colour?", "choices": list(choices)}
            return Step((ToolCall("ask", "ask_user", arguments),), text="One thing first.")
        return answer(context, f"heard: {said}")

    return Scripted(script)


async def approval(stage: Stage) -> approvals.Approval:
    (found,) = await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner))
    return found


async def test_it_waits_and_is_answered_in_words(stage: Stage) -> None:
    first = await stage.hear("paint it")
    await stage.serve(asking())
    assert await stage.status(first) == "waiting"
    assert await stage.replies(first) == ["One thing first.\n\nWhich colour?"]
    # Elsewhere something else is said: that is no answer.
    other = await stage.hear("hello", thread="elsewhere")
    await stage.serve(asking())
    assert await stage.replies(other) == ["heard: hello"]
    assert await stage.status(first) == "waiting"
    second = await stage.hear("blue")
    engine = asking()
    await stage.serve(engine)
    assert await stage.replies(second) == ["heard: blue"]
    assert (await stage.status(first), await stage.status(second)) == ("done", "done")
    assert await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner)) == []
    assert await stage.verified()


async def test_a_button_answers_it_once_in_the_same_place(stage: Stage) -> None:
    first = await stage.hear("paint it")
    await stage.serve(asking("Blue", "Dark green"))
    found = await approval(stage)

    def content(connection: object) -> dict[str, object]:
        row = connection.execute(select(outbox.c.content).where(outbox.c.id == found.question)).one()  # type: ignore[attr-defined]
        return dict(json.loads(row.content))

    posted = await stage.database.read(content)
    assert posted["text"] == "One thing first.\n\nWhich colour?\n\n1. Blue\n2. Dark green"
    assert [button["label"] for button in posted["buttons"]] == ["Blue", "Dark green"]  # type: ignore[attr-defined, union-attr]
    value = posted["buttons"][1]["value"]  # type: ignore[index]
    code, choice = value.split()

    def press(connection: object) -> actions.Answered:
        return actions.answer(connection, code, None, "approve", via="button", choice=choice, hooks=HOOKS)  # type: ignore[arg-type]

    pressed = await stage.database.write(press)
    assert pressed.text == "Dark green: Which colour?"
    again = await stage.database.write(press)
    assert again.text.startswith("Already")
    heard: list[str] = []

    async def script(context: Context) -> Step:
        heard.append(context.turn[0].text)
        return answer(context, "Painted.")

    await stage.serve(Scripted(script))
    assert heard == ["[Answer to your question “Which colour?”: Dark green]"]
    assert await stage.status(first) == "done"
    rows = await stage.database.read(lambda connection: inbox.newest(connection, stage.owner))
    assert await stage.replies(rows[0].id) == ["Painted."]


async def test_a_question_cut_off_before_its_commit_is_asked_once(stage: Stage) -> None:
    """The tool's result is recorded: the engine is not asked again what to ask."""
    first = await stage.hear("paint it")
    engine = asking("Blue")
    async with stage.running(engine) as runner:

        async def crash(*_: object) -> None:
            raise KeyboardInterrupt

        runner.turns._save = crash  # type: ignore[method-assign, assignment]
        with contextlib.suppress(KeyboardInterrupt):
            await runner.serve(stage.owner)
    await stage.serve(engine)
    assert engine.asked == 1
    assert await stage.status(first) == "waiting"
    assert len(await stage.events("approval.requested")) == 1

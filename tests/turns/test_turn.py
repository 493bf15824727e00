"""The hand-off contract of a turn, with an engine that says what the test says and everything else real."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import text

from agent.engine import EngineError, Step, ToolCall, Usage
from agent.trajectory import Context
from nightporter.approval_hooks import HOOKS
from router import actions
from tests.turns.stage import Scripted, Stage, answer, shell
from workspace_store import approvals, continuations, inbox, inbox_counts
from workspace_store import tenancy as tenancies
from workspace_store.outbox import Address


def results(context: Context) -> int:
    return len([said for said in context.turn if said.role == "tool"])


async def test_steps_and_results_are_journaled_in_order_and_committed_together(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        return shell(1, "echo one > file; cat file") if not results(context) else answer(context)

    message = await stage.hear("please")
    await stage.serve(Scripted(script))
    assert [event.kind for event in await stage.events()] == [
        "message.received", "turn.started", "model.responded", "sandbox.woken", "tool.requested", "tool.returned",
        "model.responded", "reply.queued", "checkpoint.committed",
    ]  # fmt: skip
    assert "one" in (await stage.replies(message))[0]
    assert await stage.status(message) == "done"
    assert await stage.verified()


async def test_a_turn_without_tools_takes_no_tenancy_and_makes_no_generation(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        return answer(context, "hello")

    await stage.hear("hi")
    await stage.serve(Scripted(script))
    held = await stage.database.read(lambda connection: tenancies.look(connection, stage.owner))
    assert (held.host, held.epoch, held.generation, held.volume_id) == (None, 0, 0, None)
    assert not (stage.folder / "volumes" / str(stage.owner)).exists()


async def test_a_message_that_arrives_meanwhile_is_handed_to_the_running_turn(stage: Stage) -> None:
    heard = []

    async def script(context: Context) -> Step:
        if not results(context):
            heard.append(await stage.hear("and this too"))
            return shell(1, "true")
        return answer(context, f"{len([said for said in context.turn if said.role == 'user'])} messages")

    first = await stage.hear("do this")
    await stage.serve(Scripted(script, takes_messages=True))
    assert await stage.replies(first) == ["2 messages"]
    assert await stage.replies(heard[0]) == ["2 messages"]
    assert len(await stage.events("message.taken")) == 1
    assert len(await stage.events("turn.started")) == 1
    row = await stage.database.read(lambda connection: inbox_counts.waiting(connection, stage.owner))
    assert row == 0


async def test_a_message_of_another_thread_waits_for_its_own_turn(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if not results(context) and context.turn[0].text == "do this":
            await stage.hear("something else", thread="other")
            return shell(1, "true")
        return answer(context, "done")

    await stage.hear("do this")
    await stage.serve(Scripted(script, takes_messages=True))
    assert await stage.events("message.taken") == []
    assert len(await stage.events("turn.started")) == 2


async def test_an_engine_that_fails_is_told_and_the_next_message_runs(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if context.turn[0].text == "bad":
            raise EngineError("the model is not reachable")
        return answer(context, "fine")

    bad, good = await stage.hear("bad"), await stage.hear("good")
    await stage.serve(Scripted(script))
    assert "the model is not reachable" in (await stage.replies(bad))[0]
    assert await stage.status(bad) == "failed"
    assert await stage.replies(good) == ["fine"]


async def test_an_engine_without_end_is_stopped(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        number = results(context)
        return Step(calls=(ToolCall(f"call-{number}", "recall", {"query": "x"}),))

    message = await stage.hear("run away")
    await stage.serve(Scripted(script))
    assert "50 steps" in (await stage.replies(message))[0]


async def test_an_unknown_tool_is_a_result_and_no_failure(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        return answer(context) if results(context) else Step(calls=(ToolCall("call-1", "fly", {}),))

    message = await stage.hear("fly")
    await stage.serve(Scripted(script))
    assert "no tool called fly" in (await stage.replies(message))[0]


async def test_stop_ends_a_running_command_and_what_waited_before_it(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        if not results(context):
            await stage.hear("/stop")
        return shell(1, "sleep 30") if not results(context) else answer(context, "not reached")

    first, waiting = await stage.hear("long"), await stage.hear("later")
    await stage.serve(Scripted(script))
    assert await stage.replies(first) == ["Stopped."]
    assert await stage.replies(waiting) == ["Not started: you said /stop."]
    assert await stage.verified()


async def test_what_is_said_after_stop_is_no_part_of_the_turn_that_stops(stage: Stage) -> None:
    later = []

    async def script(context: Context) -> Step:
        if context.turn[0].text != "long":
            return answer(context, "fresh")
        if not results(context):
            await stage.hear("/stop")
            later.append(await stage.hear("do this instead"))
        return shell(1, "true") if not results(context) else answer(context, "not reached")

    first = await stage.hear("long")
    await stage.serve(Scripted(script, takes_messages=True))
    assert await stage.replies(first) == ["Stopped."]
    assert await stage.replies(later[0]) == ["fresh"]


async def test_in_a_room_only_the_same_members_words_in_the_same_thread_reach_a_running_turn(stage: Stage) -> None:
    said = []

    async def script(context: Context) -> Step:
        if not results(context) and context.turn[0].text == "do this":
            await stage.hear("not mine", user="bob", room="C1")
            await stage.hear("and this", user="ann", room="C1")
            await stage.hear("elsewhere", user="ann", room="C1", thread="other")
            return shell(1, "true")
        said.append([(found.text, found.speaker.partition(" (")[0]) for found in context.turn if found.role == "user"])
        return answer(context, "done")

    await stage.hear("do this", user="ann", room="C1")
    await stage.serve(Scripted(script, takes_messages=True))
    assert said == [
        [("do this", "ann"), ("and this", "ann")],
        [("not mine", "bob")],
        [("elsewhere", "ann")],
    ]


async def test_who_was_blocked_while_they_waited_starts_nothing_in_a_room(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        return answer(context, "done")

    bob = await stage.hear("do this", user="bob", room="C1")
    ann = await stage.hear("hello", user="ann", room="C1")
    blocked = text("UPDATE user_account SET blocked = true WHERE display_name = 'bob'")
    await stage.database.write(lambda connection: connection.execute(blocked))
    await stage.serve(Scripted(script))
    assert (await stage.replies(bob), await stage.replies(ann)) == ([], ["done"])
    assert [event.body["message"] for event in await stage.events("message.dropped") if event.body] == [bob.hex]
    assert await stage.verified()


async def test_what_was_under_way_is_answered_where_the_person_went_on(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        left, there = Address("local", "", "owner", ""), Address("local", "", "elsewhere", "t")
        (row,) = await stage.database.read(lambda c: inbox.newest(c, stage.owner, limit=1))
        await stage.database.write(lambda c: continuations.write(c, stage.owner, row.seq + 1, left, there))
        return answer(context, "done")

    message = await stage.hear("long work")
    await stage.serve(Scripted(script))
    query = text("SELECT conversation, thread FROM outbox")
    assert list(await stage.database.read(lambda c: c.execute(query).all())) == [("elsewhere", "t")]
    assert await stage.replies(message) == ["done"]


async def test_one_answer_over_a_small_budget_is_enough_to_go_on(stage: Stage) -> None:
    """Also where a single turn costs more than a day may; the sum is said so that it can be read."""

    async def script(context: Context) -> Step:
        return Step(replies=answer(context, "It is done.").replies, model="dear", usage=Usage(1000, 100, 0, 4_500))

    engine = Scripted(script)
    await stage.hear("first")
    await stage.hear("second")
    for _ in range(2):
        async with stage.running(engine) as runner:
            runner.turns.daily_budget_usd = 0.001
            await runner.serve(stage.owner)
        waiting = await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner))
        for asked in waiting:
            assert asked.text == "spend another $0.0045 on models today"
            await stage.database.write(
                lambda connection, code=asked.code: actions.answer(
                    connection, code, None, "approve", via="cli", hooks=HOOKS
                )
            )
    assert engine.asked == 2
    query = text("SELECT content FROM outbox")
    said = await stage.database.read(lambda c: c.execute(query).scalars().all())
    assert len([content for content in said if "It is done." in content]) == 2


async def test_over_the_days_budget_an_admin_is_asked_and_the_answer_goes_on(stage: Stage) -> None:
    dear = Step(replies={}, model="dear", usage=Usage(1000, 100, 0, 600_000))

    async def script(context: Context) -> Step:
        return replace(dear, replies=answer(context, "It is done.").replies)

    engine = Scripted(script)
    first, second, third = [await stage.hear(f"question {number}") for number in range(3)]
    async with stage.running(engine) as runner:
        runner.turns.daily_budget_usd = 1.0
        await runner.serve(stage.owner)
    assert engine.asked == 2
    assert await stage.replies(second) == ["It is done."]
    told = await stage.replies(third)
    assert any("budget" in text and "/approve" in text for text in told)
    (asked,) = await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner))
    answered = await stage.database.write(
        lambda connection: actions.answer(connection, asked.code, None, "approve", via="cli", hooks=HOOKS)
    )
    assert answered.decision.outcome == "decided"
    async with stage.running(engine) as runner:
        runner.turns.daily_budget_usd = 1.0
        await runner.serve(stage.owner)
    assert engine.asked == 3
    assert await stage.replies(first) == ["It is done."]

"""What a turn takes in: bursts as one message, what arrives meanwhile by each mode, and /stop at once."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from agent.engine import Step
from agent.trajectory import Context
from identity.users import Claim
from nightporter.testing.web import until
from router.changes import Change, Changes, Recorded
from router.inbox import Settling
from sandbox_runner import texts
from tests.turns.stage import Crash, Scripted, Stage, answer, shell
from workspace_store import bursts, inbox, inbox_counts, outbox, principal

OWNER = Claim("local", "", "owner", "owner", "token")


def asked(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "user"]


def about(context: Context) -> str:
    return "".join(str(said.data.get("context", "")) for said in context.turn)


async def tell(stage: Stage, kind: Any, key: str, text: str = "", *, own: str = "1") -> Recorded:
    """A change of what the owner said under ``key``."""
    found: list[Recorded] = []
    change = Change(kind, f"local::change:{own}:{kind}:{key}", f"local::{key}", OWNER, "", "owner", text=text)
    await Changes(stage.database, found.append)(change)
    return found[0]


async def waiting(stage: Stage) -> int:
    return await stage.database.read(lambda connection: inbox_counts.waiting(connection, stage.owner))


class Repeater:
    """Answers with the number of messages and their words."""

    def __init__(self) -> None:
        self.heard: list[list[str]] = []
        self.about: list[str] = []

    async def __call__(self, context: Context) -> Step:
        self.heard.append(asked(context))
        self.about.append(about(context))
        return answer(context, " & ".join(asked(context)))


# Bursts


async def serve_when_settled(stage: Stage, script: Any) -> None:
    """As a runner does: look, give the lease back, and come again at the time."""
    async with stage.running(Scripted(script)) as runner:
        while await waiting(stage):
            stage.again.clear()
            await runner.serve(stage.owner)
            if await waiting(stage):
                await until(lambda: stage.again, "the runner comes again", 5)


async def test_a_burst_is_one_turn_with_one_answer_in_the_order_it_was_said(stage: Stage) -> None:
    engine = Repeater()
    first = await stage.hear("first", more=True, order=1)
    third = await stage.hear("third", more=True, order=3)
    second = await stage.hear("second", more=True, order=2)
    await serve_when_settled(stage, engine)
    assert engine.heard == [["first\nsecond\nthird"]]
    assert await stage.replies(first) == ["first\nsecond\nthird"]
    assert [await stage.status(one) for one in (first, second, third)] == ["done"] * 3
    assert len(await stage.events("turn.started")) == 1


async def test_a_lone_message_is_served_at_once_also_while_another_strand_settles(stage: Stage) -> None:
    stage.settling = Settling(30, 30)
    engine = Repeater()
    await stage.hear("settling", thread="a", more=True)
    behind = await stage.hear("behind it", user="owner", thread="a")
    lone = await stage.hear("lone", thread="b", more=False)
    stage.settling = Settling()
    await stage.serve(Scripted(engine))
    # What followed ended the settling, so that both strands were served, in order of arrival.
    assert engine.heard == [["settling\nbehind it"], ["lone"]]
    await stage.hear("settling again", thread="a", more=True)
    lone = await stage.hear("lone again", thread="b")
    await stage.serve(Scripted(engine))
    assert engine.heard[2:] == [["lone again"]]
    assert await stage.status(lone) == "done"
    assert await stage.status(behind) == "done"


async def test_what_settles_is_neither_served_early_nor_held_by_a_lease(stage: Stage) -> None:
    engine = Repeater()
    before = time.monotonic()
    await stage.hear("settling", more=True)
    async with stage.running(Scripted(engine)) as runner:
        await runner.serve(stage.owner)
        assert engine.heard == []
        owner = await stage.database.read(lambda connection: principal.look(connection, stage.owner))
        assert owner is not None
        assert owner.owner is None
        await until(lambda: stage.again == [stage.owner], "it comes again by itself", 5)
        assert time.monotonic() - before >= 0.3
        await runner.serve(stage.owner)
    assert engine.heard == [["settling"]]


async def test_settling_goes_on_with_each_sign_but_is_bounded(stage: Stage) -> None:
    stage.settling = Settling(0.4, 0.9)
    first = await stage.hear("0", more=True)
    began = time.monotonic()
    settles = []
    while time.monotonic() - began < 0.8:
        await asyncio.sleep(0.2)
        await stage.hear("more", more=True)
        row = await stage.database.read(lambda connection: inbox.get(connection, first))
        assert row is not None
        settles.append(row.settles_at - row.received_at)
    assert settles == sorted(settles)
    assert settles[0] > 400_000
    assert max(settles) <= 900_000


async def test_a_burst_behind_one_that_has_settled_goes_on_settling(stage: Stage) -> None:
    engine = Repeater()
    stage.settling = Settling(0, 0)
    await stage.hear("settled, and not yet served", more=True)
    stage.settling = Settling(30, 30)
    await stage.hear("first", more=True)
    await stage.hear("second", more=True)
    await stage.hear("third")
    await stage.serve(Scripted(engine))
    assert engine.heard == [["settled, and not yet served"], ["first\nsecond\nthird"]]


async def test_a_burst_whose_first_part_settles_no_longer_is_still_one(stage: Stage) -> None:
    """An earlier release writes no time there once it knows that no more comes."""
    engine = Repeater()
    stage.settling = Settling(30, 30)
    first = await stage.hear("first", more=True)
    await stage.hear("second", more=True)
    await stage.database.write(lambda connection: bursts.settle(connection, first, 0))
    await stage.serve(Scripted(engine))
    assert engine.heard == [["first\nsecond"]]


async def test_a_burst_that_a_crash_cut_off_is_still_one(stage: Stage) -> None:
    async def crash(context: Context) -> Step:
        raise Crash

    engine = Repeater()
    first, second = await stage.hear("one", more=True), await stage.hear("two")
    await stage.crash(Scripted(crash))
    await stage.serve(Scripted(engine))
    assert engine.heard == [["one\ntwo"]]
    assert await stage.replies(first) == ["one\ntwo"]
    assert await stage.status(second) == "done"
    assert await waiting(stage) == 0


async def test_another_person_does_not_join_a_burst(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("mine", room="r", more=True)
    await stage.hear("yours", room="r", user="ben")
    await serve_when_settled(stage, engine)
    assert [len(heard) for heard in engine.heard] == [1, 1]


async def test_stop_ends_what_settles_at_once_with_one_answer(stage: Stage) -> None:
    stage.settling = Settling(30, 30)
    engine = Repeater()
    first = await stage.hear("one", more=True)
    await stage.hear("two", more=True)
    await stage.hear("/stop")
    await stage.serve(Scripted(engine))
    assert engine.heard == []
    assert await stage.replies(first) == [texts.STOPPED_BEFORE]
    assert await waiting(stage) == 0


# Modes


def meanwhile(stage: Stage, engine: Repeater, heard: list[UUID], *words: str) -> Any:
    """A script in whose first turn more is said while a command runs."""

    async def script(context: Context) -> Step:
        if not heard:
            heard.extend([await stage.hear(word) for word in words])
            return shell(1, "true")
        return await engine(context)

    return script


async def test_steer_hands_it_to_the_running_turn(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("first")
    await stage.serve(Scripted(meanwhile(stage, engine, [], "second", "third"), takes_messages=True))
    assert engine.heard == [["first", "second", "third"]]


async def test_queue_gives_each_a_turn_of_its_own(stage: Stage) -> None:
    stage.arrivals = "queue"
    engine = Repeater()
    await stage.hear("first")
    await stage.serve(Scripted(meanwhile(stage, engine, [], "second", "third"), takes_messages=True))
    assert engine.heard == [["first"], ["second"], ["third"]]


async def test_the_replies_of_a_turn_go_out_in_the_order_of_what_they_answer(
    tmp_path: Path, postgresql_url: str
) -> None:
    """On PostgreSQL, where what a turn's end writes goes in one statement."""
    stage = Stage(tmp_path, postgresql_url, arrivals="collect")

    async def script(context: Context) -> Step:
        return Step(replies={said.message: said.text for said in context.turn if said.role == "user"})

    words = [f"question {number}" for number in range(5)]
    async with stage.managing():
        for one in words:
            await stage.hear(one)
        await stage.serve(Scripted(script))
    rows = select(outbox.outbox.c.content).order_by(outbox.outbox.c.number)
    found = await stage.database.read(lambda connection: connection.execute(rows).scalars().all())
    stage.database.close()
    assert [json.loads(content)["text"] for content in found] == words


async def test_collect_makes_one_turn_of_what_waits(stage: Stage) -> None:
    stage.arrivals = "collect"
    engine = Repeater()
    heard: list[UUID] = []
    await stage.hear("first")
    await stage.hear("elsewhere", thread="other")
    await stage.serve(Scripted(meanwhile(stage, engine, heard, "second", "third"), takes_messages=True))
    assert engine.heard == [["first"], ["elsewhere"], ["second", "third"]]
    assert [await stage.status(one) for one in heard] == ["done", "done"]


async def test_interrupt_ends_the_running_turn_and_goes_on_with_the_newer_message(stage: Stage) -> None:
    stage.arrivals = "interrupt"
    engine = Repeater()

    async def script(context: Context) -> Step:
        if asked(context) == ["first"]:
            await stage.hear("second")
            await stage.hear("elsewhere", thread="other")
            return shell(1, "sleep 30")
        return await engine(context)

    first = await stage.hear("first")
    began = time.monotonic()
    await stage.serve(Scripted(script, takes_messages=True))
    assert time.monotonic() - began < 20
    assert await stage.replies(first) == [texts.INTERRUPTED]
    assert engine.heard == [["second"], ["elsewhere"]]
    (stopped,) = await stage.events("turn.stopped")
    assert stopped.body == {"interrupted": True}


@pytest.mark.parametrize("while_", ["the model thinks", "a command runs"])
async def test_stop_ends_a_turn_within_two_seconds(stage: Stage, while_: str) -> None:
    said_stop = 0.0

    async def script(context: Context) -> Step:
        nonlocal said_stop
        said_stop = time.monotonic()
        await stage.hear("/stop")
        if while_ == "the model thinks":
            await asyncio.sleep(60)
        return shell(1, "sleep 60")

    await stage.serve(Scripted(lambda context: ready(context)))  # The sandbox's first start is not what is measured.
    first = await stage.hear("think long")
    await stage.serve(Scripted(script))
    assert await stage.replies(first) == [texts.STOPPED]
    assert time.monotonic() - said_stop < 6  # two seconds, and what a loaded machine adds
    assert await stage.verified()


async def ready(context: Context) -> Step:
    return answer(context, "ready")


# Changes


async def test_an_edit_before_the_turn_begins_replaces_the_text(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("$ rm everything", key="m1")
    await tell(stage, "edit", "m1", "list everything")
    await stage.serve(Scripted(engine))
    assert (engine.heard, engine.about) == ([["list everything"]], [""])
    (edited,) = await stage.events("message.edited")
    assert edited.body is not None
    assert (edited.body["text"], edited.body["in_time"]) == ("list everything", True)


async def test_an_edit_of_what_was_looked_at_but_not_begun_still_counts(stage: Stage) -> None:
    engine = Repeater()
    message = await stage.hear("before", key="m1")
    async with stage.running(Scripted(engine)) as runner:
        # While another runs alone, the runner reads the row before the transaction in which its turn begins.
        async with runner.gate.enter(alone=True):
            taken = await runner._take(stage.owner)
        assert taken is not None
        lease, upcoming = taken
        await tell(stage, "edit", "m1", "after")
        await runner._drain(lease, upcoming)
    assert engine.heard == [["after"]]
    assert await stage.replies(message) == ["after"]


async def test_a_later_edit_is_context_of_the_next_turn_once_and_starts_none(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("meet at five", key="m1")
    await stage.serve(Scripted(engine))
    await tell(stage, "edit", "m1", "meet at six")
    await tell(stage, "edit", "m1", "meet at seven", own="2")
    await tell(stage, "edit", "m1", "meet at seven", own="2")
    await stage.serve(Scripted(engine))
    assert len(engine.heard) == 1
    await stage.hear("and?")
    await stage.serve(Scripted(engine))
    assert engine.heard[1:] == [["and?"]]
    assert "'meet at five'" in engine.about[1]
    assert "'meet at seven'" in engine.about[1]
    assert "six" not in engine.about[1]
    await stage.hear("and now?")
    await stage.serve(Scripted(engine))
    assert engine.about[2] == ""
    assert len(await stage.events("message.edited")) == 2


async def test_an_edit_while_its_turn_runs_is_for_the_next_one(stage: Stage) -> None:
    engine = Repeater()

    async def script(context: Context) -> Step:
        if not engine.heard:
            await tell(stage, "edit", "m1", "new words")
        return await engine(context)

    await stage.hear("old words", key="m1")
    await stage.serve(Scripted(script))
    await stage.hear("next")
    await stage.serve(Scripted(script))
    assert engine.heard == [["old words"], ["next"]]
    assert "'new words'" in engine.about[1]


async def test_what_a_crashed_turn_was_told_is_told_again(stage: Stage) -> None:
    async def crash(context: Context) -> Step:
        assert "'new'" in about(context)
        raise Crash

    engine = Repeater()
    await stage.hear("old", key="m1")
    await stage.serve(Scripted(engine))
    await tell(stage, "edit", "m1", "new")
    await stage.hear("next")
    await stage.crash(Scripted(crash))
    await stage.serve(Scripted(engine))
    assert "'new'" in engine.about[1]


async def test_a_message_deleted_before_its_turn_is_not_answered(stage: Stage) -> None:
    engine = Repeater()
    message = await stage.hear("never mind", key="m1")
    await tell(stage, "delete", "m1")
    assert await waiting(stage) == 0
    await stage.serve(Scripted(engine))
    assert engine.heard == []
    assert (await stage.status(message), await stage.replies(message)) == ("withdrawn", [])
    await stage.hear("hello")
    await stage.serve(Scripted(engine))
    assert (engine.heard, engine.about) == ([["hello"]], [""])


async def test_a_deletion_between_the_look_and_the_turn_is_in_time(stage: Stage) -> None:
    engine = Repeater()
    message = await stage.hear("never mind", key="m1")
    async with stage.running(Scripted(engine)) as runner:
        async with runner.gate.enter(alone=True):
            taken = await runner._take(stage.owner)
        assert taken is not None
        await tell(stage, "delete", "m1")
        await runner._drain(*taken)
    assert engine.heard == []
    assert (await stage.status(message), await waiting(stage)) == ("withdrawn", 0)
    assert await stage.events("turn.started") == []


async def test_a_deletion_of_what_began_a_burst_leaves_the_rest(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("first", more=True, key="m1")
    second = await stage.hear("second", more=True)
    third = await stage.hear("third", more=True)
    await tell(stage, "delete", "m1")
    await stage.serve(Scripted(engine))
    assert engine.heard == [["second\nthird"]]
    assert await stage.replies(second) == ["second\nthird"]
    assert await stage.status(third) == "done"
    assert await waiting(stage) == 0


async def test_a_later_deletion_is_context(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("my secret", key="m1")
    await stage.serve(Scripted(engine))
    await tell(stage, "delete", "m1")
    await stage.hear("hello")
    await stage.serve(Scripted(engine))
    assert "deleted" in engine.about[1]
    assert "'my secret'" in engine.about[1]


async def test_only_who_said_it_changes_it(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("as I said", key="m1")
    await stage.hear("hello", user="ben")
    stage.owner = (await inbox_row(stage, "local::m1")).principal
    ben = replace(OWNER, external_id="ben")
    unproven = replace(OWNER, proof="")
    stranger = replace(OWNER, external_id="nobody")
    for number, sender in enumerate((ben, unproven, stranger)):
        for kind in ("edit", "delete"):
            change = Change(kind, f"k{number}{kind}", "local::m1", sender, "", "owner", text="hacked")  # type: ignore[arg-type]
            await Changes(stage.database, lambda _: None)(change)
    await Changes(stage.database, lambda _: None)(Change("edit", "k9", "local::unknown", OWNER, "", "owner", text="x"))
    await stage.serve(Scripted(engine))
    assert engine.heard == [["as I said"]]
    assert await stage.events("message.edited", "message.deleted") == []


async def test_a_command_acts_once_however_it_is_edited(stage: Stage) -> None:
    engine = Repeater()
    await stage.hear("/help", key="m1")
    await stage.hear("hello", key="m2")
    await tell(stage, "edit", "m1", "/stop")
    await tell(stage, "edit", "m2", "/stop")
    await tell(stage, "delete", "m1")
    await stage.serve(Scripted(engine))
    assert engine.heard == [["/stop"]]
    assert await waiting(stage) == 0


async def inbox_row(stage: Stage, key: str) -> inbox.Row:
    row = await stage.database.read(lambda connection: inbox.find(connection, key))
    assert row is not None
    return row

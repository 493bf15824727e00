"""The five ways a restore goes wrong: each is provoked, found by its check, and told in a sentence a person reads.

1 incomplete internal state, 2 inconsistent internal state, 3 stale external dependencies, 4 nondeterministic replay,
5 unrecorded effects.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, text

from agent.engine import Step, ToolCall
from agent.tool import Arguments, Ask, Tool, ToolHost, ToolResult
from agent.toolbox import Toolbox
from agent.tools import TOOLS
from agent.trajectory import Context
from router import actions
from sandbox_runner.restoring import Check
from tests.turns.stage import Crash, Scripted, Stage, answer, shell
from tests.turns.test_effects import write
from workspace_store import approvals, inbox, journal, resting
from workspace_store.database import now_us
from workspace_store.liveness import Life
from workspace_store.volumes import Volumes

APPEND = "echo line >> log; cat log"


def results(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "tool"]


async def one_command(context: Context) -> Step:
    return answer(context) if results(context) else shell(1, APPEND)


async def dies_after_one(context: Context) -> Step:
    if results(context):
        raise Crash
    return shell(1, APPEND)


def log(stage: Stage) -> str:
    return (volume(stage) / "live/workspace/log").read_text()


def volume(stage: Stage) -> Path:
    return stage.folder / "volumes" / str(stage.owner)


async def checks(stage: Stage) -> list[tuple[str, bool]]:
    """What checks have found, and whether work went on; also where the journal cannot be read as a whole."""
    query = (
        "SELECT body FROM journal_event JOIN journal_payload USING (principal, seq) "
        "WHERE kind = 'restore.checked' AND principal = :of ORDER BY seq"
    )
    given = {"of": stage.owner.hex}
    rows = await stage.database.read(lambda connection: connection.execute(text(query), given).scalars().all())
    return [(body["check"], body["repaired"]) for body in map(json.loads, rows)]


async def put_to_sleep(stage: Stage) -> None:
    assert stage.manager is not None
    assert await stage.manager.sleep(stage.owner)


def tamper(connection: Connection, statement: str, **given: object) -> None:
    """Change what the database itself would refuse to: as a damaged disk or a torn copy does."""
    triggers = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    for name, _ in triggers:
        connection.execute(text(f"DROP TRIGGER {name}"))
    assert connection.execute(text(statement), given).rowcount > 0
    for _, sql in triggers:
        connection.exec_driver_sql(sql)


async def seq_of(stage: Stage, kind: str) -> int:
    return (await stage.events(kind))[-1].seq


async def damage(stage: Stage, statement: str, **given: object) -> None:
    await stage.database.write(lambda connection: tamper(connection, statement, of=stage.owner.hex, **given))


# 1. Incomplete internal state


@pytest.mark.parametrize("what", ["the event", "its payload", "half of its payload"])
async def test_a_turn_with_a_cut_event_does_nothing_again_and_says_so(stage: Stage, what: str) -> None:
    message = await stage.hear("go")
    await stage.crash(Scripted(dies_after_one))
    statement = {
        "the event": "DELETE FROM journal_event WHERE principal = :of AND seq = :seq",
        "its payload": "DELETE FROM journal_payload WHERE principal = :of AND seq = :seq",
        "half of its payload": "UPDATE journal_payload SET body = '{\"call' WHERE (principal, seq) = (:of, :seq)",
    }[what]
    cut = await seq_of(stage, "tool.requested")
    await damage(stage, statement, seq=cut)
    engine = Scripted(one_command)
    await stage.serve(engine)
    assert engine.asked == 0
    assert log(stage) == "line\n", "what may have been done was not done again"
    (reply,) = await stage.replies(message)
    assert "I was cut off in this, and did not go on" in reply
    assert f"journal event {cut}" in reply
    assert "nightporter journal verify" in reply
    assert await stage.status(message) == "failed"
    assert await checks(stage) == [(Check.INCOMPLETE, False)]


async def test_with_a_cut_event_behind_it_no_new_message_is_acted_on(stage: Stage) -> None:
    first = await stage.hear("first")
    await stage.serve(Scripted(one_command))
    assert await stage.status(first) == "done"
    last = await stage.hear("second")
    await damage(
        stage,
        "DELETE FROM journal_event WHERE principal = :of AND seq = :seq",
        seq=await seq_of(stage, "message.received"),
    )
    third = await stage.hear("third")
    engine = Scripted(one_command)
    await stage.serve(engine)
    assert (engine.asked, log(stage)) == (0, "line\n")
    for message in (last, third):
        (reply,) = await stage.replies(message)
        assert "I did not act on this: my records of what came before are not whole" in reply
        assert "nightporter db restore" in reply


@pytest.mark.parametrize("how", ["gone", "damaged"])
async def test_a_recorded_result_whose_blob_is_lost_says_so(stage: Stage, how: str) -> None:
    async def long_output(context: Context) -> Step:
        return answer(context, "went on") if results(context) else shell(1, "echo line >> log; seq 20000")

    async def crashing(context: Context) -> Step:
        if results(context):
            raise Crash
        return await long_output(context)

    message = await stage.hear("go")
    await stage.crash(Scripted(crashing))
    (event,) = await stage.events("tool.returned")
    assert event.body is not None
    blob = stage.folder / "blobs" / str(stage.owner) / event.body["blob"][:2] / event.body["blob"]
    blob.unlink() if how == "gone" else blob.write_bytes(blob.read_bytes()[:-20])
    seen: list[str] = []

    async def looking(context: Context) -> Step:
        seen.extend(results(context))
        return await long_output(context)

    await stage.serve(Scripted(looking))
    (reply,) = await stage.replies(message)
    assert reply.startswith("went on")
    assert "The whole output of an earlier step is lost" in reply
    assert seen[0].startswith("(The whole output of an earlier step is lost"), "who goes on from it knows as well"
    assert log(stage) == "line\n"
    assert await checks(stage) == [(Check.INCOMPLETE, True)]


# 2. Inconsistent internal state


async def refused_volume(stage: Stage) -> str:
    """Say something that needs files, and what is answered; nothing was touched."""
    before = (
        sorted((path, path.stat().st_mtime_ns) for path in volume(stage).rglob("*")) if volume(stage).exists() else []
    )
    message = await stage.hear("again")

    async def says_nothing_of_it(context: Context) -> Step:
        return answer(context, "All done!") if results(context) else shell(1, "touch overwritten")

    await stage.serve(Scripted(says_nothing_of_it))
    after = (
        sorted((path, path.stat().st_mtime_ns) for path in volume(stage).rglob("*")) if volume(stage).exists() else []
    )
    assert after == before
    assert (await checks(stage))[-1] == (Check.INCONSISTENT, False)
    (reply,) = await stage.replies(message)
    return reply


async def generations(stage: Stage, count: int) -> None:
    for number in range(count):
        await stage.hear(f"{number}")
        await stage.serve(Scripted(one_command))
    await put_to_sleep(stage)


async def test_a_volume_behind_its_checkpoint_is_not_touched(stage: Stage) -> None:
    await generations(stage, 1)
    shutil.copytree(volume(stage), stage.folder / "older", symlinks=True)
    await generations(stage, 2)
    shutil.rmtree(volume(stage))
    shutil.move(stage.folder / "older", volume(stage))
    reply = await refused_volume(stage)
    assert "I did not touch your workspace: the volume is at generation" in reply
    assert "Restore database and volumes of the same time" in reply


async def test_another_generation_under_the_same_number_is_not_taken_for_it(stage: Stage) -> None:
    await generations(stage, 1)
    shutil.copytree(volume(stage), stage.folder / "fork", symlinks=True)
    await generations(stage, 1)
    number = json.loads((volume(stage) / "marker.json").read_text())["generation"]
    shutil.rmtree(volume(stage))
    shutil.move(stage.folder / "fork", volume(stage))
    # Somebody worked on with the copy: it has as many generations, with other things in them.
    with Volumes(stage.folder / "volumes").open(stage.owner) as fork:
        while fork.marker().generation < number:
            (fork.workspace / "other").write_text("other")
            fork.snapshot(fork.marker().generation)
    assert "is another one than the database committed under that number" in await refused_volume(stage)


async def test_a_volume_of_another_is_not_mounted(stage: Stage) -> None:
    await generations(stage, 1)
    marker = json.loads((volume(stage) / "marker.json").read_text())
    (volume(stage) / "marker.json").write_text(json.dumps({**marker, "volume": str(uuid4())}))
    assert "is another one than the database names" in await refused_volume(stage)
    (volume(stage) / "marker.json").write_text(json.dumps({**marker, "principal": str(uuid4())}))
    assert "belongs to another principal" in await refused_volume(stage)
    (volume(stage) / "marker.json").write_text(json.dumps(marker))
    message = await stage.hear("now")
    await stage.serve(Scripted(one_command))
    assert "line" in (await stage.replies(message))[0], "once it is right, it goes on"


async def test_a_volume_that_is_not_there_is_not_made_anew(stage: Stage) -> None:
    await generations(stage, 1)
    shutil.move(volume(stage), stage.folder / "elsewhere")
    assert "Mount the storage that `volumes_url` names, or restore it" in await refused_volume(stage)
    assert not volume(stage).exists()


async def test_a_session_bound_to_another_living_host_is_left_to_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for there, and refused where that host does not give it."""
    monkeypatch.setattr("sandbox_runner.seats.HAND_OVER_SECONDS", 0.3)
    await generations(stage, 1)
    other = Life(stage.lives, "sandbox-manager", "elsewhere")
    await stage.database.write(
        lambda c: c.execute(
            text("UPDATE principal SET sandbox_host = :host, sandbox_epoch = sandbox_epoch + 1 WHERE id = :of"),
            {"host": other.id, "of": stage.owner.hex},
        )
    )
    message = await stage.hear("again")
    await stage.serve(Scripted(one_command))
    assert "in use by another host now" in (await stage.replies(message))[0]
    assert log(stage) == "line\n"
    assert await stage.database.read(lambda c: resting.is_to_rest(c, stage.owner)), "it was asked for"
    other.end()
    after = await stage.hear("again")
    await stage.serve(Scripted(one_command))
    assert "line" in (await stage.replies(after))[0]


async def test_a_checkpoint_that_the_database_contradicts_is_not_gone_on_from(stage: Stage) -> None:
    await generations(stage, 1)
    await damage(stage, "UPDATE checkpoint SET generation = generation + 1 WHERE principal = :of")
    message = await stage.hear("again")
    engine = Scripted(one_command)
    await stage.serve(engine)
    assert engine.asked == 0
    assert "names generation" in (await stage.replies(message))[0]
    assert await checks(stage) == [(Check.INCONSISTENT, False)]


async def test_a_generation_that_nobody_committed_is_dropped_and_the_files_stay(stage: Stage) -> None:
    """Provably repairable: the snapshot was there, its runner died before it committed."""
    await generations(stage, 1)
    with Volumes(stage.folder / "volumes").open(stage.owner) as there:
        there.snapshot(there.marker().generation)
    message = await stage.hear("again")
    await stage.serve(Scripted(one_command))
    assert "line\nline" in (await stage.replies(message))[0]
    assert await checks(stage) == []


# 3. Stale external dependencies


async def test_locks_of_what_is_gone_are_taken_over(stage: Stage) -> None:
    await generations(stage, 1)
    await stage.database.write(
        lambda c: c.execute(
            text("UPDATE principal SET owner = 'runner-here-gone', lease_until = :until, sandbox_host = "
                 "'sandbox-manager-here-gone', sandbox_until = :until WHERE id = :of"),
            {"until": now_us() + 3600_000_000, "of": stage.owner.hex},
        )
    )  # fmt: skip
    message = await stage.hear("again")
    await stage.serve(Scripted(one_command))
    assert "line\nline" in (await stage.replies(message))[0]


async def test_an_approval_that_is_used_up_does_not_come_back_to_life(stage: Stage) -> None:
    booked: list[str] = []

    class Room(Arguments):
        room: str

    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        booked.append(str(arguments["room"]))
        return ToolResult("Booked.")

    async def ask(host: ToolHost, arguments: Mapping[str, Any]) -> Ask:
        return Ask("book room 7")

    async def book(context: Context) -> Step:
        if results(context) or context.turn[0].data.get("kind") == "approval":
            return answer(context, "Done!")
        return Step(calls=(ToolCall("call-1", "book", {"room": "7"}),))

    stage.toolbox = Toolbox({**TOOLS, "book": Tool("book", "Book a room.", "once", run, arguments=Room, gate=ask)})
    await stage.hear("book room 7")
    await stage.serve(Scripted(book))
    (found,) = await stage.database.read(lambda connection: approvals.waiting(connection, stage.owner))
    await stage.database.write(lambda c: actions.answer(c, found.id, None, "approve", via="test", hooks={}))
    # The database was set back to between its use and what came of it.
    await stage.database.write(lambda c: c.execute(text("UPDATE approval SET status = 'consumed'")))
    await stage.serve(Scripted(book))
    assert booked == []
    last = [event.body["text"] for event in await stage.events("reply.queued") if event.body][-1]
    assert "what was approved was used already" in last
    assert await checks(stage) == [(Check.STALE, False)]


async def test_a_process_that_is_gone_is_told_and_not_taken_for_running(stage: Stage) -> None:
    async def keeper(context: Context) -> Step:
        if results(context):
            return answer(context)
        command = "cp /bin/sleep ~/mine; ~/mine 1000 & sleep 0.2; rm ~/mine"
        return shell(1, command)

    await stage.hear("start")
    await stage.serve(Scripted(keeper))
    await put_to_sleep(stage)
    message = await stage.hear("go on")
    await stage.serve(Scripted(one_command))
    (reply,) = await stage.replies(message)
    assert "not restarted" in reply
    assert "mine" in reply


# 4. Nondeterministic replay


async def test_a_model_that_would_answer_otherwise_is_not_asked_again(stage: Stage) -> None:
    message = await stage.hear("go")
    await stage.crash(Scripted(dies_after_one))

    async def otherwise(context: Context) -> Step:
        return answer(context) if results(context) else shell(9, "echo other >> log")

    engine = Scripted(otherwise)
    await stage.serve(engine)
    assert engine.asked == 1, "only for what was not recorded"
    assert log(stage) == "line\n"
    assert "line" in (await stage.replies(message))[0]


async def without_its_answer(stage: Stage) -> None:
    """The model's recorded answer is lost, and what came of it is not."""
    await stage.crash(Scripted(dies_after_one))
    await damage(
        stage, "DELETE FROM journal_payload WHERE principal = :of AND seq = :seq",
        seq=await seq_of(stage, "model.responded"),
    )  # fmt: skip


async def test_an_equal_request_replays_its_recorded_result(stage: Stage) -> None:
    message = await stage.hear("go")
    await without_its_answer(stage)

    async def the_same(context: Context) -> Step:
        return answer(context) if results(context) else shell(7, APPEND)

    await stage.serve(Scripted(the_same))
    assert log(stage) == "line\n", "it was not done a second time"
    (reply,) = await stage.replies(message)
    assert reply.startswith("```\nline\n```")
    assert "had been requested before; it was not done a second time" in reply
    assert await checks(stage) == [(Check.NONDETERMINISTIC, True)]


async def test_an_equal_request_that_never_returned_is_uncertain(stage: Stage) -> None:
    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sent.append(call_id)
        raise Crash

    class To(Arguments):
        to: str

    sent: list[str] = []
    stage.toolbox = Toolbox({**TOOLS, "post": Tool("post", "Post.", "once", run, arguments=To)})

    def posting(number: int, to: str) -> Scripted:
        async def script(context: Context) -> Step:
            if results(context):
                return answer(context)
            return Step(calls=(ToolCall(f"call-{number}", "post", {"to": to}),))

        return Scripted(script)

    message = await stage.hear("go")
    await stage.crash(posting(1, "ann"))
    await damage(
        stage, "DELETE FROM journal_payload WHERE principal = :of AND seq = :seq",
        seq=await seq_of(stage, "model.responded"),
    )  # fmt: skip
    await stage.serve(posting(2, "ann"))
    assert sent == ["call-1"]
    assert "may have been done in part, in full or not at all" in (await stage.replies(message))[0]


async def test_a_different_request_is_a_new_effect_that_says_so(stage: Stage) -> None:
    message = await stage.hear("go")
    await without_its_answer(stage)
    seen: list[str] = []

    async def another(context: Context) -> Step:
        seen.extend(results(context))
        return answer(context) if results(context) else shell(7, "echo other >> log; cat log")

    await stage.serve(Scripted(another))
    assert log(stage) == "line\nother\n"
    (reply,) = await stage.replies(message)
    assert f"decided otherwise: `{APPEND}` had been requested before" in reply
    assert "`echo other >> log; cat log` is a new request" in reply
    assert seen[0].startswith("(I was cut off, had to think again"), "who decides on knows as well"
    assert await checks(stage) == [(Check.NONDETERMINISTIC, True)]
    assert await stage.verified()


# 5. Unrecorded effects


async def test_what_the_ledger_has_and_the_journal_lacks_is_told(stage: Stage) -> None:
    async def goes_out_and_dies(context: Context) -> Step:
        if results(context):
            await write(stage, "POST", "api.example", "settled")
            await write(stage, "GET", "news.example", "settled")
            raise Crash
        return shell(1, APPEND)

    message = await stage.hear("go")
    await stage.crash(Scripted(goes_out_and_dies))
    told: list[Any] = []

    async def looking(context: Context) -> Step:
        told.append(context.turn[0].data.get("context"))
        return await one_command(context)

    await stage.serve(Scripted(looking))
    (reply,) = await stage.replies(message)
    assert "no recorded step accounts for what went out: POST to api.example (answered with 201)" in reply
    assert "news.example" not in reply, "asking changed nothing"
    assert "POST to api.example" in told[0], "who goes on knows as well"
    assert log(stage) == "line\n"
    assert await checks(stage) == [(Check.UNRECORDED, True)]


async def test_what_a_recorded_step_accounts_for_is_not_told_again(stage: Stage) -> None:
    async def goes_out(context: Context) -> Step:
        if results(context):
            raise Crash
        identifier = await write(stage, "POST", "api.example", "settled")

        def intended(connection: Connection) -> None:
            turn = inbox.running_turn(connection, stage.owner)
            event = journal.Event("effect.intended", {"effect": identifier.hex})
            journal.append(connection, stage.owner, [event], under=None, turn=turn)

        await stage.database.write(intended)
        return shell(1, APPEND)

    message = await stage.hear("go")
    await stage.crash(Scripted(goes_out))
    await stage.serve(Scripted(one_command))
    assert await stage.replies(message) == ["```\nline\n```"]
    assert await checks(stage) == []

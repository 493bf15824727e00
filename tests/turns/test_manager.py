"""The sandbox manager when something fails: nobody else is cut off, and nothing is given away or kept for ever."""

from __future__ import annotations

import asyncio

import pytest

from agent.engine import Step
from agent.sandbox import SandboxError
from agent.trajectory import Context
from sandbox_runner.sandboxes import FRAME_LIMIT, Sandboxes
from tests.turns.stage import Scripted, Stage, answer, shell
from workspace_store import principal
from workspace_store import tenancy as tenancies
from workspace_store.database import DatabaseUnavailable
from workspace_store.packs import VolumeFull


def results(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "tool"]


async def one_command(context: Context) -> Step:
    return answer(context) if results(context) else shell(1, "echo done > file; cat file")


async def test_a_command_too_long_for_the_door_is_refused_and_cuts_nobody_off(stage: Stage) -> None:
    await stage.hear("x")
    sandboxes = Sandboxes(stage.socket)
    async with sandboxes.lend(stage.owner) as lent:
        await lent.wake()
        given = {"terminal": "main", "timeout": 20.0, "background": False, "on_output": None}
        running = asyncio.create_task(lent.run("a", "sleep 0.5; echo whole", **given))
        with pytest.raises(SandboxError, match="too long"):
            await lent.run("b", "я" * FRAME_LIMIT, **given)
        assert (await running).output.strip() == "whole"
    sandboxes.close()


async def test_many_changed_files_are_counted_and_a_few_named(stage: Stage) -> None:
    await stage.hear("x")
    sandboxes = Sandboxes(stage.socket)
    async with sandboxes.lend(stage.owner) as lent:
        await lent.wake()
        await lent.run("a", "seq 300 | xargs touch", terminal="main", timeout=20.0, background=False, on_output=None)
        first, count = await lent.changed_files()
    assert len(first) == 10
    assert count == 300
    sandboxes.close()


async def test_a_lease_that_could_not_be_given_back_is_given_back_by_the_next_sleep(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = stage.manager
    assert manager is not None
    await stage.hear("x")
    await stage.serve(Scripted(one_command))
    release = manager._release

    async def unavailable(_: object) -> None:
        raise DatabaseUnavailable("the disk is full")

    monkeypatch.setattr(manager, "_release", unavailable)
    with pytest.raises(DatabaseUnavailable):
        await manager.sleep(stage.owner)
    monkeypatch.setattr(manager, "_release", release)
    held = await stage.database.read(lambda connection: principal.look(connection, stage.owner))
    assert held is not None
    assert held.owner is not None, "it is stuck, for now"
    message = await stage.hear("y")
    async with stage.running(Scripted(one_command)) as runner:
        await runner.serve(stage.owner)
        assert await stage.status(message) == "pending"
        await manager.release_what_is_not_seated()
        await runner.serve(stage.owner)
    assert await stage.status(message) == "done"


async def test_a_sandbox_that_does_not_end_keeps_its_volume(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = stage.manager
    assert manager is not None
    await stage.hear("x")
    await stage.serve(Scripted(one_command))
    seat = manager._seats[stage.owner]
    assert seat.awake is not None
    stop = seat.awake.running.stop

    async def undead() -> None:
        raise SandboxError("it does not end")

    monkeypatch.setattr(seat.awake.running, "stop", undead)
    with pytest.raises(SandboxError):
        await manager.sleep(stage.owner)
    held = await stage.database.read(lambda connection: tenancies.look(connection, stage.owner))
    assert held.host == manager.seating.host, "nobody else may mount it"
    monkeypatch.setattr(seat.awake.running, "stop", stop)
    assert await manager.sleep(stage.owner)
    held = await stage.database.read(lambda connection: tenancies.look(connection, stage.owner))
    assert held.host is None


async def test_a_turn_whose_generation_cannot_be_saved_is_answered_and_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = stage.manager
    assert manager is not None

    async def full(*_: object, **__: object) -> None:
        raise VolumeFull("no space left on the volumes' disk")

    message = await stage.hear("x")
    monkeypatch.setattr(manager, "snapshot", full)
    await stage.serve(Scripted(one_command))
    assert await stage.status(message) == "done"
    (reply,) = await stage.replies(message)
    assert "done" in reply
    assert "no space left" in reply


async def test_a_generation_taken_while_a_task_runs_is_frozen_or_marked_moving(stage: Stage) -> None:
    manager = stage.manager
    assert manager is not None

    async def with_a_task(context: Context) -> Step:
        return answer(context) if results(context) else shell(1, "sleep 100 & echo started > file")

    await stage.hear("x")
    await stage.serve(Scripted(with_a_task))
    seat = manager._seats[stage.owner]
    assert seat.awake is not None
    can_freeze = await seat.awake.running.freeze()
    await seat.awake.running.thaw()
    assert seat.volume.manifest(1).moving is not can_freeze
    tasks = await seat.awake.guest.tasks()
    assert [task.state for task in tasks] == ["running"]

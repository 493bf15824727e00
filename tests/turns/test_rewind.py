"""/undo, /redo, /restore and /diff: files and shell go back as a new generation, and nothing else does."""

from __future__ import annotations

import pytest

from agent.engine import Step
from agent.trajectory import Context
from sandbox_runner import rewind
from sandbox_runner.manager import Manager
from tests.turns.stage import Crash, Scripted, Stage, answer, shell
from workspace_store import checkpoints, timeline


async def operate(context: Context) -> Step:
    """Run what is said as a command."""
    if any(said.role == "tool" for said in context.turn):
        return answer(context)
    return shell(1, next(said.text for said in context.turn if said.role == "user"))


async def say(stage: Stage, text: str, *, ends: tuple[str, ...] = ("done",)) -> str:
    message = await stage.hear(text)
    await stage.serve(Scripted(operate))
    assert await stage.status(message) in ends
    return "\n".join(await stage.replies(message))


def manager(stage: Stage) -> Manager:
    assert stage.manager is not None
    return stage.manager


async def test_undo_takes_files_and_shell_back_and_redo_brings_them_again(stage: Stage) -> None:
    await say(stage, "export WHO=first; echo one > file; mkdir kept")
    await say(stage, "export WHO=second; echo two > file; rmdir kept; echo new > other; cd /usr")
    await say(stage, "cat file")
    told = await say(stage, "/undo")
    assert "2 files changed" in told
    assert "one\nfirst\n" in (said := await say(stage, "cat file; echo $WHO; ls -d kept; ls other; pwd"))
    assert "kept" in said
    assert "/workspace" in said
    assert "No such file" in said
    assert "/undo" not in await say(stage, "/redo")
    assert "two\nsecond\n/usr" in await say(stage, "cat /workspace/file; echo $WHO; pwd")
    assert "nothing to redo" in await say(stage, "/redo")
    restored = await stage.events("workspace.restored")
    assert [event.body["verb"] for event in restored if event.body] == ["undo", "redo"]
    assert await stage.verified()


async def test_the_first_turn_can_be_undone_and_no_more(stage: Stage) -> None:
    assert "nothing to undo" in await say(stage, "/undo")
    await say(stage, "echo x > file")
    assert "before your first turn" in await say(stage, "/undo")
    assert "No such file" in await say(stage, "ls file")
    await say(stage, "/redo")
    assert "x" in await say(stage, "cat file")
    assert "cannot go back so far" in await say(stage, "/undo 5")


async def test_before_the_first_turn_there_is_no_shell_to_come_back(stage: Stage) -> None:
    await say(stage, "echo x > file; export WHO=me; cd /usr")
    await say(stage, "/undo")
    said = await say(stage, "echo [$WHO] $PWD")
    assert "[] /workspace" in said
    assert "not used" not in said, "nothing is missing"
    await say(stage, "/undo @1")
    assert "me /usr" in await say(stage, "echo $WHO $PWD")


@pytest.mark.slow
async def test_several_turns_and_a_named_generation(stage: Stage) -> None:
    for number in (1, 2, 3):
        await say(stage, f"echo {number} > file")
    await say(stage, "/undo 2")
    assert "1" in await say(stage, "cat file")
    await say(stage, "/redo 2")
    assert "3" in await say(stage, "cat file")
    found = await stage.database.read(lambda connection: checkpoints.generations(connection, stage.owner, 100))
    second = next(each.generation for each in found if "echo 2" in each.note)
    await say(stage, f"/undo @{second}")
    assert "2" in await say(stage, "cat file")
    assert "no generation 999" in await say(stage, "/undo @999")
    assert "/undo 3" in await say(stage, "/undo soon")


async def test_one_file_comes_back_and_the_rest_stays(stage: Stage) -> None:
    await say(stage, "mkdir -p a/b; echo old > a/b/file; ln -s a/b link; echo same > other")
    await say(stage, "rm -r a; echo changed > other; export KEPT=yes")
    told = await say(stage, "/restore a/b/file@1")
    assert "is as it was in generation 1" in told
    assert "old\nchanged\nyes" in await say(stage, "cat a/b/file other; echo $KEPT")
    assert "is not in generation 1" in await say(stage, "/restore nowhere@1", ends=("failed",))
    for path in ("../../etc/passwd@1", "/etc/passwd@1", "link/file@1", "~/../x@1"):
        told = await say(stage, f"/restore {path}", ends=("done", "failed"))
        assert "is as it was" not in told, path


async def test_diff_shows_names_and_lines(stage: Stage) -> None:
    assert "No turn has changed a file" in await say(stage, "/diff")
    await say(stage, "printf 'a\\nb\\n' > file; printf '\\0' > binary")
    await say(stage, "printf 'a\\nc\\n' > file; rm binary; printf '\\033[31m' > $'n\\nl'")
    told = await say(stage, "/diff")
    assert "~ file" in told
    assert "- binary" in told
    assert "-b\n+c" in told
    assert "\x1b" not in told
    assert "+ n\\nl" in told
    assert "+ file" in await say(stage, "/diff 1")


async def test_a_running_task_is_named_and_asked_about_first(stage: Stage) -> None:
    await say(stage, "echo one > file")
    await say(stage, "sleep 300 & echo two > file")
    asked = await say(stage, "/undo")
    assert "sleep 300" in asked
    assert "two" in await say(stage, "cat file; jobs")
    code = asked.split("/approve ")[1].split("`")[0]
    await stage.hear(f"/approve {code}")
    await stage.serve(Scripted(operate))
    assert "one" in await say(stage, "cat file")
    assert not await manager(stage).running_tasks(stage.owner)
    assert "Already approved and used" in await say(stage, f"/approve {code}"), "what was used does not come back"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["/undo", "/undo @1", "/redo"])
async def test_a_task_that_sleeps_is_named_and_asked_about_too(stage: Stage, verb: str) -> None:
    await say(stage, "echo one > file")
    await say(stage, "echo two > file")
    if verb == "/redo":
        await say(stage, "/undo")
    await manager(stage).wake(stage.owner, "somebody")
    await run_in_background(stage, "sleep 301")
    await manager(stage).give_back(stage.owner, "somebody")
    assert await manager(stage).sleep(stage.owner)
    asked = await say(stage, verb)
    assert "sleep 301" in asked
    assert "sleeping" in asked
    assert manager(stage).awake() == [], "nothing is woken to ask"
    code = asked.split("/approve ")[1].split("`")[0]
    await stage.hear(f"/deny {code}")
    await stage.serve(Scripted(operate))
    assert ("one" if verb == "/redo" else "two") in await say(stage, "cat file")
    assert [task.argv[-1] for task in await manager(stage).running_tasks(stage.owner)] == ["sleep 301"]
    assert await manager(stage).sleep(stage.owner)
    code = (await say(stage, verb)).split("/approve ")[1].split("`")[0]
    await stage.hear(f"/approve {code}")
    await stage.serve(Scripted(operate))
    assert ("two" if verb == "/redo" else "one") in await say(stage, "cat file")
    assert not await manager(stage).running_tasks(stage.owner)


async def test_a_file_restored_beside_a_sleeping_task_leaves_it(stage: Stage) -> None:
    await say(stage, "echo one > file")
    await say(stage, "echo two > file")
    await manager(stage).wake(stage.owner, "somebody")
    await run_in_background(stage, "sleep 302")
    await manager(stage).give_back(stage.owner, "somebody")
    assert await manager(stage).sleep(stage.owner)
    assert "is as it was in generation 1" in await say(stage, "/restore file@1")
    assert "one" in await say(stage, "cat file")
    assert len(await manager(stage).running_tasks(stage.owner)) == 1


async def run_in_background(stage: Stage, command: str) -> None:
    await manager(stage).run(
        stage.owner, call_id=command, command=command, terminal="main", timeout=20, background=True,
        on_output=lambda _: None,
    )  # fmt: skip


async def test_what_changed_since_the_question_is_not_undone_by_its_answer(stage: Stage) -> None:
    await say(stage, "echo one > file")
    await say(stage, "sleep 300 & echo two > file")
    asked = await say(stage, "/undo")
    await say(stage, "echo three > file")
    code = asked.split("/approve ")[1].split("`")[0]
    await stage.hear(f"/approve {code}")
    await stage.serve(Scripted(operate))
    assert "three" in await say(stage, "cat file")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["rest", "rewind"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_any_step_goes_on_to_the_same_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    await say(stage, "echo one > file")
    await say(stage, "echo two > file")
    owner = manager(stage)
    real = getattr(rewind.LentSandbox, step)
    crashes = [1]

    async def crashing(self: object, *arguments: object, **named: object) -> object:
        if when == "before" and crashes:
            raise Crash(crashes.pop())
        result = await real(self, *arguments, **named)
        if crashes:
            raise Crash(crashes.pop())
        return result

    monkeypatch.setattr(rewind.LentSandbox, step, crashing)
    message = await stage.hear("/undo")
    await stage.crash(Scripted(operate))
    assert not crashes
    await stage.serve(Scripted(operate))
    assert await stage.status(message) == "done"
    assert len(await stage.replies(message)) == 1
    assert "one" in await say(stage, "cat file")
    await say(stage, "/redo")
    assert "two" in await say(stage, "cat file")
    line = await stage.database.read(lambda connection: timeline.read(connection, stage.owner))
    assert len(line.past) == 3
    assert await stage.verified()
    assert owner.awake() == [stage.owner]

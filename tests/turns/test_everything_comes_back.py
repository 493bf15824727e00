"""Everything of one sandbox at once, compared item by item in a new one: here, and on another host."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from agent.sandbox import CommandResult, WakeReport
from sandbox_runner.manager import Manager
from tests.turns.stage import Stage
from workspace_store import timers

WHEEL = r"""
import zipfile
with zipfile.ZipFile("/workspace/wheels/porterdemo-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("porterdemo.py", "print('installed')\n")
    info = "porterdemo-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: porterdemo\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", f"porterdemo.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
"""

SETUP = [
    ("main", "mkdir -p 'deep folder' wheels repo && cd 'deep folder' && export EXPORTED=$'two\\nlines' EMPTY="),
    ("main", "plain=1; list=(a 'b c' '' $'d\\ne'); declare -A map=([k]=v ['x y']=$'\\'q\\''); declare -i number=7"),
    ("main", "declare -r fixed=f; target=t; declare -n ref=target; set -- one 'two three'"),
    ("main", "greet() { cat <<EOF\nhi $1\nEOF\n}; export -f greet; alias ll='ls -la'"),
    ("main", "trap 'echo bye' USR1; trap 'true' ERR; umask 027; ulimit -S -n 123; unset PAGER; pushd /tmp >/dev/null"),
    ("main", "set -o noclobber; shopt -s globstar extglob"),
    ("main", "cd '/workspace/deep folder'; python3 -m venv --without-pip ../env && . ../env/bin/activate"),
    ("second", "cd /usr/lib; export SECOND=2; set -u; printf '\\033[31mlast \\rwords\\033[0m\\n'; false"),
    ("main", f"python3 - <<'PY'\n{WHEEL}\nPY"),
    ("main", "git -C /workspace/repo init -q && cd /workspace/repo && git config user.name A && "
             "git config user.email a@b && "
             "echo 1 > f && git add f && git commit -qm first && echo 2 >> f; cd '/workspace/deep folder'"),
]  # fmt: skip
SERVICE = (
    "echo started >> /workspace/service.log; echo to the log; "
    "env | grep -E '^(EXPORTED|VIRTUAL_ENV|PATH|PWD)=' | sort > /workspace/service.env; exec sleep 1000"
)
LOOK = {
    "main": [
        "pwd", "declare -p EXPORTED EMPTY plain list map number fixed target ref", "echo \"$# ${@@Q}\"",
        "declare -f greet",
        "greet you; bash -c 'greet them'", "alias ll", "set +o", "shopt -p", "trap -p", "umask", "ulimit -S -n",
        "echo ${PAGER-unset}", "dirs -l -p", "echo $VIRTUAL_ENV; command -v python3; declare -F deactivate",
        "cat /proc/self/limits",
        "git -C /workspace/repo log --format=%s; git -C /workspace/repo status --short",
        "ls -l --time-style=full-iso /workspace/wheels /workspace/repo", "history | sed 's/^ *[0-9]* *//' | head -30",
        "crontab -l",
    ],
    "second": ["echo $?", "pwd; echo $SECOND", "set -o | grep nounset", "false"],
}  # fmt: skip


def manager_of(stage: Stage) -> Manager:
    assert stage.manager is not None
    return stage.manager


async def run(manager: Manager, stage: Stage, command: str, terminal: str = "main", **more: bool) -> CommandResult:
    run.count = getattr(run, "count", 0) + 1  # type: ignore[attr-defined]
    return await manager.run(
        stage.owner, call_id=f"call-{run.count}", command=command, terminal=terminal,  # type: ignore[attr-defined]
        timeout=60, background=more.get("background", False), on_output=lambda _: None,
    )  # fmt: skip


async def look(manager: Manager, stage: Stage) -> dict[str, str]:
    seen = {}
    for terminal, questions in LOOK.items():
        for question in questions:
            seen[f"{terminal}: {question}"] = (await run(manager, stage, question, terminal)).output
    return seen


async def build(manager: Manager, stage: Stage) -> dict[str, str]:
    await manager.wake(stage.owner, "a turn")
    for terminal, command in SETUP:
        result = await run(manager, stage, command, terminal)
        assert result.status == "exited", result
        assert not any("not kept" in note for note in result.notes), result
    installed = await run(
        manager, stage,
        "env -u VIRTUAL_ENV PATH=/usr/local/bin:/usr/bin:/bin:$PATH sh -c 'for p in python3 /usr/bin/python3; do "
        "$p -m pip install -q --user --break-system-packages --no-index --find-links /workspace/wheels porterdemo "
        "&& break; "
        "done; exit 0'",
    )  # fmt: skip
    assert installed.status == "exited"
    await run(manager, stage, "crontab - <<< '0 7 * * mon-fri echo good morning'")
    await run(manager, stage, SERVICE, background=True)
    for command in (
        "sleep 2001 &",
        "nohup sleep 2002 >/dev/null 2>&1 &",
        "setsid sleep 2003 </dev/null >/dev/null 2>&1 &",
    ):
        await run(manager, stage, command)
    await run(manager, stage, "(setsid sh -c 'sleep 2004 & exit' >/dev/null 2>&1 &)")
    repl = await manager.run(
        stage.owner, call_id="repl", command="python3 -i </dev/tty", terminal="repl", timeout=1, background=False,
        on_output=lambda _: None,
    )  # fmt: skip
    assert repl.status == "running"
    return await look(manager, stage)


async def service(manager: Manager, stage: Stage) -> tuple[object, ...]:
    """The managed task: how it was called, in which folder, with which environment."""
    (found,) = [task for task in await manager.running_tasks(stage.owner) if "sleep 1000" in " ".join(task.argv)]
    environment = (await run(manager, stage, "cat /workspace/service.env")).output
    return found.argv, found.cwd, found.log, found.policy, environment


async def check(before: dict[str, str], report: WakeReport, again: Manager, stage: Stage) -> None:
    """A new sandbox against what was seen of the old one, item by item."""
    assert report.fresh
    notes = "\n".join(report.notes)
    assert "was restarted, start 2" in notes
    for number in (2001, 2002, 2003, 2004):
        assert f"sleep {number}" in notes, notes
    assert notes.count("not restarted") == 4
    assert "python3 -i was open in terminal repl; it could not be kept" in notes
    assert "was not used" not in notes
    screen = report.screens["second"]
    assert "words" in screen
    assert not any("\x1b" in line for line in screen)
    after = await look(again, stage)
    for question, said in before.items():
        assert after[question] == said, question
    services = [task for task in await again.running_tasks(stage.owner) if "sleep 1000" in " ".join(task.argv)]
    assert [(task.policy, task.starts) for task in services] == [("restart", 2)]
    assert (await run(again, stage, "cat /workspace/service.log")).output == "started\nstarted\n"
    async with again.answering(stage.owner) as guest:
        assert await guest.task_output(services[0].task) == "to the log\nto the log\n"
    (timer,) = await stage.database.read(lambda connection: timers.of(connection, stage.owner))
    assert (timer.line.when.spec, timer.line.command) == ("0 7 * * mon-fri", "echo good morning")


async def asleep(manager: Manager, stage: Stage) -> None:
    await manager.give_back(stage.owner, "a turn")
    assert await manager.sleep(stage.owner)


async def test_everything_comes_back_in_a_new_sandbox(stage: Stage) -> None:
    await stage.hear("x")
    manager = manager_of(stage)
    before = await build(manager, stage)
    task = await service(manager, stage)
    await asleep(manager, stage)
    report, _ = await manager.wake(stage.owner, "a turn")
    await check(before, report, manager, stage)
    assert await service(manager, stage) == task


@pytest.mark.slow
async def test_everything_comes_back_on_another_host_with_the_volume_moved(tmp_path: Path, sqlite_url: str) -> None:
    first = Stage(tmp_path / "first", sqlite_url)
    first.folder.mkdir(exist_ok=True)
    async with first.managing() as manager:
        if not (await manager.backend.probe()).works:
            pytest.skip("no sandbox works here")
        await first.hear("x")
        before = await build(manager, first)
        task = await service(manager, first)
        await asleep(manager, first)
    first.database.close()
    second = Stage(tmp_path / "second" / "with another home", sqlite_url, first.owner, host="elsewhere")
    second.folder.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(shutil.move, first.folder / "volumes", second.folder / "volumes")
    async with second.managing() as other:
        report, _ = await other.wake(second.owner, "a turn")
        await check(before, report, other, second)
        assert await service(other, second) == task
    second.database.close()

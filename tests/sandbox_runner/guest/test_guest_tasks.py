"""Background tasks: started, found, moved after a timeout, stopped, and brought back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_runner.guest_connection import GuestRefused

DOUBLE_FORK = r"""python3 -c '
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execlp("sleep", "sleep", "1005")'; sleep 0.2"""


async def task_of(guest: Any, *words: str) -> Any:
    return next(task for task in await guest.connection.tasks() if task.argv[-len(words) :] == words)


async def test_a_background_command_is_a_task_at_once(guest: Any, house: Any) -> None:
    await guest.run("cd /usr; export GREETING=hello SECRET_TOKEN=x")
    result = await guest.run("echo $GREETING $PWD; sleep 60", background=True)
    assert (result.status, result.exit_code, result.task) == ("running", None, 1)
    task = await task_of(guest, "echo $GREETING $PWD; sleep 60")
    assert (task.state, task.policy, task.starts, task.cwd) == ("running", "restart", 1, "/usr")
    while await guest.connection.task_output(1) != "hello /usr\n":
        await asyncio.sleep(0.01)
    assert Path(task.log) == house.home / ".nightporter/tasks/1.log"
    assert house.state()["tasks"][0]["environment"] == {"GREETING": "hello", "OLDPWD": str(house.workspace)}
    stopped = await guest.connection.stop_task(1)
    assert (stopped.state, stopped.exit_code) == ("exited", 143)
    assert (await asyncio.wait_for(guest.ended_tasks.get(), 5)).task == 1


async def test_a_task_that_ends_leaves_the_state(guest: Any, house: Any) -> None:
    await guest.run("exit 3", background=True)
    ended = await asyncio.wait_for(guest.ended_tasks.get(), 5)
    assert (ended.state, ended.exit_code) == ("exited", 3)
    await guest.connection.capture()
    assert house.state()["tasks"] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sleep 1000 &", ("sleep", "1000")),
        ("nohup sleep 1001 >$HOME/out 2>&1 &", ("sleep", "1001")),
        ("setsid sleep 1002 &", ("sleep", "1002")),
        ("(sleep 1003 &)", ("sleep", "1003")),
        ("sleep 1004 & disown -h", ("sleep", "1004")),
        (
            DOUBLE_FORK,
            ("sleep", "1005"),
        ),
        ("sleep 1006 | cat &", ("sleep", "1006")),
    ],
)
async def test_whatever_goes_on_running_is_found(guest: Any, house: Any, command: str, words: tuple[str, ...]) -> None:
    assert (await guest.run(command)).status == "exited"
    tasks = await guest.connection.tasks()
    assert [task.argv for task in tasks] == [words]
    assert (tasks[0].policy, tasks[0].cwd) == ("ask", str(house.workspace))
    assert house.state()["tasks"][0]["argv"] == list(words)
    if "out" in command:
        assert tasks[0].log == str(house.home / "out")
    assert (await guest.connection.stop_task(tasks[0].task)).state == "exited"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("while :; do echo $N >> n; sleep 0.1; done &", "while :; do\n    echo $N >> n; sleep 0.1;\ndone"),
        ("{ echo $N >> n; sleep 1000; } &", "{ echo $N >> n; sleep 1000; }"),
        ("cd d; (echo $N >> ../n; sleep 1000; true) & cd ..", "( echo $N >> ../n; sleep 1000; true )"),
        ("(while :; do echo $N >> n; sleep 0.1; done &)", "(while :; do echo $N >> n; sleep 0.1; done &)"),
    ],
)
async def test_a_part_of_the_shell_in_the_background_is_told_by_what_it_does(
    house: Any, guest: Any, command: str, said: str
) -> None:
    """It is a copy of the shell, whose own arguments say nothing of it; by its words it can be started again."""
    await guest.run("mkdir d; export N=one")
    await guest.run(command)
    (task,) = await guest.connection.tasks()
    assert task.argv == ("/bin/bash", "-c", said)
    await guest.kill()
    woken = await house.wake()
    assert any(said in note and "not restarted" in note for note in woken.restored.notes)
    (house.workspace / "n").write_text("")
    await woken.connection.start_task(task.task)
    async with asyncio.timeout(20):
        while (house.workspace / "n").read_text()[:4] != "one\n":
            await asyncio.sleep(0.01)


async def test_a_command_in_the_foreground_of_another_terminal_is_no_task(guest: Any) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    call = asyncio.create_task(guest.run("echo go; sleep 60", terminal="busy", on_output=shown.put_nowait))
    await asyncio.wait_for(shown.get(), 10)
    await guest.run("true")
    assert await guest.connection.tasks() == []
    assert (await guest.connection.capture()).digest is None
    await guest.connection.interrupt("busy")
    await call


async def test_a_timeout_makes_a_task_and_frees_the_terminal(guest: Any, house: Any) -> None:
    await guest.run("x=1; cd /usr")
    result = await guest.run(
        f"echo first; while [ ! -e {house.workspace}/go ]; do sleep 0.05; done; echo second; exit 4", timeout=0.3
    )
    assert (result.status, result.exit_code, result.output, result.task) == ("running", None, "first\n", 1)
    assert any("background task 1" in note for note in result.notes)
    assert result.state_digest is None
    assert await guest.output(f"echo $x $PWD; touch {house.workspace}/go") == "1 /usr\n"
    ended = await asyncio.wait_for(guest.ended_tasks.get(), 10)
    assert (ended.task, ended.state, ended.exit_code, ended.policy) == (1, "exited", 4, "ask")
    assert await guest.connection.task_output(1) == "first\nsecond\n"


async def test_a_task_past_its_timeout_can_be_stopped(guest: Any) -> None:
    result = await guest.run("sleep 60; sleep 60", timeout=0.2)
    task = await guest.connection.stop_task(result.task, grace=0.5)
    assert task.state == "exited"


async def test_a_task_that_ignores_sigterm_is_killed(guest: Any) -> None:
    result = await guest.run("trap '' TERM; echo ready; while :; do sleep 0.05; done", background=True)
    while await guest.connection.task_output(result.task) != "ready\n":
        await asyncio.sleep(0.01)
    assert (await guest.connection.stop_task(result.task, grace=0.2)).exit_code == 137


async def test_only_services_are_started_again(house: Any, guest: Any) -> None:
    await guest.run("export WHO=me")
    await guest.run("echo start $WHO; sleep 60", background=True)
    await guest.run("sleep 1000 &")
    while await guest.connection.task_output(1) != "start me\n":
        await asyncio.sleep(0.01)
    await guest.kill()
    woken = await house.wake()
    assert "was running: task 2 (sleep 1000); not restarted: `start 2` starts it again" in woken.restored.notes
    task, stopped = await woken.connection.tasks()
    assert (stopped.task, stopped.state, stopped.policy) == (2, "stopped", "ask")
    assert (task.task, task.state, task.starts, task.policy) == (1, "running", 2, "restart")
    while await woken.connection.task_output(1) != "start me\nstart me\n":
        await asyncio.sleep(0.01)
    assert (await woken.run("true", background=True)).task == 3


async def test_what_a_sleep_ended_waits_for_a_word_and_goes_on_where_it_was(house: Any, guest: Any) -> None:
    line = "echo from $PWD with $WHO; sleep 1000; true"
    await guest.run(f"mkdir d; cd d; export WHO=me; nohup sh -c '{line}' >../its.log 2>&1 &")
    await guest.run("sleep 1001 &")
    log = house.workspace / "its.log"
    async with asyncio.timeout(20):
        while not log.exists() or "with me" not in log.read_text():
            await asyncio.sleep(0.01)
    await guest.kill()
    first = await house.wake()
    assert sum("not restarted" in note for note in first.restored.notes) == 2
    await first.run("cd /; export WHO=other")
    await first.kill()
    again = await house.wake()
    assert not any("not restarted" in note for note in again.restored.notes)
    waiting = {task.argv[-1]: task for task in await again.connection.tasks()}
    assert {task.state for task in waiting.values()} == {"stopped"}
    (its,) = [task for task in waiting.values() if "1001" not in task.argv]
    started = await again.connection.start_task(its.task)
    assert (started.state, started.policy, started.starts) == ("running", "ask", 2)
    wanted = f"from {house.workspace}/d with me\n"
    async with asyncio.timeout(20):
        while log.read_text().count(wanted) < 2:
            await asyncio.sleep(0.01)
    assert (await again.connection.stop_task(waiting["1001"].task)).state == "exited"
    await again.connection.capture()
    assert [task["task"] for task in house.state()["tasks"]] == [its.task]


async def test_the_policy_of_a_task_is_chosen(house: Any, guest: Any) -> None:
    await guest.run("sleep 1000", background=True, policy="never")
    await guest.run("sleep 1001", background=True, policy="ask")
    await guest.run("sleep 1002 &")
    await guest.run("sleep 1003", background=True)
    assert (await guest.connection.start_task(3, "restart")).policy == "restart"
    assert (await guest.connection.start_task(4, "never")).policy == "never"
    await guest.run("true")
    await guest.kill()
    woken = await house.wake()
    found = {task.task: (task.state, task.policy) for task in await woken.connection.tasks()}
    assert found == {2: ("stopped", "ask"), 3: ("running", "restart")}
    assert sum("its policy is never" in note for note in woken.restored.notes) == 2
    with pytest.raises(GuestRefused, match="no task 1"):
        await woken.connection.start_task(1)


async def test_a_task_whose_program_is_gone_is_told(house: Any, guest: Any) -> None:
    await guest.run("sleep 60", background=True)
    await guest.kill()
    text = house.state_path.read_text().replace('"bash"', '"no-such-program"')
    house.state_path.write_text(text)
    woken = await house.wake()
    assert any("the program no-such-program is gone" in note for note in woken.restored.notes)


async def test_a_shutdown_ends_tasks_gently_and_remembers_them(house: Any, guest: Any) -> None:
    await guest.run(f"trap 'echo tidy > {house.home}/tidied; exit' TERM; while :; do sleep 0.05; done", background=True)
    await guest.run("x=5")
    captured = await guest.connection.shutdown(grace=5)
    guest.process.wait(10)
    assert (house.home / "tidied").read_text() == "tidy\n"
    assert captured.digest is not None
    assert [task["task"] for task in house.state()["tasks"]] == [1]
    woken = await house.wake()
    assert [task.starts for task in await woken.connection.tasks()] == [2]
    assert await woken.output("echo $x") == "5\n"


async def test_nothing_outlives_the_guest(house: Any, guest: Any) -> None:
    await guest.run("sleep 1000 & setsid sleep 1000 & echo $!")
    await guest.run("sleep 1000", background=True)
    await guest.run("sleep 1000", timeout=0.1)
    pids = [int(word) for word in (await guest.output("pgrep -s 0 sleep; pgrep -P $PPID")).split()]
    await guest.kill()
    assert pids
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}/exe")]


async def test_a_log_stays_within_its_bound(guest: Any, house: Any) -> None:
    result = await guest.run("head -c 30000000 /dev/zero | tr '\\0' x; echo end", background=True)
    await asyncio.wait_for(guest.ended_tasks.get(), 30)
    while not (await guest.connection.task_output(result.task, 100)).endswith("end\n"):
        await asyncio.sleep(0.01)
    logs = list((house.home / ".nightporter/tasks").iterdir())
    assert sum(log.stat().st_size for log in logs) < 11 << 20

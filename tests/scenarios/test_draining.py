"""A host is left for a restart: what runs ends there, what comes goes elsewhere, nothing is lost or done twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]


@pytest.fixture
def other(house: House) -> Iterator[subprocess.Popen[str]]:
    """A ``nightporter runner`` of another host beside ``up``, on the same home."""
    host = WarmHouse(house.home, runner__host="other")
    process = host.launch("runner", stderr=subprocess.STDOUT)
    assert process.stdout is not None
    for line in process.stdout:
        if "is ready." in line:
            break
    threading.Thread(target=process.stdout.read, daemon=True).start()
    yield process
    if process.poll() is None:
        process.terminate()
    process.wait(10)


def halt(house: House, pid: int) -> None:
    """SIGSTOP a process where it holds no lock of the database, which nobody else could write to then."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        database = sqlite3.connect(house.home / "nightporter.db", timeout=0.2)
        with contextlib.closing(database), contextlib.suppress(sqlite3.OperationalError):
            database.execute("BEGIN IMMEDIATE")
            database.rollback()
            return
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def on_other(house: House, other: subprocess.Popen[str]) -> Callable[[], None]:
    """From now on the other host serves everything; what is returned lets the first one serve again."""
    first = house.pid("runner")
    halt(house, first)
    return lambda: os.kill(first, signal.SIGCONT)


def drain(home: Path, *more: str) -> subprocess.Popen[str]:
    return WarmHouse(home, runner__host="other").launch("runner", "drain", *more, stderr=subprocess.STDOUT)


def kinds(house: House, kind: str) -> int:
    return len([event for event in house.events() if event["kind"] == kind])


def test_a_warm_sandbox_is_handed_over(
    house: House, other: subprocess.Popen[str], on_other: Callable[[], None]
) -> None:
    """By sleep there and wake here; only the runner of the other host is gone, and nobody starts it again."""
    house.say("$ X=kept; mkdir -p deep; cd deep; echo first > said.txt")
    os.kill(other.pid, signal.SIGSTOP)
    gone = below(other.pid, "runner")
    os.kill(gone, signal.SIGTERM)
    wait_until(lambda: "Z" in Path(f"/proc/{gone}/stat").read_text().rpartition(")")[2][:3], "it has ended")
    on_other()
    try:
        assert "kept first" in house.say("$ echo $X $(cat said.txt)")
        assert sandboxes(house) == ["sandbox.woken", "sandbox.slept", "sandbox.woken"]
    finally:
        os.kill(other.pid, signal.SIGCONT)


def sandboxes(house: House) -> list[str]:
    """What became of the owner's, in order."""
    shown = map(json.loads, house.run("journal", "show", "owner", "--json").stdout.splitlines())
    return [event["kind"] for event in shown if event["kind"].startswith("sandbox.")]


def below(supervisor: int, role: str) -> int:
    """The process of a role that a supervisor started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if int(words[1]) == supervisor and f"nightporter: {role}\0" in (path.parent / "cmdline").read_text():
                return int(path.parent.name)
    raise AssertionError(f"{supervisor} has no {role}")


def test_a_turn_ends_where_it_runs_and_the_next_goes_on_elsewhere(
    house: House, other: subprocess.Popen[str], on_other: Callable[[], None]
) -> None:
    house.say("$ X=kept; mkdir -p deep; cd deep; echo first >> said.txt")
    running = house.post("$ sleep 3; echo second >> said.txt; echo done")
    wait_until(lambda: house.status(running)["status"] == "running", "it runs on the other host")
    waiting = [house.post(f"$ echo {word} >> said.txt", thread=word) for word in ("third", "fourth")]
    draining = drain(house.home)
    on_other()
    assert draining.wait(30) == 0, draining.stdout and draining.stdout.read()
    assert other.wait(10) == 0
    assert "done" in house.answer(running)["replies"][0]["text"]
    for message in waiting:
        house.answer(message)
    assert "kept\nfirst\nsecond\nthird\nfourth\n" in house.say("$ echo $X; cat said.txt")
    shown = [json.loads(line) for line in house.run("journal", "show", "owner", "--json").stdout.splitlines()]
    started = [event["body"]["resumed"] for event in shown if event["kind"] == "turn.started"]
    assert started == [False] * 5, "no turn was cut off or begun twice"
    assert sandboxes(house) == ["sandbox.woken", "sandbox.slept", "sandbox.woken"]
    assert drain(house.home).wait(30) == 3, "there is nobody left to leave"


def test_who_takes_too_long_is_cut_off_and_gone_on_with(
    house: House, other: subprocess.Popen[str], on_other: Callable[[], None]
) -> None:
    running = house.post("$ sleep 30; echo slept")
    wait_until(lambda: kinds(house, "tool.requested"), "it runs on the other host")
    draining = drain(house.home, "--seconds", "1")
    on_other()
    assert draining.wait(30) == 1
    assert other.wait(10) == 0
    assert len(house.answer(running)["replies"]) == 1
    assert "again" in house.say("$ echo again")

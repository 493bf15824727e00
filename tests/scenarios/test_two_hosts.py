"""Two hosts, each with a home of its own, on one database, one Redis and one storage: one that is gone or paused is
followed by the other within 15 s, and writes nothing when it comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightporter.testing import House, wait_until
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

GONE_SECONDS = 15.0
SLOW = "$ echo begun >> trace; sleep 1; echo ended >> trace; echo finished"


@pytest.fixture
def shared(tmp_path: Path, servers: dict[str, str]) -> dict[str, str]:
    """What both hosts are told."""
    return {**servers, "volumes_url": f"file://{tmp_path}/volumes"}


@pytest.fixture
def first(tmp_path: Path, shared: dict[str, str]) -> Iterator[House]:
    house = WarmHouse(tmp_path / "first", runner__host="first", **shared).start()
    yield house
    assert house.stop() == 0, house.log()[-4000:]


@pytest.fixture
def second(tmp_path: Path, shared: dict[str, str], first: House) -> Iterator[subprocess.Popen[str]]:
    """A runner with its sandbox manager, which has nothing to do as long as the first one lives."""
    first.say("$ echo 1 > kept")
    house = WarmHouse(tmp_path / "second", runner__host="second", **shared)
    process = house.launch("runner", stderr=subprocess.STDOUT)
    assert process.stdout is not None
    for line in process.stdout:
        if "is ready." in line:
            break
    yield process
    process.terminate()
    process.communicate(timeout=10)


def trace(tmp_path: Path) -> list[str]:
    return [line for path in tmp_path.glob("volumes/*/live/workspace/trace") for line in path.read_text().split()]


def paused(house: House) -> list[int]:
    pids = [house.pid("runner"), house.pid("sandbox-manager")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def test_a_living_host_is_left_alone(first: House, second: subprocess.Popen[str], tmp_path: Path) -> None:
    message = first.post(SLOW.replace("sleep 1", "sleep 3"))
    assert "finished" in first.answer(message)["replies"][0]["text"]
    assert trace(tmp_path) == ["begun", "ended"]
    starts = [event for event in first.events() if event["kind"] == "turn.started"]
    assert [event["resumed"] for event in starts] == [False, False]


def recorded(house: House) -> list[dict[str, Any]]:
    """What stands in the journal, without the news that come between."""
    return [event for event in house.events() if "seq" in event]


def test_a_paused_host_is_followed_and_writes_nothing_when_it_is_back(
    first: House, second: subprocess.Popen[str], tmp_path: Path
) -> None:
    message = first.post(SLOW)
    wait_until(lambda: trace(tmp_path) == ["begun"], "it runs")
    pids = paused(first)
    gone = time.monotonic()
    try:
        found = first.answer(message)
        took = time.monotonic() - gone
        after = first.post("$ cat kept; echo after")
        assert "after" in first.answer(after)["replies"][0]["text"]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert took < GONE_SECONDS
    (reply,) = found["replies"]
    assert "interrupted" in reply["text"]
    assert trace(tmp_path).count("begun") == 1
    before = recorded(first)
    # What it believed to hold is refused, and it serves again what nobody else does.
    assert "1" in first.say("$ cat kept")
    assert len(first.status(message)["replies"]) == 1
    assert [event for event in recorded(first) if event["seq"] <= before[-1]["seq"]] == before
    assert first.run("journal", "verify").returncode == 0
    print(f"\na paused host was followed after {took:.1f} s")

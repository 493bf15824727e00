"""Two houses' worth of runners on one home: they share the work, and neither ends what the other keeps warm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from nightporter.testing import House
from tests import warm

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]


@pytest.fixture
def beside(house: House) -> Iterator[subprocess.Popen[str]]:
    """A ``nightporter runner`` beside ``up``, standing by with its sandbox manager."""
    house.say("$ X=in-the-shell-only")
    command = [sys.executable, "-m", "nightporter", "runner"]
    process = warm.popen(command, env=house.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    for line in process.stdout:
        if "is ready." in line:
            break
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=10)


def test_a_second_runner_leaves_warm_sandboxes_and_their_door(house: House, beside: subprocess.Popen[str]) -> None:
    assert "in-the-shell-only" in house.say("$ echo $X")
    beside.terminate()
    beside.wait(10)
    house.kill("runner")
    assert "in-the-shell-only" in house.say("$ echo $X")
    assert len([event for event in house.events() if event["kind"] == "sandbox.woken"]) == 1


def test_who_stands_by_takes_over_from_the_dead(house: House, beside: subprocess.Popen[str]) -> None:
    os.kill(house.pid("sandbox-manager"), signal.SIGKILL)
    assert "kept" in house.say("$ echo kept")
    assert "in-the-shell-only" in house.say("$ echo $X")

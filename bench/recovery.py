"""After kill -9: a turn that goes on within 3 s, and everything that waited answered within 5 s of `up` being ready."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from bench.houses import house
from bench.table import Row, show
from nightporter.testing import House, wait_until

WAITING = 24


def begun(found: House) -> list[Path]:
    return [path for path in found.home.glob("volumes/*/live/workspace/begun") if path.read_text()]


def resumed_at(found: House, after: float) -> float | None:
    """When a turn that was cut off was taken up again, seconds since the epoch."""
    starts = (event for event in found.events() if event["kind"] == "turn.started" and event["at"] > after)
    return next((float(event["at"]) for event in starts if event["resumed"]), None)


def measure_runner(count: int = 5) -> list[Row]:
    """A runner killed in mid-command: until its turn goes on, and until the answer (the command takes a second)."""
    resumed, answered = [], []
    with house() as found:
        found.say("$ echo hello")
        for _ in range(count):
            message = found.post("$ echo > begun; sleep 1; rm begun; echo ended")
            wait_until(lambda: begun(found), "the command has begun")
            killed = time.time()
            os.kill(found.pid("runner"), signal.SIGKILL)
            found.answer(message)
            answered.append(time.time() - killed)
            again = resumed_at(found, killed)
            assert again is not None, "the turn was taken up again"
            resumed.append(again - killed)
    return [
        Row("runner killed: the turn goes on", resumed, 3, "s"),
        Row("runner killed: answered (1 s of command)", answered, 4, "s"),
    ]


def measure_up(count: int = 3) -> Row:
    """Everything killed while many people's messages are under way: from ready to the last answer."""
    samples = []
    for _ in range(count):
        with house() as found:
            found.say("$ echo hello")
            said = {}
            for number in range(WAITING):
                user = f"u{number}"
                words = f"$ echo {number} >> log; sleep 0.3; cat log" if number % 2 else f"remember {number}"
                said[found.post(words, user=user)] = user
            found.kill_everything()
            found.start()
            ready = time.monotonic()
            for message, user in said.items():
                assert len(found.answer(message, user)["replies"]) == 1
            samples.append(time.monotonic() - ready)
    return Row(f"up killed: {WAITING} pending answered after ready", samples, 5, "s")


def measure() -> list[Row]:
    return [*measure_runner(), measure_up()]


if __name__ == "__main__":
    show(measure())

"""Schedules in a whole house: said when it is time, also what came due while nothing ran, and once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow


def fired(house: House) -> list[str]:
    """What was answered to schedules, in order."""
    messages = [each["message"] for each in house.events() if each["kind"] == "schedule.fired"]
    queued = [each for each in house.events() if each["kind"] == "reply.queued"]
    replies = {body["message"]: body["text"] for body in queued}
    return [replies[message] for message in messages if message in replies]


def test_what_is_due_is_said_and_what_came_due_while_the_machine_was_off_is_caught_up_once(tmp_path: Path) -> None:
    house = WarmHouse(tmp_path, schedules__shortest_seconds="1", schedules__late_seconds="1").start()
    try:
        house.say("$ export FOO=kept")
        assert "Scheduled as" in house.say("/schedule add in 2 seconds: $ echo once $FOO")
        wait_until(lambda: fired(house), "the schedule is said")
        assert "once kept" in fired(house)[0]
        added = house.run("schedules", "add", "owner", "every 3 seconds", "$ echo again $FOO", "--json")
        assert added.returncode == 0, added.stderr
        code = json.loads(added.stdout)["id"]
        house.kill_everything()
        listed = json.loads(house.run("schedules", "list", "owner", "--json").stdout.splitlines()[0])
        assert (listed["id"], listed["status"]) == (code, "active")
        # Nothing runs until two of its times have gone by.
        wait_until(lambda: time.time() > listed["next"] + 4, "time goes by")
        house.start()
        wait_until(lambda: len(fired(house)) >= 2, "what was missed is caught up")
        assert house.run("schedules", "pause", code).returncode == 0
        assert house.run("schedules", "pause", code).returncode == 1
        said = [each for each in house.events() if each["kind"] == "schedule.fired"]
        assert said[1]["missed"] >= 1
        assert len({each["due"] for each in said[1:]}) == len(said[1:])
    finally:
        house.stop()

"""Hosts that share nothing but a database, a Redis and an object store: what one put to sleep wakes on another, and
what a lost host had not committed is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from tests.buckets import SETTINGS, FaultyWay, ObjectStore
from tests.warm_house import WarmHouse
from workspace_store import crash_points
from workspace_store.crash_points import Point

pytestmark = pytest.mark.slow


@pytest.fixture
def shared(servers: dict[str, str], object_store: ObjectStore, way: FaultyWay) -> dict[str, str]:
    """What all hosts are told."""
    return {
        **servers,
        "volumes_url": f"s3://{object_store.create()}/house",
        "storage__endpoint": way.endpoint,
        "storage__timeout_seconds": "1",
        "sandbox__idle_seconds": "3600",
        **SETTINGS,
    }


def host(tmp_path: Path, name: str, shared: dict[str, str]) -> House:
    return WarmHouse(tmp_path / name, runner__host=name, crash_plan=str(tmp_path / f"plan-{name}"), **shared)


def test_another_host_wakes_what_one_put_to_sleep(tmp_path: Path, shared: dict[str, str]) -> None:
    first = host(tmp_path, "first", shared).start()
    first.say("$ echo hello > notes; mkdir deep; cd deep; export WORD=blue; greet() { echo hi $1; }")
    # More than fits into a reply: kept as a blob.
    first.say("$ seq 1 20000")
    assert first.stop() == 0, first.log()[-4000:]
    second = host(tmp_path, "second", shared).start()
    assert "/workspace/deep blue hi you hello" in second.say("$ echo $PWD $WORD $(greet you) $(cat ../notes)")
    assert "20000" in second.say("$ seq 1 20000 | tail -1")
    second.say("$ echo again >> ../notes")
    assert second.stop() == 0, second.log()[-4000:]
    first = host(tmp_path, "first", shared).start()
    assert "hello again" in first.say("$ echo $(cat ../notes)")
    first.say("/undo")
    assert "hello" in first.say("$ cat /workspace/notes")
    assert "again" not in first.say("$ cat /workspace/notes")
    assert first.run("journal", "verify").returncode == 0
    assert first.stop() == 0, first.log()[-4000:]


def test_a_lost_host_is_followed_from_the_last_checkpoint_and_that_is_told(
    tmp_path: Path, shared: dict[str, str]
) -> None:
    first = host(tmp_path, "first", shared).start()
    first.say("$ echo 1 > kept; cd /tmp; export WORD=blue")
    second = host(tmp_path, "second", shared).start()
    plan = tmp_path / "plan-first"
    crash_points.write(plan, Point.TURN_ANSWERED, "stop")
    message = first.post("$ echo half > /workspace/half; echo did it")
    wait_until(crash_points.reached_mark(plan).exists, "the command has run")
    first.kill_everything()
    (reply,) = second.answer(message)["replies"]
    assert "lost" in reply["text"]
    assert "did it" in reply["text"]
    assert [event["kind"] for event in second.events() if event["kind"] == "turn.rolled_back"]
    assert "/tmp blue kept" in second.say("$ echo $PWD $WORD $(ls /workspace)")
    assert second.stop() == 0, second.log()[-4000:]
    # It returns, with files on its disk that never were.
    first = host(tmp_path, "first", shared).start()
    assert "/tmp blue kept" in first.say("$ echo $PWD $WORD $(ls /workspace)")
    assert first.stop() == 0, first.log()[-4000:]


def test_while_the_store_is_away_nothing_is_called_saved_and_then_all_is(
    tmp_path: Path, shared: dict[str, str], way: FaultyWay
) -> None:
    first = host(tmp_path, "first", shared).start()
    first.say("$ echo 1 > kept")
    way.fault = lambda asked: "busy"
    told = first.say("$ echo 2 > later; echo did it")
    assert "did it" in told
    assert "could not be saved" in told
    way.fault = lambda asked: ""
    assert "could not be saved" not in first.say("$ echo 3 > latest")
    assert first.stop() == 0, first.log()[-4000:]
    second = host(tmp_path, "second", shared).start()
    assert "kept later latest" in second.say("$ echo $(ls)")
    assert second.stop() == 0, second.log()[-4000:]

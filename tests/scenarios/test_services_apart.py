"""Gateway and two runners as containers run them: a home each, secrets in files, told to stop by SIGTERM alone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

Start = Callable[..., House]


@pytest.fixture
def start(tmp_path: Path, servers: dict[str, str]) -> Iterator[Start]:
    """Starts a service by name; those that still live are stopped at the end."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "database_url").write_text(servers["database_url"])
    (secrets / "redis_url").write_text(f"{servers['redis_url']}\n")
    shared = {
        "database_url_file": f"{secrets}/database_url",
        "redis_url_file": f"{secrets}/redis_url",
        "volumes_url": f"file://{tmp_path}/volumes",
    }
    living: list[House] = []

    def start(name: str, **settings: str) -> House:
        house = WarmHouse(tmp_path / name, runner__host=name, **shared, **settings)
        house.command = name.partition("-")[0]
        living.append(house.start())
        return house

    yield start
    for house in living:
        assert house.stop() == 0, house.log()[-4000:]


def told_to_stop(runner: House, within: float) -> int:
    """SIGTERM, as Docker and Kubernetes send it; the exit code, if it comes in time."""
    assert runner.process is not None
    runner.process.send_signal(signal.SIGTERM)
    code = runner.process.wait(timeout=within)
    runner.process = None
    return code


def shown(gateway: House, *kinds: str) -> list[dict[str, object]]:
    lines = gateway.run("journal", "show", "owner", "--json").stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] in kinds]


def test_who_serves_in_other_homes_is_known(start: Start) -> None:
    gateway = start("gateway")
    with gateway.client() as client:
        assert client.get("/readyz").json()["missing"] == ["runner", "sandbox-manager"]
        first, second = start("runner-1"), start("runner-2")
        wait_until(lambda: client.get("/readyz").status_code == 200, "the gateway knows of the runners")
        alive = 'nightporter_services_alive{role="runner"}'
        wait_until(lambda: f"{alive} 2.0" in client.get("/metrics").text, "both of them")
        assert "gone through" in gateway.say("$ echo gone through")
        assert (first.run("runner", "check").returncode, gateway.run("runner", "check").returncode) == (0, 3)
        assert first.process is not None
        os.kill(first.process.pid, signal.SIGSTOP)
        os.kill(first.pid("runner"), signal.SIGKILL)
        missed = first.run("runner", "check")
        assert (missed.returncode, missed.stdout) == (1, "does not live: runner\n")
        os.kill(first.process.pid, signal.SIGCONT)
        wait_until(lambda: first.run("runner", "check").returncode == 0, "it is started again")
        for runner in (first, second):
            assert told_to_stop(runner, within=10) == 0
        wait_until(lambda: client.get("/readyz").status_code == 503, "and when they are gone", 20)


def test_sigterm_drains_a_runner_and_loses_nothing(start: Start) -> None:
    gateway, first = start("gateway"), start("runner-1", runner__drain_seconds="60")
    gateway.say("$ X=kept; mkdir -p deep; cd deep; echo first > said.txt")
    running = gateway.post("$ sleep 3; echo second >> said.txt; echo done")
    wait_until(lambda: gateway.status(running)["status"] == "running", "it runs on the first")
    second = start("runner-2", runner__drain_seconds="60")
    waiting = [gateway.post(f"$ echo {word} >> said.txt", thread=word) for word in ("third", "fourth")]
    assert told_to_stop(first, within=30) == 0, first.log()
    assert "done" in gateway.answer(running)["replies"][0]["text"]
    for message in waiting:
        gateway.answer(message)
    assert "kept\nfirst\nsecond\nthird\nfourth\n" in gateway.say("$ echo $X; cat said.txt")
    assert [event["body"]["resumed"] for event in shown(gateway, "turn.started")] == [False] * 5  # type: ignore[index]
    moved = [event["kind"] for event in shown(gateway, "sandbox.woken", "sandbox.slept")]
    assert moved == ["sandbox.woken", "sandbox.slept", "sandbox.woken"]
    assert second.run("runner", "check").returncode == 0


def test_what_does_not_end_within_its_time_goes_on_elsewhere(start: Start) -> None:
    gateway, first = start("gateway"), start("runner-1", runner__drain_seconds="1")
    running = gateway.post("$ sleep 30; echo slept")
    wait_until(lambda: shown(gateway, "tool.requested"), "it runs on the first")
    start("runner-2")
    began = time.monotonic()
    assert told_to_stop(first, within=10) == 0
    assert time.monotonic() - began > 1
    assert len(gateway.answer(running)["replies"]) == 1
    assert "again" in gateway.say("$ echo again")


def test_a_second_sigterm_does_not_wait(start: Start) -> None:
    gateway, first = start("gateway"), start("runner-1", runner__drain_seconds="60")
    running = gateway.post("$ sleep 30; echo slept")
    wait_until(lambda: shown(gateway, "tool.requested"), "it runs on the first")
    process = first.process
    assert process is not None

    def insist() -> bool:
        # Two that come in one moment are one.
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    wait_until(insist, "it stops", 10)
    assert told_to_stop(first, within=1) == 0
    start("runner-2")
    assert len(gateway.answer(running)["replies"]) == 1

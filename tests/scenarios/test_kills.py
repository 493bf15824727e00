"""SIGKILL of any process in mid-turn: what was accepted is answered exactly once, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nightporter.testing import House, wait_until
from tests.scenarios import post

MakeHouse = Callable[..., House]

# A command that takes long enough to be killed in, and leaves a trace each time it runs.
SLOW = "$ echo begun >> trace; sleep 1.5; echo ended >> trace; echo finished"


def begun(house: House) -> bool:
    return any(path.read_text() for path in house.home.glob("volumes/*/live/workspace/trace"))


def started(house: House) -> int:
    shown = house.run("journal", "show", "owner", "--json")
    return shown.stdout.count("turn.started")


def trace(house: House) -> list[str]:
    (path,) = house.home.glob("volumes/*/live/workspace/trace")
    return path.read_text().splitlines()


@pytest.mark.parametrize("victim", ["runner", "gateway", "valkey-server", "sandbox-manager"])
def test_a_kill_in_mid_command_loses_and_doubles_nothing(house: House, victim: str) -> None:
    message = house.post(SLOW)
    wait_until(lambda: begun(house), "the command has begun")
    house.kill(victim)
    after = house.post("$ echo after")
    found = house.answer(message)
    assert len(found["replies"]) == 1
    text = found["replies"][0]["text"]
    assert trace(house).count("begun") == 1, "the command ran once"
    if victim == "sandbox-manager":
        assert "interrupted" in text
    else:
        assert "finished" in text
        assert trace(house) == ["begun", "ended"]
    assert "after" in house.answer(after)["replies"][0]["text"]
    assert house.run("journal", "verify").returncode == 0


def test_up_killed_with_everything_answers_after_its_restart(house: House) -> None:
    message = house.post(SLOW)
    waiting = house.post("$ echo waited")
    wait_until(lambda: begun(house), "the command has begun")
    house.kill_everything()
    house.start()
    found = house.answer(message)
    assert len(found["replies"]) == 1
    assert "interrupted" in found["replies"][0]["text"]
    assert trace(house).count("begun") == 1
    assert len(house.answer(waiting)["replies"]) == 1
    assert "waited" in house.answer(waiting)["replies"][0]["text"]


def test_a_killed_gateway_sends_a_mail_once(house: House) -> None:
    mail = post.write(SLOW)
    post.send(house, mail)
    wait_until(lambda: begun(house), "the command has begun")
    house.kill("gateway")
    assert "finished" in post.text_of(post.reply_to(house, mail))


def test_a_runner_killed_between_messages_keeps_the_warm_sandbox(house: House) -> None:
    house.say("$ X=in-the-shell-only")
    house.kill("runner")
    assert "in-the-shell-only" in house.say("$ echo $X")
    assert len([event for event in house.events() if event["kind"] == "sandbox.woken"]) == 1


@pytest.mark.slow
def test_a_message_that_kills_its_runner_is_set_aside_and_the_next_ones_run(house: House) -> None:
    message = house.post("$ echo begun > trace; sleep 30")
    wait_until(lambda: begun(house), "the command has begun")
    after = house.post("$ echo after")
    for attempt in range(1, 6):
        wait_until(lambda number=attempt: started(house) >= number, f"the turn was started {attempt} times")
        house.kill("runner")
    found = house.answer(message)
    assert found["status"] == "failed"
    assert "set this message aside" in found["replies"][0]["text"]
    assert "after" in house.answer(after)["replies"][0]["text"]

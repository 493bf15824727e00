"""From a knock to a reply, and back to sleep."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from nightporter.testing import House
from tests.scenarios import post

MakeHouse = Callable[..., House]


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Started as its users start it."""
    house = House(tmp_path_factory.mktemp("house") / "home").start()
    yield house
    assert house.stop() == 0, house.log()[-4000:]


def test_a_plain_message_is_answered_honestly(shared_house: House) -> None:
    house = shared_house
    reply = house.say("How are you?")
    assert "I have no model yet" in reply
    assert "[engine]" in reply


def test_a_command_runs_in_the_sandbox_and_its_output_comes_back(shared_house: House) -> None:
    house = shared_house
    assert "```\nhello\n```" in house.say("$ echo hello")
    assert "Exit code 3." in house.say("$ (exit 3)")


def test_shell_state_is_where_it_was_after_the_sandbox_has_slept(make_house: MakeHouse) -> None:
    house = make_house(sandbox__idle_seconds="0.5")
    house.say("$ export FOO=1; mkdir -p sub && cd sub")
    house.say("$ greet() { echo \"hello $1\"; }; alias ll='ls -la'; umask 027; set -o noclobber; shopt -s globstar")
    house.sleep_sandboxes()
    reply = house.say("$ echo $FOO; pwd; greet you; alias ll; umask; set -o | grep noclobber; shopt globstar")
    assert reply.splitlines()[1:8] == [
        "1", "/workspace/sub", "hello you", "alias ll='ls -la'", "0027", "noclobber      \ton", "globstar       \ton",
    ]  # fmt: skip
    woken = [event for event in house.events() if event["kind"] == "sandbox.woken"]
    assert len(woken) == 2, "it was a new sandbox"


def test_the_same_by_mail_in_the_thread_of_the_mail(make_house: MakeHouse) -> None:
    house = make_house(sandbox__idle_seconds="0.5")
    first = post.write("$ export FOO=1; mkdir -p sub && cd sub", "Please set this up")
    post.send(house, first)
    post.reply_to(house, first)
    house.sleep_sandboxes()
    second = post.write(
        "$ echo $FOO; pwd\n\nOn Monday, Nightporter wrote:\n> Done, no output.\n",
        "Re: Please set this up",
        In_Reply_To=first["Message-ID"],
        References=first["Message-ID"],
    )
    post.send(house, second)
    reply = post.reply_to(house, second)
    assert "1\n" in post.text_of(reply)
    assert "/workspace/sub" in post.text_of(reply)
    assert reply["References"].split() == [first["Message-ID"], second["Message-ID"]]
    assert reply["Subject"] == "Re: Please set this up"
    assert reply["Auto-Submitted"] == "auto-replied"
    # One person at both channels: the owner's shell is the same over HTTP.
    assert "/workspace/sub" in house.say("$ pwd")


def test_notes_are_kept_and_found(shared_house: House) -> None:
    house = shared_house
    house.say("remember the door code is 4711")
    assert "4711" in house.say("recall door code")


def test_background_tasks_outlive_their_message_and_the_sandbox(make_house: MakeHouse) -> None:
    house = make_house(sandbox__idle_seconds="0.5")
    assert house.say("$& while true; do echo tick; sleep 0.1; done") == "Started as task 1."
    house.sleep_sandboxes()
    assert "running" in house.say("tasks")
    assert "started 2×" in house.say("tasks")
    assert "tick" in house.say("output 1")
    house.say("stop 1")
    assert "running" not in house.say("tasks")


def test_users_have_workspaces_of_their_own(shared_house: House) -> None:
    house = shared_house
    house.say("$ echo mine > secret.txt")
    assert "secret.txt" not in house.say("$ ls /workspace", user="bob")
    house.say("remember the code is 99")
    assert "99" not in house.say("recall code", user="bob")


def test_the_journal_verifies_and_lists_what_happened(shared_house: House) -> None:
    house = shared_house
    house.say("$ echo hello")
    kinds = [event["kind"] for event in house.events()]
    for kind in (
        "message.received",
        "turn.started",
        "model.responded",
        "tool.requested",
        "tool.returned",
        "reply.queued",
    ):
        assert kind in kinds
    verified = house.run("journal", "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shown = house.run("journal", "show", "owner", "--json")
    assert "tool.returned" in shown.stdout
    history = house.run("workspace", "history", "owner", "--json")
    assert [json.loads(line)["number"] for line in history.stdout.splitlines()][-1] == 1


@pytest.mark.parametrize("command", ["/help", "!help", "/status", "/whoami"])
def test_commands_are_answered_at_intake(shared_house: House, command: str) -> None:
    def turns() -> int:
        return len([event for event in shared_house.events() if event["kind"] == "turn.started"])

    before = turns()
    assert shared_house.say(command)
    assert turns() == before

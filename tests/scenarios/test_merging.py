"""Two users who become one and two again: files, notes and who is who, over the command line and real sandboxes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from nightporter.testing import House, wait_until

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]


def user(house: House, name: str) -> str:
    shown = house.run("users", "show", name, "--json")
    assert shown.returncode == 0, shown.stderr
    return str(json.loads(shown.stdout)["id"])


def admin(house: House, *words: str) -> dict[str, object]:
    done = house.run("users", *words, "--yes", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def two(make_house: MakeHouse) -> House:
    house = make_house()
    house.say("$ echo mine > mine.txt; export FOO=owner")
    house.say("$ echo heron > bob.txt", user="bob")
    house.say("remember the codeword is heron", user="bob")
    return house


def test_a_merged_workspace_is_seen_used_and_given_back(two: House) -> None:
    house, bob = two, user(two, "local:bob")
    assert admin(house, "merge", "owner", "local:bob")["state"] == "done"
    assert "heron" in house.say("$ cat /workspace/merged/bob/bob.txt; echo $FOO")
    assert "owner" in house.say("$ echo $FOO"), "the shell is where it was"
    assert "heron" in house.say("recall codeword")
    house.say("$ echo together > /workspace/merged/bob/new.txt")
    assert "mine.txt" in house.say("$ ls", user="bob"), "bob is the owner now"
    history = house.run("workspace", "history", bob, "--json")
    assert len(history.stdout.splitlines()) == 2, "what changed there is a generation of that volume"
    admin(house, "unmerge", bob)
    assert "together" in house.say("$ cat bob.txt new.txt", user="bob")
    assert "mine.txt" not in house.say("$ ls", user="bob")
    assert "heron" not in house.say("$ cat /workspace/merged/bob/bob.txt 2>&1; echo $FOO")
    assert "heron" not in house.say("recall codeword")
    assert "heron" in house.say("recall codeword", user="bob")
    assert house.run("journal", "verify").returncode == 0


def test_an_unmerged_workspace_leaves_a_sandbox_that_still_runs(two: House) -> None:
    """A background task must not go on reading what is somebody else's again."""
    house, bob = two, user(two, "local:bob")
    admin(house, "merge", "owner", "local:bob")
    reading = "cat /workspace/merged/bob/bob.txt > /dev/null || echo gone >> /workspace/seen"
    house.say(f"$& while true; do {reading}; sleep 0.2; done")
    admin(house, "unmerge", bob)
    wait_until(lambda: "heron" in house.say("$ cat bob.txt", user="bob"), "the volume is given back")
    assert "gone" in house.say("$ sleep 1; cat /workspace/seen")


def test_a_link_in_the_way_of_a_merged_workspace_leads_nowhere(two: House) -> None:
    house = two
    house.say("$ mkdir -p /workspace/merged; ln -s /etc /workspace/merged/bob; ln -s / /workspace/root")
    admin(house, "merge", "owner", "local:bob")
    said = house.say("$ ls -ld /workspace/merged/bob; cat /workspace/merged/bob/bob.txt 2>&1")
    assert "heron" not in said
    assert "cannot be shown" in said or "/etc" in said


@pytest.mark.parametrize("victim", ["runner", "sandbox-manager"])
def test_a_kill_in_a_merged_workspace_loses_nothing(two: House, victim: str) -> None:
    house = two
    admin(house, "merge", "owner", "local:bob")
    house.say("$ echo kept > /workspace/merged/bob/kept.txt")
    message = house.post("$ echo begun > /workspace/merged/bob/begun; sleep 1; echo done")
    wait_until(lambda: list(house.home.glob("volumes/*/live/workspace/begun")), "it has begun")
    house.kill(victim)
    assert len(house.answer(message)["replies"]) == 1
    assert "kept" in house.say("$ cat /workspace/merged/bob/kept.txt")


def test_a_block_ends_the_sandbox_and_the_turn(two: House) -> None:
    house = two
    message = house.post("$ echo begun > begun; sleep 60", user="bob")
    wait_until(lambda: list(house.home.glob("volumes/*/live/workspace/begun")), "it has begun")
    admin(house, "block", "local:bob")
    wait_until(lambda: house.status(message, "bob")["status"] in ("done", "failed"), "the turn is stopped", 20)
    assert house.status(message, "bob")["replies"] == []
    with house.client() as client:
        assert client.post("/v1/messages", json={"text": "hello", "user": "bob"}).status_code == 403


def test_users_on_the_command_line(two: House) -> None:
    house = two
    listed = [json.loads(line) for line in house.run("users", "list", "--json").stdout.splitlines()]
    assert [row["identities"] for row in listed] == [["local:owner"], ["local:bob"]]
    assert [row["role"] for row in listed] == ["admin", "member"]
    asked = house.run("users", "merge", "owner", "local:bob")
    assert asked.returncode == 1
    assert "/workspace/merged/bob" in asked.stderr, "what will move is shown before it moves"
    assert "--yes" in asked.stderr
    assert user(house, "local:bob") != user(house, "owner")
    assert house.run("users", "show", "nobody").returncode == 1

"""A person's agent moves to another house with word, file and shell; who is refused; and a copy that is a fork."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.models import ModelServer, Say
from tests.servers import PostgreSQL

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
WORD = "xyzzyheron"


def run(house: House, *words: str) -> dict[str, Any]:
    done = house.run(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(house: House, *words: str) -> str:
    done = house.run(*words)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def plant(house: House, user: str) -> None:
    house.say(f"remember the codeword is {WORD}", user=user)
    house.say(f"$ mkdir -p deep && cd deep && echo {WORD} > gold.txt && export SECRETLY=kept", user=user)


def grant(old: House, new: House, user: str, place: str = "new.example") -> tuple[str, str]:
    """The user's UUID, and what the new house grants."""
    who = run(old, "users", "show", user)
    made = run(new, "users", "grant", who["id"], "--from", who["installation"], "--at", place)
    return str(who["id"]), str(made["grant"])


def move(old: House, new: House, user: str, file: Path) -> str:
    identifier, code = grant(old, new, user)
    assert run(old, "users", "export", user, str(file), "--grant", code)["user"] == identifier
    assert run(new, "users", "import", str(file))["user"] == identifier
    return identifier


def check_lives(house: House, user: str) -> None:
    """They remember the word, and are where they were in the right workspace."""
    assert WORD in house.say("recall codeword", user=user)
    assert house.say("$ pwd; echo $SECRETLY; cat gold.txt; echo more >> gold.txt", user=user).split("\n")[1:4] == [
        "/workspace/deep", "kept", WORD,
    ]  # fmt: skip
    assert "more" in house.say("$ cat gold.txt", user=user)
    assert house.run("journal", "verify").returncode == 0


def test_the_codeword_moves_with_its_person_and_nobody_else_gets_at_it(make_house: MakeHouse, tmp_path: Path) -> None:
    old, new, third = make_house(), make_house(), make_house()
    plant(old, "bob")
    old.say("remember the owner stays", user="owner")
    assert "scheduled" in old.say("/schedule every 1 day at 08:00: water the plants", user="bob").lower()
    run(old, "users", "export", "local:bob", str(copy := tmp_path / "copy.tar"))
    file = tmp_path / "bob.tar"
    bob, code = grant(old, new, "local:bob")

    # Others: another person's, another house's, another agent's grant.
    owner, owners = grant(old, new, "local:owner")
    assert "that grant is for" in refused(old, "users", "export", "local:bob", str(file), "--grant", owners)
    assert "that grant is for" in refused(old, "users", "export", "local:owner", str(file), "--grant", code)
    assert "nobody granted" in refused(new, "users", "import", str(copy))
    assert WORD in old.say("recall codeword", user="bob")
    assert not file.exists()

    # In mid-turn they are not packed; then they are.
    running = old.post("$ sleep 4; echo done", user="bob")
    assert "is running" in refused(old, "users", "export", "bob", str(file), "--grant", code, "--wait", "0")
    assert run(old, "users", "export", "bob", str(file), "--grant", code)["to"] == "new.example"
    wait_until(lambda: old.status(running, "bob")["status"] == "done", "what ran was finished first")

    # The old place accepts nothing and says where the agent went; the owner lives on there.
    with old.client() as client:
        answer = client.post("/v1/messages", json={"text": "hello", "user": "bob"})
        assert (answer.status_code, "new.example" in answer.text) == (410, True)
        assert client.get("/v1/events", params={"user": "bob"}).status_code == 410
    assert "new.example" in old.run("chat", "--user", "bob", "-m", "hello").stderr
    assert "the owner stays" in old.say("recall owner")

    # A house that did not grant it is refused; the one that did takes it in, once.
    assert "granted to come to new.example" in refused(third, "users", "import", str(file))
    assert run(new, "users", "import", str(file))["user"] == bob
    assert "used already" in refused(new, "users", "import", str(file))
    check_lives(new, "bob")
    assert "water the plants" in new.say("/schedule list", user="bob")
    assert WORD not in new.say("recall codeword", user="eve")
    assert WORD not in new.say("recall codeword")
    assert "No such file" in new.say("$ cat gold.txt deep/gold.txt")

    # What was copied without a grant is somebody else, who remembers.
    fork = run(third, "users", "import", str(copy), "--fork", "twin")
    assert (fork["fork"], fork["was"], fork["user"] != bob) == (True, bob, True)
    check_lives(third, "twin")
    assert "paused" in third.say("/schedule list", user="twin")
    assert owner == run(old, "users", "show", "owner")["id"]


def test_there_and_back_between_the_drivers(make_house: MakeHouse, postgresql: PostgreSQL, tmp_path: Path) -> None:
    """From a house that was cut off, too: what a background task wrote after the last turn is in the bundle."""
    old, new = make_house(), make_house(database_url=postgresql.create())
    plant(old, "bob")
    old.say("$& sh -c 'sleep 0.5; echo late > late.txt; sleep 100'", user="bob")
    wait_until(lambda: list(old.home.glob("volumes/*/live/workspace/deep/late.txt")), "it was written")
    old.kill_everything()
    move(old, new, "bob", tmp_path / "there.tar")
    check_lives(new, "bob")
    assert "late" in new.say("$ cat late.txt", user="bob")
    new.say("remember the second codeword is plughlark", user="bob")
    old.start()
    move(new, old, "bob", tmp_path / "back.tar")
    check_lives(old, "bob")
    assert "plughlark" in old.say("recall plughlark", user="bob")


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.mark.parametrize("first", ["operator", "model"])
async def test_another_engine_is_the_same_agent(
    make_house: MakeHouse, models: ModelServer, tmp_path: Path, first: str
) -> None:
    thinking = {"engine__model": "openai:local", "engine__base_url": models.base_url, "engine__api_key": "a-test-key"}
    old = await asyncio.to_thread(make_house, **(thinking if first == "model" else {}))
    new = await asyncio.to_thread(make_house, **({} if first == "model" else thinking))
    if first == "operator":
        await asyncio.to_thread(plant, old, "bob")
    else:
        shell = f"mkdir -p deep && cd deep && echo {WORD} > gold.txt && export SECRETLY=kept"
        note = {"text": f"the codeword is {WORD}"}
        models.say(Say(calls=[("shell", {"command": shell}), ("remember", note)]), Say("Noted."))
        await asyncio.to_thread(old.say, f"The codeword is {WORD}; keep it, and bury the gold.", user="bob")
    await asyncio.to_thread(move, old, new, "bob", tmp_path / "bob.tar")
    if first == "model":
        await asyncio.to_thread(check_lives, new, "bob")
        return
    look = "pwd; echo $SECRETLY; cat gold.txt; echo more >> gold.txt; cat gold.txt"
    models.say(Say(calls=[("recall", {"query": "codeword"}), ("shell", {"command": look})]))
    models.script = lambda asked: Say("\n".join(asked.results()))
    said = await asyncio.to_thread(new.say, "What is the codeword, and where is the gold?", user="bob")
    assert f"the codeword is {WORD}" in said
    assert f"/workspace/deep\nkept\n{WORD}\n{WORD}\nmore" in said
    assert models.refused == []

"""The heartbeat in a whole house: silent where there is nothing to tell, and told where there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import text

from nightporter.testing import House
from nightporter.testing.models import Asked, ModelServer, Say
from nightporter.testing.web import until
from workspace_store.database import Database

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def test_only_what_there_is_to_tell_is_told(make_house: MakeHouse, models: ModelServer) -> None:
    house = await asyncio.to_thread(
        make_house, engine__model="openai:local", engine__base_url=models.base_url, engine__api_key="a-test-key",
        heartbeat__every="1s",
    )  # fmt: skip
    beats: list[Asked] = []

    def script(asked: Asked) -> Say:
        if not any("Heartbeat:" in words for _, words in asked.said[-2:]):
            return Say("Written down.")
        beats.append(asked)
        return Say("The build is red." if len(beats) == 3 else "HEARTBEAT_OK")

    models.say(Say(calls=[("write_file", {"path": "HEARTBEAT.md", "content": "- is the build green?"})]))
    models.script = script
    await asyncio.to_thread(house.say, "watch the build")
    database = Database(f"sqlite:///{house.home}/nightporter.db")

    def column(query: str) -> list[str]:
        return [str(one) for one in database.read_now(lambda c: c.execute(text(query)).scalars().all())]

    await until(lambda: len(beats) > 5, "it beats", 30)
    assert "is the build green?" in beats[0].words
    said = [json.loads(content)["text"] for content in column("SELECT content FROM outbox ORDER BY number")]
    assert said == ["Written down.", "The build is red."]
    # What was silent leaves nothing behind for later turns.
    assert beats[1].words.count("Heartbeat:") == beats[2].words.count("Heartbeat:") == 1
    assert "HEARTBEAT_OK`" not in "".join(column("SELECT messages FROM turn_record")).replace("with `HEARTBEAT_OK`", "")
    keys = column("SELECT dedupe_key FROM inbox WHERE kind = 'heartbeat'")
    assert len(keys) == len(set(keys)) >= 5
    database.close()


async def test_killed_in_its_middle_it_goes_on_and_comes_once(make_house: MakeHouse, models: ModelServer) -> None:
    house = await asyncio.to_thread(
        make_house, engine__model="openai:local", engine__base_url=models.base_url, engine__api_key="a-test-key",
        heartbeat__every="6h",
    )  # fmt: skip
    models.say(Say(calls=[("write_file", {"path": "HEARTBEAT.md", "content": "- is the build green?"})]))
    models.script = lambda asked: Say("Written down.")
    await asyncio.to_thread(house.say, "watch the build")
    before = len(models.asked)
    models.say(Say(calls=[("shell", {"command": "echo looked >> looks"})]), Say(hang=True))
    models.script = lambda asked: Say("The build is red.")
    # Another runner looks anew, and finds the file that was not there when this interval began.
    await asyncio.to_thread(house.kill, "runner")
    await until(lambda: len(models.asked) == before + 2, "it has looked, and thinks", 30)
    await asyncio.to_thread(house.kill, "runner")
    database = Database(f"sqlite:///{house.home}/nightporter.db")

    def column(query: str) -> list[str]:
        return [str(one) for one in database.read_now(lambda c: c.execute(text(query)).scalars().all())]

    query = "SELECT content FROM outbox ORDER BY number"
    await until(lambda: any("The build is red." in words for words in column(query)), "it is told", 30)
    assert [json.loads(words)["text"] for words in column(query)] == ["Written down.", "The build is red."]
    models.release()
    # Nothing was asked or done a second time, and no runner made another of the same interval.
    assert len(models.asked) == before + 3
    assert await asyncio.to_thread(house.say, "$ cat looks") == "The build is red."
    assert len(column("SELECT id FROM inbox WHERE kind = 'heartbeat'")) == 1
    assert column("SELECT count(*) FROM journal_event WHERE kind = 'tool.returned'") == ["2"]
    database.close()


async def test_status_and_doctor_say_that_it_beats(make_house: MakeHouse, models: ModelServer) -> None:
    house = await asyncio.to_thread(
        make_house, engine__model="openai:local", engine__base_url=models.base_url, engine__api_key="a-test-key",
        heartbeat__every="2h", heartbeat__quiet_hours="22:00-07:00",
    )  # fmt: skip
    said = (await asyncio.to_thread(house.run, "status")).stdout
    assert "beats    every 2h, not at 22:00-07:00" in said
    found = json.loads((await asyncio.to_thread(house.run, "status", "--json")).stdout)
    assert found["heartbeat"] == {"every": "2h", "quiet_hours": "22:00-07:00"}
    doctor = (await asyncio.to_thread(house.run, "doctor")).stdout
    assert "Every 2h, not at 22:00-07:00 a turn is spent" in doctor

"""Which host serves whom: the one where their sandbox is warm, another where that one is full, gone or leaving."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench import hosts
from bench.talk import Person, Said, all_talk
from nightporter.testing.fleet import Fleet
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

USERS = 8
SENDERS = 32
EACH = 8
GONE_SECONDS = 15.0


class WarmFleet(Fleet):
    house = WarmHouse

    def awake_at(self) -> Counter[str]:
        """How many sandboxes each host keeps warm."""
        with psycopg.connect(self.conninfo) as connection:
            rows = connection.execute("SELECT sandbox_host FROM principal WHERE sandbox_host IS NOT NULL").fetchall()
        return Counter(row[0].removeprefix("sandbox-manager-").rpartition("-")[0] for row in rows)

    def happened(self, kind: str) -> int:
        with psycopg.connect(self.conninfo) as connection:
            row = connection.execute("SELECT count(*) FROM journal_event WHERE kind = %s", [kind]).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[WarmFleet]:
    """With the first host alone; the second is started by the tests."""
    found = WarmFleet(tmp_path)
    # Two readers, each with a slot of its own: two turns make it full.
    found.hosts["first"].settings = {**found.hosts["first"].settings, "runner__concurrency": "1"}
    found.gateway.start()
    found.hosts["first"].start()
    yield found
    found.stop()


def test_who_is_warm_somewhere_goes_there(fleet: WarmFleet) -> None:
    for number in range(USERS):
        fleet.gateway.say(f"$ X={number}", user=f"u{number}")
    fleet.hosts["second"].start()
    assert fleet.awake_at() == {"first": USERS}
    for _ in range(3):
        for number in range(USERS):
            assert f"is {number}" in fleet.gateway.say("$ echo is $X", user=f"u{number}")
    assert fleet.awake_at() == {"first": USERS}
    assert (fleet.happened("sandbox.woken"), fleet.happened("sandbox.slept")) == (USERS, 0)


def test_who_is_warm_where_nobody_has_room_is_served_elsewhere(fleet: WarmFleet) -> None:
    gateway = fleet.gateway
    for user in ("ann", "bob", "cat"):
        gateway.say("$ X=kept; cd /tmp", user=user)
    busy = [(user, gateway.post("$ sleep 8; echo slept", user=user)) for user in ("ann", "bob")]
    fleet.hosts["second"].start()
    began = time.monotonic()
    assert "kept /tmp" in gateway.say("$ echo $X $(pwd)", user="cat")
    assert time.monotonic() - began < 6
    assert all(gateway.status(message, user)["status"] == "running" for user, message in busy)
    assert fleet.awake_at() == {"first": 2, "second": 1}
    for user, message in busy:
        assert "slept" in gateway.answer(message, user)["replies"][0]["text"]


def test_who_was_warm_on_a_host_that_is_gone_is_served_elsewhere(fleet: WarmFleet) -> None:
    fleet.gateway.say("$ echo here > kept")
    fleet.hosts["second"].start()
    fleet.kill("first")
    began = time.monotonic()
    assert "here" in fleet.gateway.say("$ cat kept")
    assert time.monotonic() - began < GONE_SECONDS
    assert fleet.awake_at() == {"second": 1}


def test_a_host_is_left_while_many_talk(fleet: WarmFleet) -> None:
    """What comes while it leaves is said once, answered once and done once."""
    fleet.hosts["second"].start()
    said = asyncio.run(_leave_while_all_talk(fleet))
    found = hosts.counted(fleet, said, Counter(), 0.0)
    assert found.is_good, found
    assert found.interrupted == 0
    assert len(said) == SENDERS * EACH
    assert fleet.awake_at().keys() <= {"second"}


async def _leave_while_all_talk(fleet: WarmFleet) -> list[Said]:
    at, token = fleet.gateway.addresses["http"], fleet.gateway.token
    people = [Person(f"u{number}", at, token) for number in range(SENDERS)]
    under_way = asyncio.Event()

    async def talk(person: Person) -> None:
        for number in range(1, EACH + 1):
            await person.ask(hosts.words(person, number))
            if number == EACH // 4:
                under_way.set()

    async def leave() -> None:
        await under_way.wait()
        left = await asyncio.to_thread(fleet.hosts["first"].run, "runner", "drain")
        assert left.returncode == 0, left

    leaving = asyncio.create_task(leave())
    await all_talk(people, talk)
    await leaving
    return [said for person in people for said in list(person.said.values())[1:]]

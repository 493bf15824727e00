"""What a house needs is away for a while: the database, Redis and what was in it. Nothing accepted is lost, nothing is
done twice, and it all goes on by itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from smtplib import SMTPResponseException
from uuid import uuid4

import pytest

from nightporter.testing import House, wait_until
from router.bells import queue_name
from tests.scenarios import post
from tests.servers import PostgreSQL, Valkey
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

PEOPLE = 20
REBUILT_SECONDS = 5.0
SLOW = "$ echo begun >> trace; sleep 1.5; echo ended >> trace; echo finished"


def trace(house: House) -> list[str]:
    return [line for path in house.home.glob("volumes/*/live/workspace/trace") for line in path.read_text().split()]


def status_of_post(house: House, text: str) -> int:
    with house.client() as client:
        return client.post("/v1/messages", json={"text": text, "message_id": uuid4().hex}).status_code


def only_reply(house: House, message: str, user: str = "owner") -> str:
    replies = house.answer(message, user)["replies"]
    assert len(replies) == 1
    return str(replies[0]["text"])


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Valkey]:
    """A Redis of its own, as a house of several hosts has."""
    server = Valkey(tmp_path / "valkey")
    yield server
    server.stop()


@pytest.fixture
def house(tmp_path: Path, redis: Valkey) -> Iterator[House]:
    found = WarmHouse(tmp_path / "home", redis_url=f"unix://{redis.socket}").start()
    yield found
    assert found.stop() == 0, found.log()[-4000:]


def test_redis_flushed_costs_five_seconds_and_no_message(house: House, redis: Valkey) -> None:
    house.say("hello")
    runner = house.pid("runner")
    os.kill(runner, signal.SIGSTOP)
    try:
        said = {house.post(f"remember {number}", user=f"u{number}"): f"u{number}" for number in range(PEOPLE)}
        with redis.connect() as connection:
            wait_until(lambda: any(connection.keys(f"rq:queue:{queue_name()}*")), "their jobs wait")
            connection.flushall()
            assert connection.dbsize() == 0
    finally:
        os.kill(runner, signal.SIGCONT)
    flushed = time.monotonic()
    for message, user in said.items():
        only_reply(house, message, user)
    assert time.monotonic() - flushed < REBUILT_SECONDS
    assert "hello" in house.say("$ echo hello")


def test_redis_away_accepting_goes_on_and_turns_do_not_notice(house: House, redis: Valkey) -> None:
    house.say("$ echo hello")
    running = house.post(SLOW)
    wait_until(lambda: trace(house) == ["begun"], "it runs")
    redis.kill()
    meanwhile = [house.post("$ echo meanwhile", user=f"u{number}") for number in range(3)]
    with house.client() as client:
        assert client.get("/readyz").json()["missing"] == ["redis"]
    assert "finished" in only_reply(house, running)
    for number, message in enumerate(meanwhile):
        assert "meanwhile" in only_reply(house, message, f"u{number}")
    redis.start()
    assert "after" in house.say("$ echo after")
    assert trace(house) == ["begun", "ended"]


def test_a_redis_that_hangs_holds_nobody_up(house: House, redis: Valkey) -> None:
    house.say("$ echo hello")
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        assert "meanwhile" in house.say("$ echo meanwhile")
    finally:
        os.kill(redis.pid, signal.SIGCONT)
    assert "after" in house.say("$ echo after")


def test_a_locked_database_is_waited_for(house: House) -> None:
    house.say("$ echo hello")
    running = house.post(SLOW)
    wait_until(lambda: trace(house) == ["begun"], "it runs")
    with ThreadPoolExecutor(2) as pool:
        database = sqlite3.connect(house.home / "nightporter.db", isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        waiting = pool.submit(house.post, "$ echo waited")
        mail = post.write("$ echo by-mail")
        mailing = pool.submit(post.send, house, mail)
        time.sleep(2.5)
        assert not waiting.done(), "nothing is acknowledged that is not recorded"
        database.execute("ROLLBACK")
        database.close()
        assert "waited" in only_reply(house, waiting.result(30))
        mailing.result(30)
    assert "by-mail" in post.text_of(post.reply_to(house, mail))
    assert "finished" in only_reply(house, running)
    assert trace(house) == ["begun", "ended"]


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    """PostgreSQL of this story alone: it is shut in its middle."""
    found = PostgreSQL()
    yield found
    found.stop()


def test_postgresql_away_is_told_and_everything_goes_on_when_it_is_back(
    tmp_path: Path, server: PostgreSQL, redis: Valkey
) -> None:
    house = WarmHouse(tmp_path / "pg", database_url=server.create(), redis_url=f"unix://{redis.socket}").start()
    try:
        house.say("$ echo hello")
        running = house.post(SLOW)
        wait_until(lambda: trace(house) == ["begun"], "it runs")
        server.shut()
        assert status_of_post(house, "hello") == 503
        with pytest.raises(SMTPResponseException) as error:
            post.send(house, post.write("hello"))
        assert 400 <= error.value.smtp_code < 500
        with house.client() as client:
            assert "database" in client.get("/readyz").json()["missing"]
        server.start()
        assert "finished" in only_reply(house, running)
        assert trace(house) == ["begun", "ended"]
        assert "after" in house.say("$ echo after")
        assert house.run("journal", "verify").returncode == 0
    finally:
        assert house.stop() == 0, house.log()[-4000:]

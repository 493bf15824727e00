"""A real disk that is full: nothing more is accepted, nothing is half-written, it is told, and it ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from smtplib import SMTPDataError
from uuid import uuid4

import httpx
import pytest

from nightporter.testing import House, wait_until
from tests.full_disk import fill, small_disk
from tests.scenarios import post
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

MEGABYTES = 120


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", MEGABYTES) as found:
        yield found


@pytest.fixture
def house(disk: Path) -> Iterator[House]:
    found = WarmHouse(disk / "home").start()
    yield found
    assert found.stop() == 0, found.log()[-4000:]


def send(house: House, text: str, **more: object) -> httpx.Response:
    with house.client() as client:
        return client.post("/v1/messages", json={"text": text, "message_id": uuid4().hex, **more})


def missing(house: House) -> list[str]:
    with house.client() as client:
        found: list[str] = client.get("/readyz").json()["missing"]
    return found


def messages(house: House) -> int:
    return sum(event["kind"] == "message.received" for event in house.events())


def test_a_full_disk_from_end_to_end(house: House, disk: Path) -> None:
    assert "before" in house.say("$ echo before | tee kept")
    running = house.post("$ sleep 2; cat kept")
    wait_until(lambda: house.status(running)["status"] == "running", "it runs")
    accepted = messages(house)
    fill(disk)
    wait_until(lambda: "disk" in missing(house), "it says that the disk is full")
    # Refused before anything is written, whichever door.
    refused = send(house, "hello")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    assert "the disk is full" in refused.json()["error"]
    with house.client() as client:
        form = client.post("/v1/messages", data={"text": "x"}, files={"file": ("a", bytes(200_000))})
    assert form.status_code == 503
    mail = post.write("$ echo by-mail")
    with pytest.raises(SMTPDataError) as error:
        post.send(house, mail)
    assert error.value.smtp_code == 452
    assert b"disk is full" in error.value.smtp_error
    # What was accepted is finished in the reserve, and the admin is told.
    assert "before" in house.answer(running)["replies"][0]["text"]
    assert messages(house) == accepted
    said = [event for event in house.events() if event["kind"] == "reply.queued"]
    assert any("My disk is full" in str(event.get("text")) for event in said)
    status = house.run("status")
    assert status.returncode == 1
    assert "disk" in status.stdout
    # There is room again: nobody starts anything.
    (disk / "filler").unlink()
    wait_until(lambda: "disk" not in missing(house), "it has room")
    assert "after" in house.say("$ echo after")
    post.send(house, mail)
    assert "by-mail" in post.text_of(post.reply_to(house, mail))
    wait_until(lambda: any("room on my disk again" in str(event) for event in house.events()), "the admin is told")
    assert house.run("journal", "verify").returncode == 0
    assert house.run("db", "check").returncode == 0


def test_a_house_that_is_killed_on_a_full_disk_starts_and_goes_on(house: House, disk: Path) -> None:
    assert "before" in house.say("$ echo before | tee kept")
    message = house.post("$ sleep 1; cat kept")
    wait_until(lambda: house.status(message)["status"] == "running", "it runs")
    fill(disk)
    house.kill_everything()
    house.start()
    assert send(house, "hello").status_code == 503
    assert len(house.answer(message)["replies"]) == 1
    (disk / "filler").unlink()
    wait_until(lambda: not missing(house), "it has room")
    assert "before" in house.say("$ cat kept")

"""Bad input: a clear answer each time, nothing lost, memory bounded, the service up."""

from __future__ import annotations

import os
import re
import smtplib
from collections.abc import Callable
from pathlib import Path

import pytest

from nightporter.testing import House
from tests.scenarios import post

MakeHouse = Callable[..., House]


def up_and_well(house: House) -> bool:
    return "still here" in house.say("$ echo still here")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"[]", 400),
        (b'"hello"', 400),
        (b'{"text": ""}', 400),
        (b'{"text": "  \\n"}', 400),
        (b'{"text": 5}', 400),
        (b'{"text": "x", "surprise": 1}', 400),
        (b'{"text": "x", "message_id": ""}', 400),
        (b'{"text": "x", "user": "../../etc"}', 400),
        (b'\xff\xfe{"text": "x"}', 400),
        (b"[" * 100_000, 400),
        (b'{"text": "' + b"x" * (5 << 20) + b'"}', 413),
    ],
)
def test_a_bad_request_gets_a_clear_error(shared_house: House, body: bytes, status: int) -> None:
    house = shared_house
    with house.client() as client:
        answer = client.post("/v1/messages", content=body)
    assert answer.status_code == status, answer.text
    assert len(answer.json()["error"]) > 10
    assert up_and_well(house)


def test_the_token_is_needed(shared_house: House) -> None:
    house = shared_house
    with house.client() as client:
        for path in ("/readyz", "/metrics", "/v1/messages/x", "/v1/events"):
            assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/healthz", headers={"authorization": ""}).status_code == 200


def test_a_text_of_a_megabyte_is_answered(shared_house: House) -> None:
    house = shared_house
    assert "I have no model yet" in house.say("word " * 200_000)
    assert "1000000" in house.say("$ echo -n '" + "x" * 1_000_000 + "' | wc -c")


def test_nul_bytes_and_lone_surrogates_are_replaced(shared_house: House) -> None:
    house = shared_house
    with house.client() as client:
        sent = client.post("/v1/messages", content=b'{"text": "remember a\\u0000b\\ud800c", "message_id": "odd"}')
    assert sent.status_code == 202
    assert house.answer("odd")["replies"][0]["text"] == "I will remember: a�b�c"


@pytest.mark.slow
def test_a_flood_of_output_is_cut_and_memory_stays_bounded(shared_house: House) -> None:
    house = shared_house
    house.say("$ true")
    reply = house.say("$ yes | head -c 100000000")
    assert "left out" in reply
    assert len(reply) < 20_000
    assert max(memory(pid) for pid in house.tree()) < 300 << 20
    assert up_and_well(house)


def memory(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) << 10 if found else 0


def test_a_command_that_never_ends_becomes_a_task(make_house: MakeHouse) -> None:
    house = make_house(sandbox__command_timeout_seconds="1")
    reply = house.say("$ echo started; sleep 1000")
    assert "started" in reply
    assert "Still running after 1 s, now task 1." in reply
    assert up_and_well(house)
    assert "sleep 1000" in house.say("tasks")


@pytest.mark.slow
def test_a_command_that_waits_for_input_does_not_hang(make_house: MakeHouse) -> None:
    house = make_house(sandbox__command_timeout_seconds="5")
    assert house.say('$ read x; echo "read ended: $?"')
    assert up_and_well(house)


@pytest.mark.slow
def test_a_fork_bomb_is_answered_and_the_next_command_works(make_house: MakeHouse) -> None:
    house = make_house(sandbox__command_timeout_seconds="15", sandbox__processes="64")
    assert house.say("$ :(){ :|:& };:")
    assert up_and_well(house)


@pytest.mark.slow
def test_a_command_that_eats_memory_is_stopped(make_house: MakeHouse) -> None:
    house = make_house(sandbox__memory_mb="128", sandbox__command_timeout_seconds="20")
    reply = house.say("$ python3 -c 'x = bytearray(400 << 20); print(len(x))'")
    assert str(400 << 20) not in reply
    assert up_and_well(house)


def test_a_mail_of_fifty_megabytes_is_refused_by_size(shared_house: House) -> None:
    house = shared_house
    mail = post.write("hello").as_bytes() + b"\r\n" + b"x" * 50_000_000
    with pytest.raises((smtplib.SMTPSenderRefused, smtplib.SMTPDataError)) as refused:
        post.send(house, mail)
    assert refused.value.smtp_code == 552
    assert memory(house.pid("gateway")) < 300 << 20
    assert up_and_well(house)


@pytest.mark.parametrize(
    "mail", [b"this is not a mail", b"Subject: x\r\n\r\n", os.urandom(10_000).replace(b"\r\n.\r\n", b"")]
)
def test_a_mail_that_is_not_mime_breaks_nothing(shared_house: House, mail: bytes) -> None:
    house = shared_house
    post.send(house, mail)
    assert up_and_well(house)


def test_a_stranger_s_mail_is_not_answered(shared_house: House) -> None:
    house = shared_house
    mail = post.write("$ cat /etc/passwd")
    with pytest.raises(smtplib.SMTPDataError) as refused:
        post.send(house, mail, owner=False)
    assert refused.value.smtp_code == 550
    assert up_and_well(house)
    assert post.replies_to(house, mail) == []
    with house.client() as client:
        assert "nightporter_inbox_waiting 0" in client.get("/metrics").text


def test_an_empty_mail_is_refused_with_the_reason(shared_house: House) -> None:
    with pytest.raises(smtplib.SMTPDataError) as refused:
        post.send(shared_house, b"\r\n")
    assert refused.value.smtp_code == 550
    assert b"empty" in refused.value.smtp_error


def test_stop_ends_a_running_command(shared_house: House) -> None:
    house = shared_house
    message = house.post("$ echo begun; sleep 60")
    while house.status(message)["status"] != "running":
        pass
    assert house.say("/stop") == "Stopping."
    assert house.answer(message, seconds=10)["replies"][0]["text"] in ("Stopped.", "Not started: you said /stop.")
    assert up_and_well(house)

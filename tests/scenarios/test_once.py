"""The same message twice is one turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nightporter.testing import House
from tests.scenarios import post


def test_the_same_message_id_is_one_turn_with_one_answer(shared_house: House) -> None:
    house = shared_house
    with ThreadPoolExecutor(8) as many:
        ids = list(many.map(lambda _: house.post("$ echo x >> once-http", message_id="the-same"), range(16)))
    assert set(ids) == {"the-same"}
    assert len(house.answer("the-same")["replies"]) == 1
    assert house.say("$ cat once-http").count("x") == 1


def test_the_same_mail_is_one_turn_with_one_reply(shared_house: House) -> None:
    house = shared_house
    mail = post.write("$ echo x >> once; cat once")
    for _ in range(3):
        post.send(house, mail)
    assert post.text_of(post.reply_to(house, mail)).count("x") == 1
    post.send(house, mail)
    assert house.say("$ cat once").count("x") == 1
    assert len(post.replies_to(house, mail)) == 1


def test_messages_of_one_person_are_answered_in_order(shared_house: House) -> None:
    house = shared_house
    ids = [house.post(f"$ echo {number} >> order") for number in range(10)]
    for message in ids:
        house.answer(message)
    assert house.say("$ tr '\\n' ' ' < order").splitlines()[1].split() == [str(number) for number in range(10)]


@pytest.mark.slow
def test_many_people_at_once(shared_house: House) -> None:
    house = shared_house
    with ThreadPoolExecutor(16) as many:
        ids = list(many.map(lambda n: (f"user{n % 8}", house.post(f"remember {n}", user=f"user{n % 8}")), range(64)))
    for user, message in ids:
        assert len(house.answer(message, user)["replies"]) == 1

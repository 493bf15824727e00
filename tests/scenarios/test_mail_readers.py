"""A mail with several recipients: its sender is answered, the others only where that is set, and never by a command."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import getaddresses

import pytest

from nightporter.testing import House
from tests.scenarios.post import reply_to, send, write

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
READERS = {"To": "porter@localhost, bob@example.org", "Cc": "Eve <eve@example.org>, ann@example.org, Porter@localhost"}


@pytest.mark.parametrize(("all_", "others"), [("false", set()), ("true", {"bob@example.org", "eve@example.org"})])
def test_other_readers_get_the_answer_only_where_that_is_set(
    make_house: MakeHouse, all_: str, others: set[str]
) -> None:
    house = make_house(email__reply_all=all_)
    asked, command = write("$ echo hello", "A question", **READERS), write("/whoami", "A command", **READERS)
    for mail in (asked, command):
        send(house, mail)
    for mail, expected in ((asked, others), (command, set())):
        answer = reply_to(house, mail)
        assert {address for _, address in getaddresses(answer.get_all("Cc", []))} == expected
        assert [address for _, address in getaddresses(answer.get_all("To", []))] == ["ann@example.org"]

"""The page behind a question's link in a whole house: opening it decides nothing, a press lets exactly that be done."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from nightporter.testing import House, wait_until
from tests.approval_pages import FIELD

pytestmark = pytest.mark.slow
MakeHouse = Callable[..., House]
PUBLIC = "http://porter.example.org/door"
LINK = re.compile(rf"{re.escape(PUBLIC)}(/actions/\S+)")

AGENT = '''
import pathlib
from nightporter import Agent, tool

@tool(approval="ask")
def wake(room: int) -> str:
    """Wake a guest."""
    with open(pathlib.Path(__file__).parent / "woken", "a") as woken:
        woken.write(f"{room}\\n")
    return f"Room {room} is awake."

agent = Agent("A night porter.", [wake])
'''


class Visitor:
    """A browser that comes through the door which is open to the public: ``/actions/`` alone, and no bearer token."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.client = httpx.Client(timeout=10, verify=False)
        self.at, self.form = "", dict[str, str]()

    def open(self, path: str, method: str = "GET") -> httpx.Response:
        self.at = f"http://{self.house.addresses['http']}{path}"
        answer = self.client.request(method, self.at)
        self.form = {html.unescape(name): html.unescape(value) for name, value in FIELD.findall(answer.text)}
        return answer

    def press(self, answer: str, **more: str) -> httpx.Response:
        at = self.at.partition("?")[0]
        return self.client.post(at, data={**self.form, "answer": answer, **more}, follow_redirects=True)


@pytest.fixture
def house(make_house: MakeHouse, tmp_path: Path) -> House:
    (tmp_path / "agent.py").write_text(AGENT)
    return make_house(http__public_url=PUBLIC, agent__file=str(tmp_path / "agent.py"))


@pytest.fixture
def visitor(house: House) -> Iterator[Visitor]:
    found = Visitor(house)
    yield found
    found.client.close()


def woken(tmp_path: Path) -> list[str]:
    return (tmp_path / "woken").read_text().split() if (tmp_path / "woken").exists() else []


def ask(house: House, room: int) -> str:
    """Have the tool asked about; the path of the question's page."""
    replies = house.answer(house.post(f'!tool wake {{"room": {room}}}'))["replies"]
    (path,) = LINK.findall("\n".join(reply["text"] for reply in replies))
    return str(path)


def told(house: House) -> list[str]:
    return [str(event["text"]) for event in house.events() if event["kind"] == "reply.queued"]


def test_opening_decides_nothing_and_a_press_lets_it_be_done_once_after_any_restart(
    house: House, visitor: Visitor, tmp_path: Path
) -> None:
    path = ask(house, 7)
    # A mail scanner, a preview, a reader.
    for method in ("GET", "HEAD", "GET"):
        assert visitor.open(path, method).status_code == 200
    assert woken(tmp_path) == []
    house.kill_everything()
    house.start()
    page = visitor.open(path)
    assert page.status_code == 200
    shown = html.unescape(page.text)
    assert "use `wake` with room 7" in shown
    assert '"room": 7' in shown
    form = dict(visitor.form)
    answer = visitor.press("approve once")
    assert (answer.status_code, "Approved" in answer.text) == (200, True), answer.text
    wait_until(lambda: "Room 7 is awake." in told(house), "the turn that waited has gone on")
    assert woken(tmp_path) == ["7"]
    visitor.form = form
    assert visitor.press("approve once").status_code == 409
    assert "Already approved" in Visitor(house).open(path).text
    assert woken(tmp_path) == ["7"]


def test_something_else_is_approved_instead_and_only_that_is_done(
    house: House, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.open(ask(house, 7))
    wrong = visitor.press("approve once", instead='{"floor": 1}')
    assert wrong.status_code == 422, wrong.text
    visitor.form = {html.unescape(name): html.unescape(value) for name, value in FIELD.findall(wrong.text)}
    assert visitor.press("approve once", instead='{"room": 8}').status_code == 200
    wait_until(lambda: "Room 8 is awake." in told(house), "the turn that waited has gone on")
    assert woken(tmp_path) == ["8"]


def test_without_the_link_it_takes_the_owners_token(house: House, visitor: Visitor, tmp_path: Path) -> None:
    path = ask(house, 7).partition("?")[0]
    assert visitor.open(path).status_code == 401
    assert visitor.open(f"{path}?t={'0' * 40}").status_code == 403
    visitor.open(path)
    at = visitor.at
    assert visitor.client.post(f"{at}/sign-in", data={"owner": "guessed"}).status_code == 401
    assert visitor.client.post(f"{at}/sign-in", data={"owner": house.token}).status_code == 303
    assert visitor.open(path).status_code == 200
    assert visitor.press("deny deny").status_code == 200
    wait_until(lambda: any("if it was refused before" in text for text in told(house)), "it is told")
    assert woken(tmp_path) == []
    # Nothing but this page is open without the token.
    assert visitor.client.get(f"http://{house.addresses['http']}/v1/events").status_code == 401


def test_a_form_of_another_visit_or_another_site_decides_nothing(house: House, visitor: Visitor) -> None:
    path = ask(house, 7)
    visitor.open(path)
    other = Visitor(house)
    other.open(path)
    other.form = visitor.form
    assert other.press("approve once").status_code == 403
    elsewhere = {"sec-fetch-site": "cross-site"}
    at = visitor.at.partition("?")[0]
    stolen = visitor.client.post(at, data={**visitor.form, "answer": "approve once"}, headers=elsewhere)
    assert stolen.status_code == 403
    assert house.run("actions", "list", "--json").stdout.count('"code"') == 1

"""The tutorial of an agent of one's own does what it says, as it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "your-first-agent.md").read_text()
FIRST, RULES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MakeHouse = Callable[[str], House]


@pytest.fixture
def make_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeHouse]:
    """Starts ``up --agent agent.py`` in a folder with that file."""
    houses: list[House] = []
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)

    def make(text: str) -> House:
        Path("agent.py").write_text(text)
        house = House(tmp_path / "home")
        house.arguments = ("--agent", "agent.py")
        houses.append(house)
        return house.start()

    yield make
    for house in houses:
        assert house.process is None or house.stop() == 0, house.log()[-4000:]


def commands() -> list[str]:
    """What the page lets a reader say, in order."""
    return re.findall(r"^    \.venv/bin/nightporter chat -m '(.*)'$", PAGE, re.MULTILINE)


def test_it_is_ten_lines() -> None:
    assert len([line for line in FIRST.splitlines() if line]) < 10


def test_as_it_is_printed(make_house: MakeHouse) -> None:
    house = make_house(FIRST)
    listed, booked = (house.run("chat", "-m", said).stdout for said in commands())
    assert "`book(room, nights)` (idempotent): Book a room of the hotel." in listed
    assert booked.strip() == "Room 7 is booked for 2 nights."
    assert Path("bookings.txt").read_text().endswith(":call-1 room 7, 2 nights\n")


def test_killed_in_the_middle_it_books_with_the_same_key_and_answers_once(make_house: MakeHouse) -> None:
    house = make_house(FIRST.replace("    return f", "    import time; time.sleep(3)\n    return f"))
    message = house.post('!tool book {"room": 8, "nights": 2}')
    wait_until(lambda: Path("bookings.txt").exists() and Path("bookings.txt").read_text(), "it has begun")
    house.kill("runner")
    found = house.answer(message)
    assert [reply["text"] for reply in found["replies"]] == ["Room 8 is booked for 2 nights."]
    lines = Path("bookings.txt").read_text().splitlines()
    assert len(lines) == 2
    assert len({line.split()[0] for line in lines}) == 1


def test_its_rules_are_kept(make_house: MakeHouse) -> None:
    *head, last = FIRST.strip().splitlines()
    ending = re.search(r"end it with `(.*?)`", PAGE)
    assert ending is not None
    house = make_house("\n".join([*head, RULES, last.replace("tools=[book])", ending[1])]))
    assert "two weeks at most" in house.say('!tool book {"room": 7, "nights": 15}')
    assert not Path("bookings.txt").exists()

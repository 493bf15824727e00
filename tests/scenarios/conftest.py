from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightporter.testing import House
from tests.servers import PostgreSQL, Valkey
from tests.warm_house import WarmHouse

MakeHouse = Callable[..., House]


@pytest.fixture
def servers(postgresql: PostgreSQL, valkey: Valkey) -> dict[str, str]:
    """A database and a Redis that several services or hosts share."""
    return {"database_url": postgresql.create(), "redis_url": f"unix://{valkey.socket}"}


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[MakeHouse]:
    houses: list[House] = []

    def make(**settings: str) -> House:
        house = WarmHouse(tmp_path / f"home{len(houses)}", **settings)
        houses.append(house)
        return house.start()

    yield make
    for house in houses:
        if house.process is not None and house.stop() != 0:
            raise AssertionError(f"up did not stop cleanly\n{house.log()[-4000:]}")


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for the stories of a module that leave it whole."""
    house = WarmHouse(tmp_path_factory.mktemp("house") / "home").start()
    yield house
    assert house.stop() == 0, house.log()[-4000:]


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    """A house of one's own, to be killed in parts."""
    return make_house()

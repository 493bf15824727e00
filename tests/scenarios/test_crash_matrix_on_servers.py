"""The crash matrix on PostgreSQL and a Redis of its own: each process is ended at each of its own points."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.crashing import EVERYTHING, STOPS, Stop, Theatre
from tests.servers import PostgreSQL, Valkey
from tests.tallies import tally

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def theatre(
    tmp_path_factory: pytest.TempPathFactory, postgresql: PostgreSQL, pytestconfig: pytest.Config
) -> Iterator[Theatre]:
    valkey = Valkey(tmp_path_factory.mktemp("valkey"))
    try:
        with Theatre(
            tmp_path_factory.mktemp("theatre"), database_url=postgresql.create(), redis_url=f"unix://{valkey.socket}"
        ).open() as found:
            yield found
            found.count(tally(pytestconfig), "crash matrix on servers")
    finally:
        valkey.stop()


@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_each_process_dies_at_each_of_its_points(theatre: Theatre, stop: Stop) -> None:
    theatre.play(stop, stop.role).check(stop, stop.role)


@pytest.mark.parametrize("stop", STOPS[::4], ids=str)
def test_everything_dies(theatre: Theatre, stop: Stop) -> None:
    theatre.play(stop, EVERYTHING).check(stop, EVERYTHING)

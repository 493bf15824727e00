"""Every named point of a turn, of intake and of delivery × every process: nothing lost, nothing done twice.

Here with SQLite and the embedded Valkey; ``test_crash_matrix_on_servers.py`` has PostgreSQL and a Redis of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.crashing import EVERYTHING, ROLES, STOPS, Stop, Theatre
from tests.tallies import tally
from workspace_store.crash_points import Point

QUICK = {
    (Point.INTAKE_RECORDED, "gateway"), (Point.TOOL_RAN, "runner"), (Point.TURN_SAVED, "runner"),
    (Point.SANDBOX_RAN, "sandbox-manager"), (Point.PART_SENT, "gateway"),
    (Point.TURN_BEGUN, "valkey-server"),
}  # fmt: skip
"""In every run of the tests; the rest is for ``make test-all``."""


def _cases() -> list[object]:
    return [
        pytest.param(
            stop, victim, id=f"{victim}-{stop}",
            marks=[] if (stop.point, victim) in QUICK and stop.times == 1 else [pytest.mark.slow],
        )
        for victim in (*ROLES, EVERYTHING)
        for stop in STOPS
    ]  # fmt: skip


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Theatre]:
    found = Theatre(tmp_path_factory.mktemp("theatre"))
    with found.open():
        yield found
        found.count(tally(pytestconfig), "crash matrix")


@pytest.mark.parametrize(("stop", "victim"), _cases())
def test_a_death_loses_and_doubles_nothing(theatre: Theatre, stop: Stop, victim: str) -> None:
    theatre.play(stop, victim).check(stop, victim)

"""Two hosts killed in turn under 2,000 messages of 32 people: nothing is lost, nothing is done or said twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import hosts
from nightporter.testing.fleet import Fleet
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

KILLS = 6


class WarmFleet(Fleet):
    house = WarmHouse


def test_two_thousand_messages_with_both_hosts_killed_in_turn(tmp_path: Path) -> None:
    with WarmFleet(tmp_path) as fleet:
        found = hosts.run(fleet)
    print("\n" + "\n".join(found.lines()))
    assert found.is_good, found
    assert sum(found.kills.values()) >= KILLS
    assert min(found.kills.values()) >= KILLS // 3

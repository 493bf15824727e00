"""Messages accepted and answered a second: one gateway and two runners with homes of their own, PostgreSQL that keeps
what it commits, Redis; 32 people at the HTTP interface, each saying the next thing when the last was answered.

On two cores the people's own processor time is taken from the same two; it is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.table import Row
from bench.talk import Person, Said, all_talk
from nightporter.testing.fleet import Fleet

USERS = 32
SECONDS = 15.0
WARM_UP_SECONDS = 4.0
BUDGET = 100.0


@dataclass
class Outcome:
    """What came of it: answered messages within the measured time, and the counts over everything that was said."""

    said: list[Said]
    """Of the measured time."""
    seconds: float
    lost: int
    doubled: int
    own_cpu: float
    """Seconds of processor time of the people themselves, within the measured time."""

    @property
    def rate(self) -> float:
        return len(self.said) / self.seconds

    def rates(self) -> list[float]:
        """Messages answered in each second that was measured in full."""
        first = min(one.answered for one in self.said)
        counts = [0] * int(self.seconds)
        for one in self.said:
            if (second := int(one.answered - first)) < len(counts):
                counts[second] += 1
        return [float(count) for count in counts]

    def latencies(self) -> list[float]:
        return sorted((one.answered - one.began) * 1000 for one in self.said)


async def talked(fleet: Fleet, users: int, seconds: float, warm_up: float = WARM_UP_SECONDS) -> Outcome:
    """Everybody talks for that long."""
    at, token = fleet.gateway.addresses["http"], fleet.gateway.token
    people = [Person(f"u{number}", at, token) for number in range(users)]
    began = time.perf_counter() + warm_up
    ends = began + seconds
    cpu: list[float] = []

    async def talk(person: Person) -> None:
        number = 0
        while time.perf_counter() < ends:
            number += 1
            await person.ask(f"hello {number}")

    async def clock() -> None:
        for at in (began, ends):
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            cpu.append(time.process_time())

    ticking = asyncio.create_task(clock())
    await all_talk(people, talk)
    await ticking
    said = [one for person in people for one in person.said.values()]
    # The first thing that each said came before it could listen.
    later = [one for person in people for one in list(person.said.values())[1:]]
    return Outcome(
        [one for one in said if began <= one.answered < ends], seconds,
        lost=sum(not one.replies for one in later), doubled=sum(len(one.replies) > 1 for one in said),
        own_cpu=cpu[1] - cpu[0],
    )  # fmt: skip


def run(users: int = USERS, seconds: float = SECONDS, hosts: Sequence[str] = ("first", "second")) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="nightporter-throughput-") as folder:
        # Into which the server's own user has to see.
        Path(folder).chmod(0o755)
        with Fleet(Path(folder), hosts, durable=True) as fleet:
            return asyncio.run(talked(fleet, users, seconds))


def measure() -> list[Row]:
    found = run()
    return [
        Row(f"messages answered a second, {USERS} users", found.rates(), BUDGET, "/s", at_least=True),
        Row(f"the same: message to reply, {USERS} at once", found.latencies(), 1000 * USERS / BUDGET, "ms"),
        Row("the same: lost or doubled", [float(found.lost + found.doubled)], 0, ""),
    ]


def _report(found: Outcome, users: int) -> int:
    took = found.latencies()
    print(f"answered       {len(found.said)} in {found.seconds:.0f} s by {users} users: {found.rate:.1f} a second")
    print(f"latency        50 % {took[len(took) // 2]:.0f} ms, 95 % {took[int(len(took) * 0.95)]:.0f} ms")
    print(f"lost, doubled  {found.lost}, {found.doubled}")
    print(f"load itself    {found.own_cpu / len(found.said) * 1000:.2f} ms of processor time a message")
    return 1 if found.lost or found.doubled else 0


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--users", type=int, default=USERS)
    given.add_argument("--seconds", type=float, default=SECONDS)
    given.add_argument("--hosts", type=int, default=2)
    chosen = given.parse_args()
    names = [f"host{number}" for number in range(chosen.hosts)]
    raise SystemExit(_report(run(chosen.users, chosen.seconds, names), chosen.users))

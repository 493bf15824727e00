"""Two hosts killed in turn, each with all its processes at once, while people talk: `python -m bench.hosts`.

A third of what they say are commands that leave a mark in a file. At the end every message has one answer, every
command was done once (or its interruption was told), and every journal holds; ends with 1 where not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.talk import Person, Said, all_talk
from nightporter.testing.fleet import Fleet

MESSAGES = 2000
USERS = 32
KILL_EVERY = 8.0
PAUSE = 2.0
GONE_SECONDS = (0.5, 4.0, 14.0)
"""How long a host stays away, in turn: also for longer than what it held lasts."""
QUIET_SECONDS = 3.0
PATIENCE_SECONDS = 120.0


@dataclass
class Outcome:
    """What came of it. The lists name messages by their words."""

    sent: int
    kills: Counter[str]
    seconds: float
    longest: float
    """From a message to its answer, at most."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    """Commands without their effect, of which nothing was said."""
    done_twice: list[str] = field(default_factory=list)
    interrupted: int = 0
    """Commands that were cut off, each told as such."""
    verified: bool = False

    @property
    def is_good(self) -> bool:
        return self.verified and not (self.lost or self.doubled or self.undone or self.done_twice)

    def lines(self) -> list[str]:
        return [
            f"killed        {sum(self.kills.values())} hosts: {dict(self.kills)}",
            f"sent          {self.sent} in {self.seconds:.0f} s",
            f"lost          {len(self.lost)} answers, {len(self.undone)} effects {(self.lost + self.undone)[:5]}",
            f"doubled       {len(self.doubled)} answers, {len(self.done_twice)} effects"
            f" {(self.doubled + self.done_twice)[:5]}",
            f"interrupted   {self.interrupted} commands, each said so",
            f"longest wait  {self.longest:.1f} s",
            f"journals      {'hold' if self.verified else 'DO NOT HOLD'}",
        ]


def words(person: Person, number: int) -> str:
    """The ``number``th thing that somebody says."""
    mark = f"mark-{person.name}-{number}-"
    return f"$ echo {mark} >> marks; echo {mark}" if number % 3 == 0 else f"hello {mark}"


async def _kill_in_turn(fleet: Fleet, every: float, kills: Counter[str]) -> None:
    for name, gone in zip(itertools.cycle(fleet.hosts), itertools.cycle(GONE_SECONDS), strict=False):
        await asyncio.sleep(every * (0.5 + random.random()))
        await asyncio.to_thread(fleet.kill, name)
        kills[name] += 1
        await asyncio.sleep(gone)
        await asyncio.to_thread(fleet.hosts[name].start)


async def talked(
    fleet: Fleet, messages: int, users: int, every: float, pause: float
) -> tuple[list[Said], Counter[str]]:
    """Everybody says their share while hosts are killed; what was said, and who was killed how often."""
    at, token = fleet.gateway.addresses["http"], fleet.gateway.token
    people = [Person(f"u{number}", at, token) for number in range(users)]
    kills: Counter[str] = Counter()

    async def talk(person: Person) -> None:
        for number in range(1, messages // users + 1):
            await person.ask(words(person, number), PATIENCE_SECONDS)
            await asyncio.sleep(random.random() * pause)

    killing = asyncio.create_task(_kill_in_turn(fleet, every, kills))
    talking = asyncio.create_task(all_talk(people, talk))
    await asyncio.wait({killing, talking}, return_when=asyncio.FIRST_COMPLETED)
    killing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killing
    await talking
    # What would come twice comes by now.
    await asyncio.sleep(QUIET_SECONDS)
    # What each said first came before it could listen.
    return [said for person in people for said in list(person.said.values())[1:]], kills


def replies(fleet: Fleet) -> Counter[str]:
    """How many replies the outbox has of each message, by the message's own id."""
    with psycopg.connect(fleet.conninfo) as connection:
        rows = connection.execute(
            "SELECT inbox.dedupe_key, count(outbox.id) FROM inbox LEFT JOIN outbox ON outbox.inbox = inbox.id"
            " GROUP BY inbox.dedupe_key"
        ).fetchall()
    return Counter({key.rpartition("/")[2]: count for key, count in rows})


def counted(fleet: Fleet, said: list[Said], kills: Counter[str], seconds: float) -> Outcome:
    """What came of what was said."""
    marks = Counter(
        mark
        for path in fleet.folder.glob("volumes/*/live/workspace/marks")
        for mark in path.read_text(errors="replace").split()
    )
    there = replies(fleet)
    answered = [one.answered - one.began for one in said if one.replies]
    found = Outcome(len(said), kills, seconds, max(answered, default=0.0))
    for one in said:
        if not one.replies or not there[one.id]:
            found.lost.append(one.text)
        elif there[one.id] > 1 or len(one.replies) > 1:
            found.doubled.append(one.text)
        if not one.text.startswith("$"):
            continue
        mark = one.text.rpartition(" ")[2]
        told = any("interrupted" in reply or "uncertain" in reply for reply in one.replies)
        found.interrupted += told
        if marks[mark] > 1:
            found.done_twice.append(mark)
        elif not marks[mark] and not told:
            found.undone.append(mark)
    found.verified = fleet.gateway.run("journal", "verify").returncode == 0
    return found


def run(
    fleet: Fleet, messages: int = MESSAGES, users: int = USERS, every: float = KILL_EVERY, pause: float = PAUSE
) -> Outcome:
    """All of it, on a fleet that runs; its hosts may be away when this returns."""
    began = time.monotonic()
    said, kills = asyncio.run(talked(fleet, messages, users, every, pause))
    return counted(fleet, said, kills, time.monotonic() - began)


def main(messages: int, users: int, every: float, pause: float) -> int:
    with tempfile.TemporaryDirectory(prefix="nightporter-hosts-") as folder:
        Path(folder).chmod(0o755)
        with Fleet(Path(folder)) as fleet:
            found = run(fleet, messages, users, every, pause)
    print("\n".join(found.lines()))
    return 0 if found.is_good else 1


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--messages", type=int, default=MESSAGES)
    given.add_argument("--users", type=int, default=USERS)
    given.add_argument("--kill-every", type=float, default=KILL_EVERY)
    given.add_argument("--pause", type=float, default=PAUSE, help="most seconds between an answer and the next message")
    chosen = given.parse_args()
    raise SystemExit(main(chosen.messages, chosen.users, chosen.kill_every, chosen.pause))

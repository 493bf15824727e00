"""Mixed traffic from users on three channels while a process is killed every few seconds: `python -m bench.soak`.

Prints what was sent, answered, lost, doubled and uncertain, how long answers took, and how memory and open files grew.
Ends with 1 where anything was lost or doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import email.policy
import json
import os
import random
import signal
import smtplib
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from bench.memory import proportional_mb
from nightporter.testing import House
from nightporter.testing.slack import SIGNING_SECRET, SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer

ROLES = ("runner", "gateway", "sandbox-manager", "egress", "valkey-server")
EVERYTHING = "everything"
ANSWER_SECONDS = 120.0
LOOK_SECONDS = 0.01
QUIET_SECONDS = 3.0
COMMANDS_IN_TEN = 6
UNCERTAIN = ("uncertain", "interrupted")


@dataclass
class Said:
    """One message: its mark, whether it is a command that leaves the mark in a file, and what came back."""

    mark: str
    command: bool
    at: float
    replies: list[str] = field(default_factory=list)
    seconds: float | None = None

    @property
    def text(self) -> str:
        return f"$ echo {self.mark} >> marks; echo {self.mark}" if self.command else f"remember {self.mark}"

    @property
    def uncertain(self) -> bool:
        return any(word in reply for reply in self.replies for word in UNCERTAIN)


class User(ABC):
    """Somebody who says one thing after another at one channel, each when the last was answered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: list[Said] = []

    @abstractmethod
    async def send(self, said: Said) -> None:
        """Hand it over, as often as its platform would."""

    @abstractmethod
    def heard(self) -> list[str]:
        """Everything that was answered so far, in order."""

    async def talk(self, until: float, pause: float) -> None:
        number = 0
        while time.monotonic() < until:
            number += 1
            said = Said(f"mark-{self.name}-{number}-", random.randrange(10) < COMMANDS_IN_TEN, time.monotonic())
            before = len(self.heard())
            self.said.append(said)
            await self.send(said)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    while len(self.heard()) == before:  # noqa: ASYNC110 - files and lists of servers tell no events
                        await asyncio.sleep(LOOK_SECONDS)
                    said.seconds = time.monotonic() - said.at
            said.replies = self.heard()[before:]
            await asyncio.sleep(random.random() * 2 * pause)


class TelegramUser(User):
    def __init__(self, number: int, server: TelegramServer) -> None:
        super().__init__(f"t{number}")
        self.server = server
        self.id = 1000 + number

    async def send(self, said: Said) -> None:
        person = {"id": self.id, "is_bot": False, "first_name": self.name}
        chat = {"id": self.id, "type": "private", "first_name": self.name}
        self.server.say(self.server.message(said.text, chat=chat, **{"from": person}))

    def heard(self) -> list[str]:
        return [str(one["text"]) for one in self.server.messages if one["chat"]["id"] == self.id]


class SlackUser(User):
    def __init__(self, number: int, server: SlackServer, house: House) -> None:
        super().__init__(f"s{number}")
        self.server, self.house = server, house
        self.channel = f"DSOAK{number}"

    async def send(self, said: Said) -> None:
        event = self.server.message(said.text, channel=self.channel, user=f"USOAK{self.name.upper()}")

        async def post() -> bool:
            url = f"http://{self.house.addresses['http']}/slack/events"
            return (await self.server.post(url, event))[0] == 200

        await _insist(post)

    def heard(self) -> list[str]:
        return [str(one["text"]) for one in self.server.messages.get(self.channel, [])]


class MailUser(User):
    def __init__(self, number: int, house: House) -> None:
        super().__init__(f"m{number}")
        self.house = house
        self.address = f"{self.name}@example.org"
        self._read: dict[str, str] = {}

    async def send(self, said: Said) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = self.address, "porter@localhost", said.mark
        mail["Message-ID"] = f"<{said.mark}@example.org>"
        mail.set_content(said.text)

        def post() -> bool:
            with smtplib.SMTP("127.0.0.1", self.house.smtp_port, timeout=20) as client:
                client.sendmail(self.address, ["porter@localhost"], mail.as_bytes(policy=email.policy.SMTP))
            return True

        await _insist(lambda: asyncio.to_thread(post))

    def heard(self) -> list[str]:
        folder = self.house.home / "outgoing-mail" / "new"
        for path in sorted(folder.glob("*")) if folder.is_dir() else []:
            if path.name not in self._read:
                mail = BytesParser(policy=email.policy.default).parsebytes(path.read_bytes())
                part = mail.get_body(("plain",)) if self.address in str(mail["To"]) else None
                self._read[path.name] = str(part.get_content()) if part is not None else ""
        return [text for text in self._read.values() if text]


async def _insist(post: Callable[[], Any]) -> None:
    """Again and again, as platforms and mail servers do, until it is acknowledged."""
    while True:
        with contextlib.suppress(OSError, smtplib.SMTPException, AssertionError, Exception):
            if await post():
                return
        await asyncio.sleep(0.2)


@dataclass
class Killer:
    """Kills a process of the house every ``every`` seconds."""

    house: House
    every: float
    kills: dict[str, int] = field(default_factory=dict)

    async def run(self, until: float) -> None:
        while time.monotonic() + self.every < until:
            await asyncio.sleep(self.every)
            victim = random.choices((*ROLES, EVERYTHING), (4, 4, 4, 2, 2, 1))[0]
            await asyncio.to_thread(self._kill, victim)
            self.kills[victim] = self.kills.get(victim, 0) + 1

    def _kill(self, victim: str) -> None:
        if victim == EVERYTHING:
            self.house.kill_everything()
            self.house.start()
            return
        with contextlib.suppress(AssertionError, ProcessLookupError):
            os.kill(self.house.pid(victim), signal.SIGKILL)


def open_files(processes: list[int]) -> int:
    count = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            count += len(os.listdir(f"/proc/{pid}/fd"))
    return count


async def soak(seconds: float, every: float, users: int, pause: float) -> int:
    async with TelegramServer() as telegram, SlackServer() as slack:
        with tempfile.TemporaryDirectory(prefix="nightporter-soak-") as folder:
            house = House(
                Path(folder) / "home", telegram__token=TOKEN, telegram__api_url=telegram.api_url,
                slack__bot_token="xoxb-local", slack__signing_secret=SIGNING_SECRET, slack__api_url=slack.api_url,
                email__authentication="none", access__policy="open",
            )  # fmt: skip
            await asyncio.to_thread(house.start)
            people: list[User] = []
            for number in range(users):
                kinds = (TelegramUser(number, telegram), SlackUser(number, slack, house), MailUser(number, house))
                people.append(kinds[number % len(kinds)])
            try:
                return await _soaked(house, people, Killer(house, every), seconds, pause)
            finally:
                await asyncio.to_thread(house.stop)


async def _soaked(house: House, people: list[User], killer: Killer, seconds: float, pause: float) -> int:
    until = time.monotonic() + seconds
    talking = asyncio.gather(*(person.talk(until, pause) for person in people))
    killing = asyncio.create_task(killer.run(until))
    await asyncio.sleep(seconds / 4)
    before = await asyncio.to_thread(_size, house)
    await talking
    await killing
    # What would come twice comes by now.
    await asyncio.sleep(QUIET_SECONDS)
    after = await asyncio.to_thread(_size, house)
    verified = (await asyncio.to_thread(house.run, "journal", "verify")).returncode == 0
    return _report(house, people, killer, before, after, verified=verified)


def _services(house: House) -> list[int]:
    """``up`` and its services, without what runs in sandboxes: users start as much there as they like."""
    assert house.process is not None
    return [house.process.pid, *(pid for pid in house.tree() if _role(pid))]


def _role(pid: int) -> bool:
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"valkey-server" in line or (
        line.startswith(b"nightporter: ") and not line.startswith(b"nightporter: guest")
    )


def _size(house: House) -> tuple[float, int]:
    """PSS in MB and open files, of a house that has all its processes."""
    for _ in range(100):
        with contextlib.suppress(OSError, TypeError, AssertionError):
            return proportional_mb(_services(house)), open_files(_services(house))
        time.sleep(0.1)
    return 0.0, 0


def _report(
    house: House, people: list[User], killer: Killer, before: tuple[float, int], after: tuple[float, int], *,
    verified: bool,
) -> int:  # fmt: skip
    said = [one for person in people for one in person.said]
    lost = [one.mark for one in said if one.seconds is None]
    extra = sum(max(0, len(person.heard()) - len(person.said)) for person in people)
    status = house.run("status", "--json").stdout
    marks = "".join(path.read_text() for path in house.home.glob("volumes/*/live/workspace/marks"))
    twice = [one.mark for one in said if marks.count(one.mark) > 1]
    undone = [one.mark for one in said if one.command and marks.count(one.mark) == 0 and not one.uncertain]
    took = sorted(one.seconds for one in said if one.seconds is not None)
    print(f"killed           {sum(killer.kills.values())}: {killer.kills}")
    print(f"sent             {len(said)} by {len(people)} users at three channels")
    print(f"answered         {len(took)}")
    print(f"lost             {len(lost)} answers, {len(undone)} commands {(lost + undone)[:5]}")
    print(f"doubled          {extra} answers, {len(twice)} commands {twice[:5]}")
    for person in people:
        for text in _unasked(person)[:6]:
            print(f"  more to {person.name}: {text[:160]!r}")
    print(f"uncertain        {sum(one.uncertain for one in said)} commands that were interrupted, each said so")
    print(f"possibly repeated: {_possibly_repeated(status)}")
    if took:
        shares = {"50 %": 0.5, "95 %": 0.95, "99 %": 0.99, "all": 1.0}
        points = {name: took[min(len(took) - 1, int(len(took) * share))] for name, share in shares.items()}
        print("answers          " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in points.items()))
    print(f"memory (PSS)     {before[0]:.0f} MB after a quarter, {after[0]:.0f} MB at the end")
    print(f"open files       {before[1]} after a quarter, {after[1]} at the end")
    print(f"journals         {'hold' if verified else 'DO NOT HOLD'}")
    bad = lost or undone or twice or extra > _possibly_repeated(status) or not verified
    return 1 if bad else 0


def _unasked(person: User) -> list[str]:
    """What was heard beyond one answer to each message."""
    heard = person.heard()
    found = []
    for text in heard:
        about = next((one.mark for one in person.said if one.mark in text), None)
        if about is None or sum(about in other for other in heard) > 1:
            found.append(text)
    return found


def _possibly_repeated(status: str) -> int:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(json.loads(status)["figures"]['outbox_replies{status="possibly_repeated"}'])
    return 0


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seconds", type=float, default=600)
    given.add_argument("--kill-every", type=float, default=5)
    given.add_argument("--users", type=int, default=12)
    given.add_argument("--pause", type=float, default=1.0, help="seconds between an answer and the next message")
    chosen = given.parse_args()
    raise SystemExit(asyncio.run(soak(chosen.seconds, chosen.kill_every, chosen.users, chosen.pause)))

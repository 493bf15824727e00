"""Starting a house of stand-ins as its own process tree, and looking at it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from tests import warm

PROGRAM = Path(__file__).with_name("standin_house.py")
ROOT = Path(__file__).parents[2]


@dataclass
class House:
    home: Path
    process: subprocess.Popen[str]

    def children(self) -> dict[str, int]:
        """Process ids of the living children by the name that their command line shows."""
        found = {}
        for pid in _children_of(self.process.pid):
            title = command_line(pid)
            name = "valkey" if "valkey-server" in title else title.removeprefix("nightporter: ").strip()
            found[name] = pid
        return found

    def wait_for_child(self, name: str, other_than: int, seconds: float = 3.0) -> int:
        wait_until(lambda: self.children().get(name, other_than) != other_than, seconds, f"{name} started again")
        return self.children()[name]

    def url(self) -> str:
        listening = json.loads((self.home / "run/listening.json").read_text())
        return f"http://{listening['http']}/"

    def get(self) -> int:
        with urlopen(self.url(), timeout=3) as answer:
            return int(answer.read())

    def terminate(self) -> tuple[int, float]:
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10), time.monotonic() - began


def environment(home: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "PYTHONPATH": str(ROOT),
        "NIGHTPORTER_HOME": str(home),
        "NIGHTPORTER_HTTP__LISTEN": "127.0.0.1:0",
        "NIGHTPORTER_EMAIL__LISTEN": "127.0.0.1:0",
        **more,
    }


@contextmanager
def house(
    home: Path, *arguments: str, until_ready: bool = True, before: tuple[str, ...] = (), **more: str
) -> Iterator[House]:
    process = warm.popen(
        [*before, sys.executable, str(PROGRAM), *arguments],
        env=environment(home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        if until_ready:
            assert process.stdout is not None
            first = process.stdout.readline()
            if "is ready" not in first:
                process.kill()
                raise AssertionError(f"not ready: {first}{process.communicate()}")
        yield House(home, process)
    finally:
        process.kill()
        process.communicate()


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


def exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _children_of(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except FileNotFoundError:
        return []

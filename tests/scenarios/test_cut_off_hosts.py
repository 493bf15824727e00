"""A host cut off in mid-turn, paused as a whole or without its network: another follows within 15 s, and what comes
back writes nothing: no event, no file, no reply, no request to the outside.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.fleet import Fleet
from nightporter.testing.wire import Wire
from tests.scenarios.outside import Outside
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

GONE_SECONDS = 15.0
BACK_SECONDS = 4.0
"""What a host that is back does by mistake, it does by then."""


class WarmFleet(Fleet):
    house = WarmHouse


@dataclass
class Scene:
    """The first host reaches database and Redis by wires of its own; the second comes when it is asked for."""

    fleet: Fleet
    wires: list[Wire]
    outside: Outside

    @property
    def gateway(self) -> House:
        return self.fleet.gateway

    def pause(self) -> Callable[[], None]:
        """Stop every process of the first host; what is returned lets them go on."""
        house = self.fleet.hosts["first"]
        assert house.process is not None
        stopped: list[int] = []
        # What they start meanwhile is found by another look.
        while fresh := [pid for pid in (house.process.pid, *house.tree()) if pid not in stopped]:
            _tell(fresh, signal.SIGSTOP)
            stopped += fresh

        def go_on() -> None:
            # Those in its sandboxes first: nothing that could end them runs yet.
            _tell(reversed(stopped), signal.SIGCONT)

        return go_on

    def cut(self) -> Callable[[], None]:
        """Cut the first host's wires; what is returned mends them."""
        for wire in self.wires:
            wire.cut()
        return lambda: [wire.mend() for wire in self.wires] and None

    def files(self) -> dict[str, str]:
        """Everything in all workspaces."""
        found = self.fleet.folder.glob("volumes/*/live/workspace/*")
        return {path.name: path.read_text() for path in found if path.is_file()}

    def outbox(self) -> list[tuple[str, str]]:
        with psycopg.connect(self.fleet.conninfo) as connection:
            return connection.execute("SELECT key, status FROM outbox ORDER BY number").fetchall()


def _tell(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Outside() as outside:
        fleet = WarmFleet(
            tmp_path, egress__allow=f"127.0.0.1:{outside.port}", egress__allow_private="127.0.0.1",
        )  # fmt: skip
        database = Wire(fleet.postgresql.folder / ".s.PGSQL.5432")
        redis = Wire(fleet.redis.socket)
        first = fleet.hosts["first"]
        name = fleet.settings["database_url"].partition("@/")[2].partition("?")[0]
        first.settings = {
            **first.settings,
            "database_url": f"postgresql://porter@127.0.0.1:{database.port}/{name}",
            "redis_url": f"redis://127.0.0.1:{redis.port}",
        }
        fleet.gateway.start()
        first.start()
        yield Scene(fleet, [database, redis], outside)
        fleet.stop()
        for wire in (database, redis):
            wire.close()


@pytest.fixture(params=["paused", "without its network"])
def leave(request: pytest.FixtureRequest, scene: Scene) -> Callable[[], Callable[[], None]]:
    return scene.pause if request.param == "paused" else scene.cut


def test_a_host_that_is_cut_off_is_followed_and_writes_nothing_stale(
    scene: Scene, leave: Callable[[], Callable[[], None]]
) -> None:
    gateway, url = scene.gateway, f"http://127.0.0.1:{scene.outside.port}"
    gateway.say("$ X=kept; echo 1 > kept")
    scene.fleet.hosts["second"].start()
    # What goes on for ever, and what would go out or be written later than the host was cut off.
    gateway.say("$ (while sleep 0.05; do date +%N >> ticks; done) > /dev/null 2>&1 &")
    slow = f"$ curl -sS -d first {url}/ && echo begun >> trace; sleep 20; echo ended >> trace; curl -sS -d late {url}/"
    message = gateway.post(slow)
    wait_until(lambda: scene.files().get("trace") == "begun\n", "it runs on the first host")
    come_back = leave()
    gone = time.monotonic()
    found = gateway.answer(message)
    took = time.monotonic() - gone
    assert took < GONE_SECONDS
    (reply,) = found["replies"]
    assert "interrupted" in reply["text"]
    assert "after" in gateway.say("$ cat kept; echo after >> trace; cat trace")
    # Whatever of the first host's tasks goes on here, does not from now on.
    gateway.say("$ pkill -f ticks; sleep 0.5; rm -f ticks; ls")
    before, events, replies = scene.files(), list(gateway.events()), scene.outbox()
    assert "ticks" not in before
    come_back()
    time.sleep(BACK_SECONDS)
    assert scene.files() == before
    assert scene.outbox() == replies
    later = list(gateway.events())
    assert later[: len(events)] == events
    # Its own turn wanted the volume once more, which the second host has put to sleep for it; it had no right to it.
    assert {event["kind"] for event in later[len(events) :]} <= {"sandbox.slept"}
    assert scene.outside.said == ["first"]
    # And it serves again, once the other is gone.
    scene.fleet.kill("second")
    assert "begun\nafter\n1" in gateway.say("$ cat trace kept")
    assert len(gateway.status(message)["replies"]) == 1
    assert gateway.run("journal", "verify").returncode == 0
    print(f"\nfollowed after {took:.1f} s")

"""A house whose processes are ended at named points while it serves one scripted turn after another."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from nightporter import transfer
from nightporter.testing import House
from nightporter.testing.house import wait_until
from nightporter.testing.models import Asked, ModelServer, Say
from nightporter.testing.telegram import TOKEN, TelegramServer
from tests.warm_house import WarmHouse
from workspace_store import crash_points, outbox, principal
from workspace_store.crash_points import Point
from workspace_store.database import Database

T = TypeVar("T")

ROLES = ("runner", "gateway", "sandbox-manager", "egress", "valkey-server")
EVERYTHING = "everything"
ANSWER_SECONDS = 60.0
CHUNKS = 3
_PARAGRAPHS = 33


@dataclass(frozen=True)
class Stop:
    """A point, which time it is reached in one turn, and the process that reaches it."""

    point: Point
    times: int = 1

    @property
    def role(self) -> str:
        area = self.point.partition(".")[0]
        if area in ("intake", "delivery", "part"):
            return "gateway"
        return {"sandbox": "sandbox-manager", "effect": "egress"}.get(area, "runner")

    def __str__(self) -> str:
        return f"{self.point}#{self.times}"


TOOL = (Point.TOOL_REQUESTED, Point.TOOL_RAN, Point.TOOL_RECORDED)
STOPS = [
    *map(Stop, (Point.INTAKE_HEARD, Point.INTAKE_RECORDED, Point.INTAKE_RUNG, Point.TURN_BEGUN)),
    *(Stop(Point.MODEL_ANSWERED, times) for times in (1, 2)),
    *(Stop(point, times) for times in (1, 2, 3) for point in TOOL),
    *map(Stop, (Point.TURN_ANSWERED, Point.TURN_SAVED, Point.TURN_COMMITTED, Point.TURN_TOLD)),
    *(Stop(Point.SANDBOX_RAN, times) for times in (1, 2)),
    *map(Stop, (Point.SANDBOX_WOKEN, Point.SANDBOX_SAVED)),
    *map(Stop, (Point.EFFECT_INTENDED, Point.EFFECT_DONE, Point.EFFECT_SETTLED, Point.DELIVERY_CLAIMED)),
    *(Stop(point, times) for times in range(1, CHUNKS + 1) for point in (Point.PART_SENT, Point.PART_RECORDED)),
    *map(Stop, (Point.DELIVERY_SENT, Point.DELIVERY_RECORDED)),
]  # fmt: skip


@dataclass
class Outside:
    """A web server of this machine that counts what is done to it."""

    port: int = 0
    done: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        done = self.done

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                done.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "5")
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"done\n")

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_port
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()


class Theatre:
    """The platforms in a thread of their own, and the house they play with."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.plan = folder / "plan"
        self.given = settings
        self.outside = Outside()
        self.loop = asyncio.new_event_loop()
        self.played = self.passed = self._repeated = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Theatre]:
        thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        thread.start()
        self.telegram, self.models = TelegramServer(), ModelServer(self._script)
        try:
            with self.outside.serving(), self._served(self.telegram), self._served(self.models):
                self.house = WarmHouse(self.folder / "home", **self._settings()).start()
                try:
                    yield self
                finally:
                    assert self.house.stop() == 0, self.house.log()[-4000:]
                    assert self.left_behind() == []
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.close()

    @contextlib.contextmanager
    def _served(self, server: TelegramServer | ModelServer) -> Iterator[None]:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), self.loop).result()
        yield
        asyncio.run_coroutine_threadsafe(server.__aexit__(), self.loop).result()

    def _settings(self) -> dict[str, str]:
        return {
            "telegram__token": TOKEN, "telegram__api_url": self.telegram.api_url, "access__policy": "open",
            "engine__model": "openai:local", "engine__base_url": self.models.base_url, "engine__api_key": "a-test-key",
            "egress__allow": f"127.0.0.1:{self.outside.port}", "egress__allow_private": "127.0.0.1",
            "crash_plan": str(self.plan), **self.given,
        }  # fmt: skip

    # The scripted turn

    def _script(self, asked: Asked) -> Say:
        """Three tools at once, one pure, one that appends, one with an effect outside; then a reply of three chunks."""
        said = [position for position, (role, text) in enumerate(asked.said) if role == "user" and "act " in text]
        act = asked.said[said[-1]][1].rpartition("act ")[2].split()[0]
        results = [text for role, text in asked.said[said[-1] :] if role == "result"]
        if not results:
            return Say(calls=[
                ("recall", {"query": "nothing-that-was-ever-said"}),
                ("shell", {"command": f"echo line-{act}- >> lines"}),
                ("shell", {"command": f"curl -sS --max-time 20 -d x http://127.0.0.1:{self.outside.port}/effect-{act}-"}),
            ])  # fmt: skip
        paragraphs = [f"act-{act}- {number}: " + "It is done. " * 24 for number in range(_PARAGRAPHS)]
        return Say("\n\n".join([*paragraphs, f"end-{act}-"]))

    def play(self, stop: Stop, victim: str) -> Act:
        """One message, and the death of ``victim`` when the turn reaches ``stop``."""
        self.played += 1
        act = Act(self, f"{self.played}")
        mark = crash_points.reached_mark(self.plan)
        mark.unlink(missing_ok=True)
        if stop.point is Point.SANDBOX_WOKEN:
            self._put_to_sleep()
        own = stop.role == victim
        crash_points.write(self.plan, stop.point, "kill" if own else "stop", stop.times)
        self.loop.call_soon_threadsafe(self.telegram.say, self.telegram.message(f"act {act.name}"))
        try:
            wait_until(mark.exists, f"{stop} is reached", ANSWER_SECONDS)
            if not own:
                self._kill_while_stopped(stop.role, victim)
        finally:
            # Whatever became of this act, the next one finds nothing planned and nothing stopped.
            self.plan.unlink(missing_ok=True)
            self._wake_up()
        wait_until(lambda: act.ended and self._settled(), f"act {act.name} has ended at {stop}", ANSWER_SECONDS)
        return act

    def _kill_while_stopped(self, role: str, victim: str) -> None:
        stopped = wait_until(lambda: _pid(self.house, role), f"a {role}")
        wait_until(lambda: _state(stopped) == "T", f"the {role} has stopped")
        if victim == EVERYTHING:
            self.house.kill_everything()
            self.house.start()
            return
        # The last act may have been its death, too: up waits longer each time.
        os.kill(wait_until(lambda: _pid(self.house, victim), f"a {victim}", ANSWER_SECONDS), signal.SIGKILL)

    def _wake_up(self) -> None:
        for pid in self.house.tree() if self.house.process else []:
            if _state(pid) == "T":
                os.kill(pid, signal.SIGCONT)

    def _put_to_sleep(self) -> None:
        """End the sandbox, so that the next command has to wake one."""
        victim = self.house.pid("sandbox-manager")
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: _pid(self.house, "sandbox-manager") not in (None, victim), "another sandbox manager")

    # What became of it

    def lines(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("home/volumes/*/live/workspace/lines"))

    def read(self, query: Callable[[Connection], T]) -> T:
        database = Database(self.given.get("database_url") or f"sqlite:///{self.house.home}/nightporter.db")
        try:
            return database.read_now(query)
        finally:
            database.close()

    def verified(self) -> list[str]:
        """Faults in any journal."""
        return self.read(transfer.broken_journals)[1]

    def count(self, tally: Counter[str], what: str) -> None:
        """Add what was played here to a tally; turns that lost or doubled anything are those that failed."""
        tally[f"{what}, turns in which a process was killed"] += self.played
        tally[f"{what}, of these with nothing lost and nothing doubled"] += self.passed
        tally[f"{what}, replies said to be possibly repeated"] += self.repeated()

    def repeated(self) -> int:
        """How many replies are said to have possibly gone out twice."""
        return self.read(outbox.counts)["possibly_repeated"]

    def newly_repeated(self) -> int:
        """How many more than when this was asked last."""
        before, self._repeated = self._repeated, self.repeated()
        return self._repeated - before

    def _settled(self) -> bool:
        """Nothing waits, and nothing is under way."""

        def waits(connection: Connection) -> int:
            counts, figures = outbox.counts(connection), principal.figures(connection)
            return counts["queued"] + counts["sending"] + figures["waiting"]

        return self.read(waits) == 0

    def left_behind(self) -> list[str]:
        """Processes and mounts that outlived the house."""
        home = str(self.house.home)
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if home in line]
        processes = [
            found for pid in Path("/proc").glob("[0-9]*") if home in (found := _words(pid)) and "pytest" not in found
        ]
        return mounts + processes


@dataclass
class Act:
    """One message and all that it did."""

    theatre: Theatre
    name: str

    @property
    def chunks(self) -> list[str]:
        return [str(one["text"]) for one in self.theatre.telegram.messages if f"-{self.name}-" in str(one["text"])]

    @property
    def ended(self) -> bool:
        return any(f"end-{self.name}-" in chunk for chunk in self.chunks)

    @property
    def asked(self) -> list[Asked]:
        def is_this(asked: Asked) -> bool:
            users = [text for role, text in asked.said if role == "user" and "act " in text]
            return bool(users) and users[-1].rpartition("act ")[2].split()[0] == self.name

        return [asked for asked in self.theatre.models.asked if is_this(asked)]

    @property
    def results(self) -> list[str]:
        """What the model was told of its three calls."""
        said = self.asked[-1].said
        last = max(at for at, (role, text) in enumerate(said) if role == "user" and "act " in text)
        return [text for role, text in said[last:] if role == "result"]

    def check(self, stop: Stop, victim: str) -> None:
        """One answer, one effect, one line, or a word that it is uncertain; the model asked no more than need be."""
        told = "\n".join(self.results)
        # A program whose way out died under it has failed, and said so.
        uncertain = any(word in told for word in ("uncertain", "interrupted", "was lost", "Exit code"))
        assert len(self.results) == 3, told
        for what, times in (
            ("line", self.theatre.lines().count(f"line-{self.name}-")),
            ("effect", self.theatre.outside.done.count(f"/effect-{self.name}-")),
        ):
            assert times == 1 or (times == 0 and uncertain), (what, times, told, self.theatre.lines()[-300:])
        lost = stop.point is Point.MODEL_ANSWERED and victim in ("runner", EVERYTHING)
        assert len(self.asked) <= 2 + lost, [asked.said[-1] for asked in self.asked]
        again = [text for text, times in Counter(self.chunks).items() if times > 1]
        # Telegram offers no way to look: what was being sent may have come through, and is sent once more, and marked.
        marked = self.theatre.newly_repeated()
        more = len(again) if victim in ("gateway", EVERYTHING) else 0
        assert len(self.chunks) == CHUNKS + more, [chunk[:20] for chunk in self.chunks]
        assert len(again) <= min(1, marked)
        assert self.theatre.verified() == []
        self.theatre.passed += 1


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


def _pid(house: House, role: str) -> int | None:
    try:
        return house.pid(role)
    except AssertionError:
        return None


def _words(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""

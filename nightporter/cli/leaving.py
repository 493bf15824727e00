"""``runner drain`` and ``check``: the runners of this host end what they have in hand and leave; whether they live."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from nightporter.cli import texts
from nightporter.errors import FAILED, NotRunning
from nightporter.home import LEAVER, LEAVER_TITLE
from nightporter.settings import home_of, load
from workspace_store import liveness

LOOK_SECONDS = 0.1
END_SECONDS = 10.0
NEEDED = ("runner", "sandbox-manager", "egress")


def check() -> int:
    """Name the parts that do not live. Reads no settings: a probe asks every few seconds."""
    lives = home_of(os.environ) / "run" / "lives"
    if not liveness.alive(lives, LEAVER):
        raise NotRunning(texts.no_runner_in(lives.parents[1]))
    missing = [role for role in NEEDED if not liveness.alive(lives, role)]
    print(texts.runner_serves(missing))
    return FAILED if missing else 0


def drain(seconds: float) -> int:
    """Wait until all have left; what takes longer than ``seconds`` is cut off, and goes on elsewhere."""
    settings = load()
    lives = settings.home / "run" / "lives"
    named = f"{LEAVER}-{settings.runner.host}"
    houses = [one for one in liveness.alive(lives, LEAVER) if one.rpartition("-")[0] == named]
    if not houses:
        raise NotRunning(texts.no_runner_here(settings.runner.host))
    print(texts.draining(len(houses)), flush=True)
    _signal(lives, houses, signal.SIGUSR1)
    if _gone(lives, houses, seconds):
        print(texts.drained())
        return 0
    _signal(lives, houses, signal.SIGTERM)
    _gone(lives, houses, END_SECONDS)
    print(texts.cut_off(seconds))
    return FAILED


def _signal(lives: Path, houses: list[str], number: signal.Signals) -> None:
    for one in houses:
        pid = liveness.process_of(lives, one)
        # In a container that only shares the home, another process has this number, or none.
        if pid is not None and not liveness.is_dead(lives, one) and _is_runner(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _is_runner(pid: int) -> bool:
    try:
        return f"nightporter: {LEAVER_TITLE}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _gone(lives: Path, houses: list[str], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not all(liveness.is_dead(lives, one) for one in houses):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True

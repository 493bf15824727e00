"""The steps of intake, turn, sandbox, egress and delivery by name, so that a test can end a process at each of them.

In service ``reached`` does nothing. A test build is a process whose environment names a plan, a file of three words:
the point, which time it is reached, and ``kill`` (SIGKILL) or ``stop`` (SIGSTOP, until somebody sends SIGCONT). A plan
is followed once: whoever follows it has renamed it to ``….reached`` first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

VARIABLE = "NIGHTPORTER_CRASH_PLAN"


class Point(StrEnum):
    """In the order in which a message that needs everything comes by."""

    # The gateway's intake: router/inbox.py.
    INTAKE_HEARD = "intake.heard"
    INTAKE_RECORDED = "intake.recorded"
    INTAKE_RUNG = "intake.rung"
    # The runner's turn: sandbox_runner/turn.py.
    TURN_BEGUN = "turn.begun"
    MODEL_ANSWERED = "model.answered"
    TOOL_REQUESTED = "tool.requested"
    TOOL_RAN = "tool.ran"
    TOOL_RECORDED = "tool.recorded"
    TURN_ANSWERED = "turn.answered"
    TURN_SAVED = "turn.saved"
    TURN_COMMITTED = "turn.committed"
    TURN_TOLD = "turn.told"
    TURN_FOLDED = "turn.folded"
    # The sandbox manager: sandbox_runner/manager.py.
    SANDBOX_WOKEN = "sandbox.woken"
    SANDBOX_RAN = "sandbox.ran"
    SANDBOX_SAVED = "sandbox.saved"
    # The egress proxy: sandbox_runner/egress/ledger.py.
    EFFECT_INTENDED = "effect.intended"
    EFFECT_DONE = "effect.done"
    EFFECT_SETTLED = "effect.settled"
    # The gateway's delivery: gateway/delivery.py, gateway/parts.py.
    DELIVERY_CLAIMED = "delivery.claimed"
    PART_SENT = "part.sent"
    PART_RECORDED = "part.recorded"
    DELIVERY_SENT = "delivery.sent"
    DELIVERY_RECORDED = "delivery.recorded"


def reached(point: Point) -> None:
    """Here a process may be ended."""
    if watcher is not None:
        watcher(point)


def planned(point: Point) -> None:
    """Follow the plan, if it is about this point."""
    path = Path(os.environ[VARIABLE])
    try:
        named, times, how = path.read_text().split()
    except (OSError, ValueError):
        return
    if named != point:
        return
    if int(times) > 1:
        write(path, point, how, int(times) - 1)
        return
    try:
        path.rename(reached_mark(path))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)


def write(path: Path, point: Point, how: str = "kill", times: int = 1) -> None:
    """Plan what is to happen the ``times``-th time that a point is reached."""
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(f"{point} {times} {how}")
    fresh.rename(path)


def reached_mark(path: Path) -> Path:
    """The file that is there once a plan was followed."""
    return path.with_suffix(".reached")


watcher: Callable[[Point], None] | None = planned if os.environ.get(VARIABLE) else None
"""Tests in one process put their own here."""

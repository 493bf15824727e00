"""Memory of all services together, idle (proportional set size): budget 200 MB."""

from __future__ import annotations

import re
import time
from pathlib import Path

from bench.houses import house
from bench.table import Row, show
from nightporter.testing import House

IDLE_SECONDS = 3


def proportional_mb(found: House) -> float:
    """PSS of ``up`` and everything below it, in MB."""
    assert found.process is not None
    kilobytes = 0
    for pid in [found.process.pid, *found.tree()]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        kilobytes += int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1])  # type: ignore[index]
    return kilobytes / 1024


def measure() -> Row:
    with house() as found:
        found.say("hello")
        time.sleep(IDLE_SECONDS)
        return Row("memory of all services, idle (PSS)", [proportional_mb(found)], 200, "MB")


if __name__ == "__main__":
    show([measure()])

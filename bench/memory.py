"""Memory of all services together, idle (proportional set size): budget 200 MB."""

from __future__ import annotations

import re
import time
from pathlib import Path

from bench.houses import house
from bench.table import Row, show

IDLE_SECONDS = 3


def proportional_mb(processes: list[int]) -> float:
    """PSS of processes, in MB."""
    kilobytes = 0
    for pid in processes:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        kilobytes += int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1])  # type: ignore[index]
    return kilobytes / 1024


def measure() -> Row:
    with house() as found:
        found.say("hello")
        time.sleep(IDLE_SECONDS)
        assert found.process is not None
        everything = [found.process.pid, *found.tree()]
        return Row("memory of all services, idle (PSS)", [proportional_mb(everything)], 200, "MB")


if __name__ == "__main__":
    show([measure()])

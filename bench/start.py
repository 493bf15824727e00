"""`nightporter up` until it is ready: budget 2 s."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.table import Row, show
from nightporter.testing import House


def measure(count: int = 7) -> Row:
    samples = []
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        for number in range(count):
            house = House(Path(folder) / f"home{number % 2}")
            start = time.perf_counter()
            house.start()
            samples.append(time.perf_counter() - start)
            house.stop()
    return Row("up until ready", samples, 2, "s")


if __name__ == "__main__":
    show([measure()])

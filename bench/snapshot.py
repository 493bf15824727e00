"""Snapshots of 10,000 files: the first, and with 5 changed, as rows against the budget.

``python -m bench.snapshot [directory]``: on the filesystem of that directory (default: the temporary one).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from bench.table import Row
from workspace_store.volumes import Volume, Volumes

FILES = 10_000
RUNS = 11
BUDGET_MS = 100.0
SHAPES = {"100 directories": 100, "1,000 directories": 1000, "1 directory": 1}


def fill(workspace: Path, directories: int) -> list[Path]:
    """10,000 files of 200 bytes to 20 KB, not compressible."""
    files = []
    for number in range(FILES):
        folder = workspace / f"d{number % directories}"
        folder.mkdir(exist_ok=True)
        path = folder / f"file-{number}.dat"
        path.write_bytes(os.urandom(200 + (number * 7919) % 20_000))
        files.append(path)
    return files


def measured(volume: Volume, files: list[Path]) -> tuple[float, list[float], float]:
    """(first, each with 5 changed, median of their processor time) in milliseconds; the first two as a caller waits."""
    started = time.perf_counter()
    volume.snapshot(0)
    first = (time.perf_counter() - started) * 1000
    volume.snapshot(1)
    times, processor = [], []
    for run in range(RUNS):
        for path in files[run * 5 : run * 5 + 5]:
            path.write_bytes(os.urandom(1000))
        time.sleep(0.05)
        os.sync()
        started, used = time.perf_counter(), time.process_time()
        generation = volume.snapshot(run + 2)
        times.append((time.perf_counter() - started) * 1000)
        processor.append((time.process_time() - used) * 1000)
        assert generation.changed == 5, generation
    return first, times, statistics.median(processor)


def measure() -> Row:
    """The shape that workspaces have most."""
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as root, Volumes(Path(root)).open(uuid4()) as volume:
        _, changed, _ = measured(volume, fill(volume.workspace, 100))
        return Row("snapshot of 10,000 files, 5 changed", changed, BUDGET_MS, "ms")


def main() -> None:
    where = sys.argv[1] if len(sys.argv) > 1 else None
    print("| what | budget | first | 5 changed, median | its processor time |")
    print("|---|---|---|---|---|")
    for shape, directories in SHAPES.items():
        with tempfile.TemporaryDirectory(dir=where) as root, Volumes(Path(root)).open(uuid4()) as volume:
            first, times, processor = measured(volume, fill(volume.workspace, directories))
            changed = statistics.median(times)
            verdict = "within" if changed <= BUDGET_MS else "over"
            print(
                f"| snapshot, 10,000 files in {shape} | {BUDGET_MS:.0f} ms | {first:.0f} ms | "
                f"{changed:.1f} ms ({verdict}) | {processor:.1f} ms |"
            )


if __name__ == "__main__":
    main()

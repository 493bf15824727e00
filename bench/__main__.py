"""Budgets, measured on this machine: `python -m bench [NAME…]`, all of them without a name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from bench import (
    command,
    disk,
    memory,
    prefix,
    recall,
    recovery,
    reply,
    resolution,
    sandbox,
    snapshot,
    start,
    telegram,
    throughput,
)
from bench.table import Row, show

BUDGETS: Mapping[str, Callable[[], list[Row] | Row]] = {
    "start": start.measure,
    "memory": memory.measure,
    "reply": reply.measure,
    "command": command.measure,
    "telegram": telegram.measure,
    "sandbox": sandbox.measure,
    "disk": disk.measure,
    "snapshot": snapshot.measure,
    "resolution": resolution.measure,
    "recovery": recovery.measure,
    "recall": recall.measure,
    "prefix": prefix.measure,
    "throughput": throughput.measure,
}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(BUDGETS))
    if unknown:
        raise SystemExit(f"no such budget: {', '.join(unknown)}; there are {', '.join(BUDGETS)}")
    rows: list[Row] = []
    for name in names or BUDGETS:
        found = BUDGETS[name]()
        rows += found if isinstance(found, list) else [found]
    show(rows)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A row a budget: what was measured, how often, and what it may be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """``samples`` and ``budget`` in ``unit``. ``at_least``: more is better."""

    what: str
    samples: Sequence[float]
    budget: float
    unit: str
    at_least: bool = False

    @property
    def within(self) -> bool:
        return self.median >= self.budget if self.at_least else self.median <= self.budget

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    print(f"{'what':<44} {'n':>4} {'median':>10} {'p95':>10} {'budget':>10}  within")
    for row in rows:
        within = "yes" if row.within else "NO"
        figures = f"{row.median:>7.1f} {row.unit:<2} {row.p95:>7.1f} {row.unit:<2} {row.budget:>7.0f} {row.unit:<2}"
        print(f"{row.what:<44} {len(row.samples):>4} {figures}  {within}")

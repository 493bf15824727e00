"""Local message to reply, no tool: budget 30 ms."""

from __future__ import annotations

from bench.houses import house, replies
from bench.table import Row, show


def measure(count: int = 100) -> Row:
    with house() as found:
        return Row("message to reply, no tool", replies(found, "hello", count), 30, "ms")


if __name__ == "__main__":
    show([measure()])

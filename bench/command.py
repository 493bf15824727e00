"""Local message to reply, one command: warm sandbox 60 ms, cold wake with state restored 150 ms."""

from __future__ import annotations

from bench.houses import house, replies
from bench.table import Row, show


def measure(count: int = 60, cold: int = 15) -> list[Row]:
    with house() as found:
        found.say("$ export FOO=1; greet() { echo hello; }; cd /tmp")
        warm = replies(found, "$ echo $FOO", count)
    with house(sandbox__idle_seconds="0.1") as found:
        found.say("$ export FOO=1; greet() { echo hello; }; cd /tmp")
        woken = replies(found, "$ echo $FOO", cold, found.sleep_sandboxes)
    return [
        Row("message to reply, one command, warm", warm, 60, "ms"),
        Row("message to reply, one command, cold wake", woken, 150, "ms"),
    ]


if __name__ == "__main__":
    show(measure())

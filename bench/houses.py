"""A house to measure in, and a stopwatch from a message to its reply over the real HTTP interface."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx

from nightporter.testing import House


@contextlib.contextmanager
def house(**settings: str) -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        found = House(Path(folder) / "home", **settings).start()
        try:
            yield found
        finally:
            found.stop()


def replies(house: House, text: str, count: int, before: Callable[[], object] | None = None) -> list[float]:
    """Milliseconds from sending ``text`` to its reply on the event stream, ``count`` times; ``before`` each time."""
    measured = []
    house.say(text)
    with house.client(timeout=60) as client, client.stream("GET", "/v1/events") as events:
        lines = events.iter_lines()
        next(lines)
        for _ in range(count):
            if before is not None:
                before()
            message = uuid4().hex
            start = time.perf_counter()
            client.post("/v1/messages", json={"text": text, "message_id": message})
            _wait_for_reply(lines, message)
            measured.append((time.perf_counter() - start) * 1000)
    return measured


def _wait_for_reply(lines: Iterator[str], message: str) -> None:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: ") and kind == "reply.queued" and json.loads(line[6:])["message_id"] == message:
            return
    raise httpx.RemoteProtocolError("the event stream ended")

"""A long conversation at a window of 16k tokens, with compression and without: tokens sent and latency along the way.

`python -m bench.compression [TURNS] [TURNS WITHOUT]`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.scenarios.long_talk import WINDOW, Talk, hold
from tests.turns.stage import Stage
from workspace_store import schema

UNBOUNDED = 100_000_000


async def measure(turns: int, window: int) -> Talk:
    """Hold the conversation in a database of its own."""
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        url = f"sqlite:///{folder}/nightporter.db"
        schema.upgrade(url)
        stage, talk = Stage(Path(folder), url), Talk(turns)
        async with stage.managing():
            await hold(stage, talk, window)
        stage.database.close()
        return talk


def show(what: str, talk: Talk) -> None:
    """One row: medians of five parts of the conversation."""
    tokens = " ".join(f"{size / 4000:7.1f}k" for size in talk.medians([float(size) for size in talk.sent]))
    milliseconds = " ".join(f"{seconds * 1000:7.1f}" for seconds in talk.medians(talk.seconds))
    print(f"{what:<22} {talk.turns:>6}  {tokens}   {milliseconds}   {len(talk.missing):>5} of {talk.asked_for}")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    print(f"{'':<22} {'turns':>6}  {'tokens sent, by fifths':<44}  {'ms a turn, by fifths':<40}  lost")
    show("with compression", asyncio.run(measure(given[0] if given else 2000, WINDOW)))
    # A window that is never full: turns still fold, and every record is sent.
    show("without a bound", asyncio.run(measure(given[1] if len(given) > 1 else 2000, UNBOUNDED)))

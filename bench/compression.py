"""A long conversation at a window of 16k tokens, with compression and without: tokens sent and latency along the way.

Without compression every turn is sent word for word, whatever it takes. A model of that window would refuse it from the
turn on that the table names.

`python -m bench.compression [TURNS] [TURNS WITHOUT]`
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from agent import context, old_turns
from tests.scenarios.long_talk import WINDOW, Talk, hold
from tests.turns.stage import Stage
from workspace_store import schema

UNBOUNDED = 100_000_000


@contextlib.contextmanager
def nothing_folds() -> Iterator[None]:
    """Every turn is one of the last ones, which are told word for word."""
    with (
        mock.patch.object(context, "VERBATIM_TURNS", UNBOUNDED),
        mock.patch.object(old_turns, "VERBATIM_TURNS", UNBOUNDED),
    ):
        yield


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
    """One row: medians of five parts of the conversation. Until the second the window fills."""
    tokens = " ".join(f"{size / 1000:6.1f}k" for size in talk.medians(talk.tokens))
    milliseconds = " ".join(f"{seconds * 1000:6.1f}" for seconds in talk.medians(talk.seconds))
    over = next((str(number) for number, size in enumerate(talk.tokens) if size > WINDOW), "never")
    lost = f"{len(talk.missing)} of {talk.asked_for + len(talk.promises)}"
    _, second, *_, last = talk.medians(talk.seconds)
    print(
        f"{what:<17} {talk.turns:>5}  {tokens}  {max(talk.tokens) / 1000:6.1f}k  {over:>7}  {milliseconds}"
        f"  {last / second:5.2f}x  {lost}"
    )


def main(turns: int, without: int) -> None:
    header = ("", "turns", "tokens sent, by fifths", "most", "over at", "ms a turn, by fifths", "last/2nd", "lost")
    print("{:<17} {:>5}  {:<39}  {:>7}  {:>7}  {:<34}  {:>6}  {}".format(*header))
    show("with compression", asyncio.run(measure(turns, WINDOW)))
    with nothing_folds():
        show("without", asyncio.run(measure(without, UNBOUNDED)))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(given[0] if given else 2000, given[1] if len(given) > 1 else 300)

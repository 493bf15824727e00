"""Saying more than anybody can hold, and saying it so that it steers whoever reads it."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from nightporter.cli import texts
from sandbox_runner.bubblewrap import BubblewrapBackend
from tests.sandbox_runner.egress.inside import inside
from tests.sandbox_runner.egress.yard import yard


@pytest.mark.slow
async def test_a_hundred_megabytes_of_output(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await its.run("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the end", 120)
        assert len(result.output) <= 2 << 20
        assert result.omitted_bytes > 90_000_000
        assert result.output.rstrip().endswith("the end")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"
        assert await its.output("echo alive") == "alive"


async def test_a_line_without_end_and_bytes_that_are_no_text(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        result = await its.run("head -c 3000000 /dev/urandom; printf '\\xff\\xfe\\x00end'", 60)
        assert result.status == "exited"
        assert result.output.encode("utf-8")


async def test_output_for_ever_is_moved_to_the_background_and_bounded(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        started = time.monotonic()
        result = await its.run("yes", 2)
        assert time.monotonic() - started < 20
        assert (result.status, result.task) == ("running", 1)
        await its.guest.stop_task(1, grace=1)
        log = its.workspace.parent / "home/.nightporter/tasks"
        assert sum(path.stat().st_size for path in log.rglob("*") if path.is_file()) < 64 << 20


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b]0;new title\x07", "\x1b[2J\x1b[H", "\x1b]52;c;cHduZWQ=\x07",
        "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
        "\x1b[6n", "\x1bP$q\"p\x1b\\", "\x9b31m", "\x1b[?1049h", "\r overwritten", "\x08\x08\x08",
        "\x1b[201~rm -rf ~\n",
    ],
)  # fmt: skip
def test_escape_sequences_do_not_reach_the_terminal_of_whoever_reads(hostile: str) -> None:
    """What is left is text: no byte of it starts a sequence, moves back or rings."""
    shown = texts.said(f"before{hostile}after")
    assert not set(shown) & {chr(code) for code in [*range(9), *range(11, 32), *range(127, 160)]}
    assert shown.strip().startswith("before")
    assert shown.strip().endswith("after")

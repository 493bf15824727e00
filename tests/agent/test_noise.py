"""What a terminal is told goes from an output; what a reader needs of it stays."""

from __future__ import annotations

import time

import pytest

from agent import noise

BAR = "".join(f"\r\x1b[32m{part:3}%\x1b[0m {'#' * (part // 2)}\x1b[K" for part in range(101))


@pytest.mark.parametrize(
    ("printed", "read"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("\x1b[1;31mred\x1b[0m and \x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x07\n", "red and a link\n"),
        (f"fetching{BAR}\ndone\n", f"100% {'#' * 50}\ndone\n"),
        ("50%\r100%\r\r\n", "100%\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("N\bNA\bAM\bME\bE and abc\b\bd\n", "NAME and ad\n"),
        ("bell\x07 and null\x00\n", "bell and null\n"),
        # A string that never ends hides nothing that follows.
        ("\x1b]0;title\nsecret 4711\n", "0;title\nsecret 4711\n"),
        ("retrying in 5 s\n" * 1000 + "up\n", "retrying in 5 s\n[… the same line 999 more times …]\nup\n"),
        ("same\n" * 4, "same\n" * 4),
        # What would be said instead is longer.
        ("\n" * 8 + "0\n" * 12, "\n" * 8 + "0\n" * 12),
        ("one 1\none 2\n" * 10, "one 1\none 2\n" * 10),
        ("", ""),
    ],
)
def test_noise_goes_and_words_stay(printed: str, read: str) -> None:
    assert noise.without(printed) == read
    # Decided once: looked at again, it stays as it is.
    assert noise.without(read) == read


@pytest.mark.parametrize(
    "printed", ["\x1b]" * 200_000, "a\b" * 200_000, "\x1b[" * 200_000, "\r" * 400_000, "\n" * 400_000]
)
def test_hostile_output_takes_no_long_time(printed: str) -> None:
    started = time.process_time()
    noise.without(printed)
    assert time.process_time() - started < 2

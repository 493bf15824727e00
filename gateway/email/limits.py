"""How much of one mail is looked at: a hostile mail costs bounded time and memory, whatever it holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_BYTES = 25_000_000
MAX_PARTS = 500
MAX_DEPTH = 20
DEADLINE_SECONDS = 2.0
MAX_HEADER_BYTES = 256 * 1024
MAX_HEADER_FIELDS = 2_000
MAX_FIELDS_PROVEN = 1_000
"""A mail with more fields proves nothing."""
MAX_FIELD_BYTES = 64 * 1024
MAX_FALSE_BOUNDARIES = 20_000
MAX_DECODED_BYTES = 50_000_000
MAX_TEXT_BYTES = 2_000_000
MAX_HTML_CHARS = 500_000
MAX_HTML_NODES = 60_000
MAX_UUENCODED_LINES = 200_000
MAX_CONTEXT_CHARS = 200_000
MAX_LINES = 10_000
"""Lines that are searched for quotes and signatures; what follows them is kept as it is."""
MAX_LINE_CHARS = 2_000
"""A longer line is never matched against a pattern: nobody's mail program writes an attribution that long."""


@dataclass
class Budget:
    """What is left to spend on one mail. `spent` names each limit that was reached."""

    clock: Callable[[], float] = time.monotonic
    seconds: float = DEADLINE_SECONDS
    parts: int = MAX_PARTS
    false_boundaries: int = MAX_FALSE_BOUNDARIES
    decoded_bytes: int = MAX_DECODED_BYTES
    text_bytes: int = MAX_TEXT_BYTES
    html_chars: int = MAX_HTML_CHARS
    spent: list[str] = field(default_factory=list)
    ends: float = field(init=False)

    def __post_init__(self) -> None:
        self.ends = self.clock() + self.seconds

    def note(self, limit: str) -> None:
        """Record once that `limit` was reached."""
        if limit not in self.spent:
            self.spent.append(limit)

    def late(self) -> bool:
        """Whether half the time is gone, so that optional work should be left out."""
        if self.clock() > self.ends - self.seconds / 2:
            self.note("time")
            return True
        return False

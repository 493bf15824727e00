"""What an engine tells while it works, for those who wait: best effort, and nothing may depend on it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where a turn's progress is told. None of it waits, fails, or is recorded."""

    def answering(self, text: str) -> None:
        """The answer as far as it is written: markdown, from its beginning. Any number of calls: most are dropped."""
        ...


class Silent:
    """Tells nobody."""

    def answering(self, text: str) -> None:
        pass


SILENT = Silent()

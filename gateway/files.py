"""Files between a platform and the blobs: how one is fetched, and what a reply carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fetched:
    """A file as the platform has it; ``name`` and ``content_type`` where it says them."""

    content: bytes
    name: str = ""
    content_type: str = ""


class NoFile(Exception):
    """A file that will never be had, with the reason for a person."""


class NotYet(Exception):
    """A file that cannot be had now, with the reason for a person; try again after ``seconds`` (None: back off)."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


Fetch = Callable[[str, str, int], Awaitable[Fetched]]
"""(account, the platform's id of a file, most bytes) → the file. Raises NoFile, NotYet."""

"""Files between a platform and the blobs: how one is fetched, and what a reply carries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs
from workspace_store.outbox import Reply


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


@dataclass(frozen=True)
class OutgoingFile:
    """A file of a reply. ``show``: a picture to be looked at, rather than a file to be kept."""

    name: str
    content_type: str
    size: int
    blob: str
    show: bool = False


def files_of(reply: Reply) -> tuple[OutgoingFile, ...]:
    """The files that go out with a reply, in order."""
    given = reply.content.get("files") or ()
    return tuple(
        OutgoingFile(
            str(file["name"]), str(file["content_type"]), int(file["size"]), str(file["blob"]), bool(file.get("show"))
        )
        for file in given
    )


Read = Callable[[UUID, OutgoingFile], Awaitable[bytes]]
"""(principal, file) → its bytes as they were frozen. Raises NoFile."""


def reader(blobs: Blobs) -> Read:
    """Reads the files of replies from where they are kept."""

    async def read(principal: UUID, file: OutgoingFile) -> bytes:
        try:
            return await asyncio.to_thread(blobs.get, principal, file.blob)
        except (BlobMissing, BlobCorrupt) as error:
            raise NoFile(str(error)) from error

    return read


async def nothing_kept(principal: UUID, file: OutgoingFile) -> bytes:
    """For a channel that keeps no files."""
    raise NoFile("no files are kept here")

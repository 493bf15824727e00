"""Room on the disks that intake writes to: while there is little, nothing more is accepted, so that nothing is
half-written; and a reserve is given up, so that what was accepted can be finished and people be told.

It accepts again, and the reserve is made anew, as soon as there is room; nobody has to start anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from workspace_store.database import DatabaseUnavailable

log = structlog.get_logger()

LOOK_SECONDS = 0.5
TELL_AGAIN_SECONDS = 60.0
MARGIN_BYTES = 32 << 20
MARGIN_SHARE = 20
"""On a small disk, one part in so many is the margin."""
ENOUGH = 2.5
"""Margins that have to be free before it accepts again: one is for the reserve, and none flaps."""
FEW_FILES = 100
LARGE_BYTES = 1 << 20
"""Contents of this size are looked for room at the moment they come."""


class DiskFull(DatabaseUnavailable):
    """There is too little room on the disk to accept anything; nothing of it was written."""


@dataclass(frozen=True)
class Free:
    """What is free on a disk. ``margin``: bytes below which it is short."""

    bytes: int
    margin: int
    files: bool

    @property
    def is_short(self) -> bool:
        return self.bytes < self.margin or not self.files

    @property
    def is_plenty(self) -> bool:
        return self.bytes >= self.margin * ENOUGH and self.files


def free(folder: Path) -> Free:
    """Raises OSError."""
    found = os.statvfs(folder)
    total = found.f_blocks * found.f_frsize
    # Some file systems have no end of files, and say so with 0.
    files = found.f_files == 0 or found.f_favail >= FEW_FILES
    return Free(found.f_bavail * found.f_frsize, min(MARGIN_BYTES, total // MARGIN_SHARE), files)


@dataclass
class DiskRoom:
    """``folders``: on the disks that are written to. ``reserve``: a file of one margin, on the first of them."""

    folders: Sequence[Path] = ()
    reserve: Path | None = None
    is_short: bool = False

    def check(self, size: int = 0) -> None:
        """Before something of ``size`` bytes is written. Raises DiskFull."""
        if self.is_short:
            raise DiskFull("there is too little room on the disk")
        if size >= LARGE_BYTES:
            for folder in self.folders:
                there = free(folder)
                if there.bytes - size < there.margin:
                    raise DiskFull(f"there is no room for {size:,} bytes on the disk")

    async def keep(self, changed: Callable[[bool], Awaitable[bool]]) -> None:
        """Look until cancelled; ``changed`` is told when the disk has got short, and when it is so no more.

        Where it answers that nobody hears that now, it is told again, so that the last word is what is the case.
        """
        told, not_before = False, 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                await asyncio.to_thread(self.look)
                if self.is_short != told and clock() >= not_before:
                    told = self.is_short if await changed(self.is_short) else told
                    not_before = clock() + (0.0 if self.is_short == told else TELL_AGAIN_SECONDS)
            except DatabaseUnavailable as error:
                log.warning("could not tell that the disk is full", reason=str(error))
            except OSError as error:
                log.warning("could not look for room on the disk", reason=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """How things stand now: gives the reserve up, or makes it anew. Raises OSError."""
        found = [free(folder) for folder in self.folders]
        plenty = all(one.is_plenty for one in found)
        # Where the reserve was given up it is still short, whoever looks: another process, or one that was restarted.
        if any(one.is_short for one in found) or not (plenty or self._has_kept_reserve):
            if not self.is_short:
                log.error("the disk is full: nothing is accepted", free=min(one.bytes for one in found))
            self.is_short = True
            self._give_up()
        elif found and plenty and self._has_reserve(found[0].margin) and self.is_short:
            log.warning("there is room on the disk again")
            self.is_short = False

    @property
    def _has_kept_reserve(self) -> bool:
        return self.reserve is None or self.reserve.exists()

    def _give_up(self) -> None:
        if self.reserve is not None:
            self.reserve.unlink(missing_ok=True)

    def _has_reserve(self, size: int) -> bool:
        """Whether the reserve is there, made now if need be; the disk may say no where a quota is full."""
        if self.reserve is None or self._has_kept_reserve:
            return True
        fresh = self.reserve.with_name(f".{self.reserve.name}")
        try:
            with fresh.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
            fresh.rename(self.reserve)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            log.debug("no room for the reserve", reason=str(error))
            return False
        return True

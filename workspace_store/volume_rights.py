"""The right to write to a volume: one process at a time, and none whose tenancy another has taken since."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from workspace_store.packs import VolumeError

_BUSY_SECONDS = 30.0


class VolumeBusy(VolumeError):
    """Another process has been writing to this volume for 30 s."""


class VolumeTaken(VolumeError):
    """Another has claimed this volume since: whoever writes here now must not."""


class ClaimOutdated(VolumeTaken):
    """A claim with a later epoch stands."""

    def __init__(self, epoch: int) -> None:
        super().__init__("the volume was claimed under a later tenancy; nothing was written")
        self.epoch = epoch


class WriteRight:
    """Of one who has opened a volume. ``folder``: the volume's own, which no sandbox sees."""

    def __init__(self, volume: Path, folder: Path) -> None:
        self._volume = volume
        self._folder = folder
        self._claimed: bytes | None = None

    def claim(self, right: str) -> None:
        """Put this claim in place of any other; only where ``locked``. Raises OSError."""
        claimed = right.encode()
        # Nobody else writes that name now; what a kill left of it is written over.
        fresh = self._folder / "claim.part"
        fresh.write_bytes(claimed)
        fresh.rename(self._folder / "claim")
        self._claimed = claimed

    def check(self) -> None:
        """Raises VolumeTaken."""
        if self._claimed is None:
            return
        try:
            there = (self._folder / "claim").read_bytes()
        except FileNotFoundError:
            return
        if there != self._claimed:
            raise VolumeTaken(f"{self._volume} has been claimed by another; nothing was written")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with the volume, across processes. Raises VolumeBusy, VolumeTaken."""
        fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + _BUSY_SECONDS
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise VolumeBusy(f"another process is writing to {self._volume}; try again later") from error
                    time.sleep(0.005)
            self.check()
            yield
        finally:
            os.close(fd)

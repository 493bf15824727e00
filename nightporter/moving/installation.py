"""What a move touches of an installation: its database, volumes, blobs, and who is alive in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightporter import signing
from nightporter.cli import wiring
from nightporter.settings import Settings
from workspace_store.blobs import Blobs
from workspace_store.database import Database
from workspace_store.storage import Storage


@dataclass(frozen=True)
class Installation:
    """``key``: by which others know it. ``place``: where people find it."""

    database: Database
    home: Path
    storage: Storage
    key: str
    place: str

    @property
    def lives(self) -> Path:
        return self.home / "run" / "lives"

    @property
    def volumes(self) -> Path:
        """Their folder on this disk."""
        return self.storage.folder

    @property
    def blobs_folder(self) -> Path:
        return self.storage.blobs_folder

    @property
    def blobs(self) -> Blobs:
        return self.storage.blobs()


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[Installation]:
    """Raises CommandError where there is no database yet, or it cannot be reached."""
    with wiring.opened(settings) as database:
        key = signing.public_key(settings.home)
        yield Installation(database, settings.home, settings.kept_in, key, settings.runner.host)

"""What a volume says of itself: ``marker.json``, beside ``live`` and never shown to a sandbox.

Replaced atomically and durably, always after the generation it names.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from workspace_store.packs import VolumeError, write_durably

FORMAT = 1


class VolumeDamaged(VolumeError):
    """The directory is no whole volume: restore it from a backup. It is never guessed at."""


@dataclass(frozen=True)
class Marker:
    """To be compared with the database before anything is mounted."""

    format: int
    volume: str
    """UUID made when the directory was: another directory for the same principal has another."""
    principal: str
    generation: int
    """Last one published; 0: none yet."""
    digest: str
    """Of its manifest; empty for generation 0."""


def read(volume: Path) -> Marker:
    """Raises VolumeDamaged."""
    try:
        marker = Marker(**json.loads((volume / "marker.json").read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise VolumeDamaged(f"{volume} has no marker that can be read; restore it from a backup") from error
    if marker.format != FORMAT:
        raise VolumeDamaged(f"{volume} was written by a newer version; upgrade to open it")
    return marker


def file_of(volume: Path, marker: Marker) -> tuple[Path, bytes]:
    """The marker, and where it belongs."""
    return volume / "marker.json", json.dumps(asdict(marker)).encode()


def write(volume: Path, marker: Marker) -> None:
    """Raises OSError."""
    write_durably(*file_of(volume, marker))

"""What a generation is, and its manifest on the disk.

Owns ``generations/``: one file a generation, replaced atomically. Promises that a manifest that can be read is the one
that was published: its digest is over all it says, and its root tree's hash over every entry.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from blake3 import blake3

from workspace_store.packs import VolumeError, sync_folder
from workspace_store.snapshots import Skipped

FORMAT = 1


class GenerationMissing(VolumeError):
    """There is no generation of that number."""


class ManifestCorrupt(VolumeError):
    """A manifest is not what was published."""


@dataclass(frozen=True)
class Generation:
    """One snapshot of a volume, as published."""

    number: int
    parent: int
    """0: none. Numbers are the caller's: parent + 1."""
    volume: str
    principal: str
    turn: str | None
    note: str
    created_at: float
    """Unix seconds."""
    root: str
    """BLAKE3 (hex) of the root tree: equal roots are equal files."""
    files: int
    bytes: int
    """Sum of the files' sizes."""
    changed: int
    """Files and links added, changed or removed since ``parent``."""
    moving: bool
    """Things changed while they were read: files may be of slightly different moments."""
    skipped: tuple[Skipped, ...]
    """At most 1,000 of ``skipped_count``."""
    skipped_count: int
    restored_from: int | None = None
    """The generation this one was made equal to."""
    visible: int | None = None
    """Of ``changed``, those outside the agent's own folder, ``home/.nightporter``."""
    digest: str = ""
    """BLAKE3 (hex) over the manifest's canonical JSON."""
    duration_ms: float = 0.0
    """How long it took until it was published; not part of the digest."""
    new_bytes: int = 0
    """Compressed bytes it added to the packs; not part of the digest."""

    @property
    def is_to_be_named(self) -> bool:
        """Whether a checkpoint names it: else its files are those of the one before."""
        return bool(self.changed) or self.restored_from is not None


@dataclass(frozen=True)
class Pruned:
    """What prune() did: generations dropped, and bytes freed on the disk."""

    generations: tuple[int, ...]
    freed_bytes: int


@dataclass(frozen=True)
class Verified:
    """What verify() read: every object of a generation once."""

    objects: int
    bytes: int


def written(folder: Path, generation: Generation) -> tuple[Generation, Path, bytes]:
    """A generation with its digest set, where its manifest belongs (over one of that number), and what that says."""
    body = _body(generation)
    generation = replace(generation, digest=_digest(body))
    wrapped = {
        "digest": generation.digest,
        "duration_ms": generation.duration_ms,
        "new_bytes": generation.new_bytes,
        "manifest": body,
    }
    return generation, path(folder, generation.number), json.dumps(wrapped).encode()


def load(folder: Path, number: int) -> Generation:
    """Raises GenerationMissing, ManifestCorrupt."""
    try:
        return read(path(folder, number).read_bytes(), number)
    except FileNotFoundError as error:
        raise GenerationMissing(f"there is no generation {number}") from error


def read(data: bytes, number: int) -> Generation:
    """What a manifest says. Raises ManifestCorrupt."""
    try:
        wrapped = json.loads(data)
        body: dict[str, Any] = wrapped["manifest"]
        if _digest(body) != wrapped["digest"] or body["number"] != number:
            raise ManifestCorrupt(f"the manifest of generation {number} is damaged")
        if body.pop("format") != FORMAT:
            raise ManifestCorrupt(f"generation {number} was written by a newer version; upgrade to read it")
        skipped = tuple(Skipped(**item) for item in body.pop("skipped"))
        return Generation(
            **body,
            skipped=skipped,
            digest=wrapped["digest"],
            duration_ms=wrapped["duration_ms"],
            new_bytes=wrapped["new_bytes"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestCorrupt(f"the manifest of generation {number} cannot be read") from error


def numbers(folder: Path) -> list[int]:
    """Published numbers, ascending."""
    return sorted(int(file.stem) for file in folder.glob("*.json") if file.stem.isdecimal())


def exists(folder: Path, number: int) -> bool:
    return path(folder, number).is_file()


def remove(folder: Path, dropped: list[int]) -> None:
    """Destructive, durable, newest first: what is left after a crash is still a run of ancestors."""
    for number in sorted(dropped, reverse=True):
        path(folder, number).unlink(missing_ok=True)
    if dropped:
        sync_folder(folder)


def _body(generation: Generation) -> dict[str, Any]:
    body = asdict(generation)
    for outside in ("digest", "duration_ms", "new_bytes"):
        del body[outside]
    return {"format": FORMAT, **body, "skipped": [asdict(item) for item in generation.skipped]}


def _digest(body: dict[str, Any]) -> str:
    return blake3(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def path(folder: Path, number: int) -> Path:
    """Where a manifest is."""
    return folder / f"{number:010d}.json"

"""Files of somebody who arrives, where volumes are in an object store: stored beside what is there, named by a head.

The head that was there is kept under a name of its own until the arrival is settled, so that one which fails, or is cut
off, leaves everything as it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from workspace_store import heads, manifests
from workspace_store.blobs import DirectoryBlobs
from workspace_store.bucket import Bucket, Conflict
from workspace_store.heads import Head
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volumes

RECORD = "stored.json"


def store(bucket: Bucket, bundle: UUID, volumes: Path, blobs: Path, record: Path) -> None:
    """Store staged volumes and blobs. What is written into the folder ``record`` first says how to undo it.

    Raises VolumeError, OSError.
    """
    owners = [UUID(path.name) for path in _folders(volumes)]
    fresh = [name for name in _blob_names(blobs) if not bucket.has(name)]
    record.mkdir(mode=0o700, exist_ok=True)
    (record / RECORD).write_text(json.dumps({"owners": [str(owner) for owner in owners], "blobs": fresh}))
    for name, path in _blob_names(blobs).items():
        bucket.put(name, path)
    for owner in owners:
        _plant(bucket, bundle, owner, volumes)


def undo(bucket: Bucket, bundle: UUID, record: Path) -> None:
    """Have everything as it was before ``store``; as often as it takes. Raises StoreUnavailable."""
    for owner in _recorded(record, "owners"):
        there = bucket.get(_head(owner))
        before = bucket.get(_before(owner, bundle))
        if before is not None:
            bucket.put(_head(owner), before[0])
            bucket.delete([_before(owner, bundle)])
        elif there is not None and _is_of(there[0], owner, bundle):
            bucket.delete([_head(owner)])
    bucket.delete(_recorded(record, "blobs"))


def settle(bucket: Bucket, bundle: UUID, record: Path) -> None:
    """They have come: what was kept of before is no more. Raises StoreUnavailable."""
    bucket.delete([_before(owner, bundle) for owner in _recorded(record, "owners")])


def _plant(bucket: Bucket, bundle: UUID, owner: UUID, staged: Path) -> None:
    with Volumes(staged).open(owner) as volume:
        marker = volume.marker()
        snapshots = volume.path / "snapshots"
        place = heads.place(owner)
        packs = sorted((snapshots / "packs").glob("*.pack"))
        for pack in packs:
            bucket.put(f"{place}/packs/{pack.name}", pack)
        manifest = manifests.path(snapshots / "generations", marker.generation)
        bucket.put(heads.manifest_name(owner, marker.generation, marker.digest), manifest)
        head = Head(
            marker.volume, str(owner), marker.generation, {marker.generation: marker.digest},
            {pack.name: pack.stat().st_size for pack in packs}, _right(bundle),
        )  # fmt: skip
    found = bucket.get(_head(owner))
    if found is not None:
        bucket.put(_before(owner, bundle), found[0])
    try:
        bucket.put_if(_head(owner), head.encoded(), found[1] if found else None)
    except Conflict as error:
        written = bucket.get(_head(owner))
        if written is None or written[0] != head.encoded():
            raise VolumeError(f"somebody else writes the volume of {owner} in {bucket.settings.url}") from error


def _recorded(record: Path, what: str) -> Sequence[str]:
    try:
        found: list[str] = json.loads((record / RECORD).read_text())[what]
    except FileNotFoundError:
        return []
    return found


def _is_of(data: bytes, owner: str, bundle: UUID) -> bool:
    return Head.decoded(data, UUID(owner)).right == _right(bundle)


def _right(bundle: UUID) -> str:
    return f"arriving-{bundle.hex} 0"


def _head(owner: UUID | str) -> str:
    return f"volumes/{owner}/head.json"


def _before(owner: UUID | str, bundle: UUID) -> str:
    return f"volumes/{owner}/head.left-{bundle.hex}.json"


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _blob_names(root: Path) -> dict[str, Path]:
    """Where in a bucket each staged blob goes, and its file."""
    here = DirectoryBlobs(root)
    return {
        f"blobs/{folder.name}/{blob}": here.path(UUID(folder.name), blob)
        for folder in _folders(root)
        for blob in here.hashes(UUID(folder.name))
    }

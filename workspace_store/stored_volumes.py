"""Volumes in an object store: the directory of each on this host is a cache of its last committed generation.

What is in ``live`` counts as long as nobody else has claimed the volume since; else it is laid out anew from the
generation that the database names, of which only what is not here is fetched. Promises that a generation is in the
store, whole, before ``hand_in`` returns, and that one who lost the right to the volume stores nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from blake3 import blake3

from workspace_store import beneath, heads, manifests, markers, trees
from workspace_store.bucket import Bucket
from workspace_store.heads import Head, Heads
from workspace_store.manifests import Generation, GenerationMissing, ManifestCorrupt
from workspace_store.markers import VolumeDamaged
from workspace_store.packs import PackStore, VolumeError, naming_full_disk, write_durably
from workspace_store.snapshots import TOP, Hashing
from workspace_store.stored_packs import StoredPacks
from workspace_store.volume_rights import ClaimOutdated, VolumeTaken
from workspace_store.volumes import Volume, Volumes

_MANY_STORED = 64
_SMALL_BYTES = 8 << 20


class StoredVolumes(Volumes):
    """Volumes in a bucket, with their caches below ``root``."""

    follows = True

    def __init__(self, root: Path, bucket: Bucket) -> None:
        super().__init__(root)
        self.bucket = bucket

    def exists(self, principal: UUID) -> bool:
        return super().exists(principal) or heads.exists(self.bucket, principal) is not None

    def erase(self, principal: UUID) -> bool:
        stored = list(self.bucket.names(heads.place(principal)))
        self.bucket.delete(stored)
        return super().erase(principal) or bool(stored)

    def _volume(self, path: Path, principal: UUID) -> Volume:
        return StoredVolume(path, principal, self._clock, self.bucket)

    def _identity(self, principal: UUID) -> str:
        found = heads.exists(self.bucket, principal)
        return found.volume if found else str(uuid4())


class StoredVolume(Volume):
    """One principal's volume, as this host has it."""

    _store: StoredPacks

    def __init__(self, path: Path, principal: UUID, clock: Callable[[], float], bucket: Bucket) -> None:
        self._bucket = bucket
        self._heads = Heads(bucket, principal, path / "snapshots")
        super().__init__(path, principal, clock)

    def _open_packs(self) -> PackStore:
        packs = StoredPacks(self._snapshots / "packs", self._bucket, self.principal)
        if self._heads.head is not None:
            packs.follow(self._heads.head.packs)
        return packs

    # As it is elsewhere

    def follow(self, generation: int, digest: str | None = None) -> None:
        marker = self.marker()
        if digest is not None and (marker.generation, marker.digest) == (generation, digest):
            return
        with self._locked():
            self._follow(generation)

    def refresh(self) -> None:
        self._heads.read()
        if self._heads.head is not None:
            self._store.follow(self._heads.head.packs)

    def bring(self, number: int) -> None:
        self._store.bring(self._root(number), contents=True)

    def _bring_trees(self, number: int) -> None:
        self._store.bring(self._root(number), contents=False)

    def _follow(self, generation: int) -> None:
        in_step = self._heads.read()
        head = self._heads.head
        if head is None:
            if generation:
                raise VolumeDamaged(f"{self._bucket.settings.url} holds nothing of the volume of {self.principal}")
            return
        if generation and generation not in head.generations:
            raise GenerationMissing(f"generation {generation} of {self.principal} is not in the object store")
        self._store.follow(head.packs)
        if in_step:
            return
        self._store.disown()
        if not generation:
            objects: dict[bytes, bytes] = {}
            self._lay_out_anew(trees.empty(partial(_note, objects), TOP, time.time_ns()), objects.__getitem__)
        elif not self._is_live(self._root(generation)):
            self.bring(generation)
            self._lay_out_anew(self._root(generation), self._store.read)
        digest = head.generations[generation] if generation else ""
        markers.write(self.path, replace(self.marker(), volume=head.volume, generation=generation, digest=digest))

    def _is_live(self, root: bytes) -> bool:
        """Whether what is in ``live`` is just that tree: read, and nothing written."""
        try:
            return self._capture(Hashing()).root == root
        except VolumeError:
            return False

    def _lay_out_anew(self, root: bytes, read: trees.Read) -> None:
        with naming_full_disk():
            self._swap_in(root, read)
        beneath.remove_path(self._restoring)
        (self._snapshots / "index").unlink(missing_ok=True)

    # Generations: those of the head, and what was made here after

    def numbers(self) -> set[int]:
        head = self._heads.head
        here = super().numbers()
        return here if head is None else {*head.generations, *(number for number in here if number > head.generation)}

    def generation_exists(self, number: int) -> bool:
        if number not in self.numbers():
            self.refresh()
        return number in self.numbers()

    def manifest(self, number: int) -> Generation:
        if not self.generation_exists(number):
            raise GenerationMissing(f"there is no generation {number}")
        digest = self._heads.head.generations.get(number) if self._heads.head else None
        with contextlib.suppress(GenerationMissing, ManifestCorrupt):
            found = super().manifest(number)
            if digest is None or found.digest == digest:
                return found
        if digest is None:
            return super().manifest(number)
        stored = self._bucket.get(self._manifest_name(number, digest))
        if stored is None:
            raise GenerationMissing(f"the manifest of generation {number} is not in the object store")
        found = manifests.read(stored[0], number)
        if found.digest != digest:
            raise ManifestCorrupt(f"the manifest of generation {number} in the object store is another's")
        write_durably(manifests.path(self._generations, number), stored[0])
        return found

    def _manifest_name(self, number: int, digest: str) -> str:
        return f"{heads.place(self.principal)}/generations/{number:010d}-{digest}.json"

    # Into the store

    def claim(self, right: str) -> None:
        with self._locked():
            epoch = int(right.rpartition(" ")[2])
            head = self._heads.head or Head(self.marker().volume, str(self.principal))
            if epoch < head.epoch:
                raise ClaimOutdated(head.epoch)
            self._right.claim(right)
            self._heads.write(replace(head, right=right, epoch=epoch))

    def hand_in(self, generation: Generation) -> None:
        if not generation.is_to_be_named:
            return
        with self._locked():
            head = self._claimed()
            packs = self._store.hand_in()
            manifest = manifests.path(self._generations, generation.number)
            self._bucket.put(self._manifest_name(generation.number, generation.digest), manifest)
            kept = {number: digest for number, digest in head.generations.items() if number < generation.number}
            kept[generation.number] = generation.digest
            self._heads.write(replace(head, generation=generation.number, generations=kept, packs=packs))
            self._store.follow(packs)

    def _take_up(self, root: bytes) -> None:
        self._store.bring(root, contents=True)
        named = trees.Named()
        named.add(self._store.read, root)
        with self._store.writer() as writer:
            # What is only in the cache may be nowhere else.
            for digest in named.trees | named.lists | named.chunks:
                if not self._store.keeps(digest):
                    writer.add(self._store.read(digest))

    def _claimed(self) -> Head:
        if self._heads.head is None:
            raise VolumeTaken(f"the volume of {self.principal} was never claimed; nothing was stored")
        return self._heads.head

    def _tidy(self) -> None:
        """Packs are joined in the store, when generations are dropped."""


def _note(objects: dict[bytes, bytes], data: bytes) -> bytes:
    digest = blake3(data).digest()
    objects[digest] = data
    return digest

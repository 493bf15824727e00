"""Volumes in an object store: the directory of each on this host is a cache of its last committed generation.

What is in ``live`` counts as long as nobody else has claimed the volume since; else it is laid out anew from the
generation that the database names, of which only what is not here is fetched. Promises that a generation is in the
store, whole, before ``hand_in`` returns, and that one who lost the right to the volume stores nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from blake3 import blake3

from workspace_store import beneath, heads, manifests, markers, trees
from workspace_store.beneath import Owner
from workspace_store.bucket import Bucket
from workspace_store.heads import Head, Heads
from workspace_store.manifests import Generation, GenerationMissing, ManifestCorrupt
from workspace_store.markers import VolumeDamaged
from workspace_store.packs import PackStore, PackWriter, VolumeError, naming_full_disk, write_durably
from workspace_store.snapshots import TOP, Hashing
from workspace_store.stored_packs import StoredPacks
from workspace_store.volume_rights import ClaimOutdated, VolumeTaken
from workspace_store.volumes import Volume, Volumes

_SMALL_BYTES = 8 << 20
_MANY_SMALL = 64
_WORTH = 0.7
_INCOMING_SECONDS = 86_400.0


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

    def open(self, principal: UUID, *, owner: Owner | None = None) -> StoredVolume:
        found = super().open(principal, owner=owner)
        assert isinstance(found, StoredVolume)
        return found

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
        self._followed: int | None = None
        super().__init__(path, principal, clock)

    def _open_packs(self) -> PackStore:
        kept = self._heads.head.packs if self._heads.head is not None else {}
        return StoredPacks(self._snapshots / "packs", self._bucket, self.principal, kept)

    # As it is elsewhere

    def follow(self, generation: int, digest: str | None = None) -> None:
        marker = self.marker()
        if digest is not None and (marker.generation, marker.digest) == (generation, digest):
            return
        with self._locked():
            self._follow(generation)

    def refresh(self) -> None:
        self._heads.look()
        if self._heads.head is not None:
            self._store.follow(self._heads.head.packs)

    def bring(self, number: int) -> None:
        self._store.bring(self._root(number), contents=True)

    def _bring_trees(self, number: int) -> None:
        self._store.bring(self._root(number), contents=False)

    def _follow(self, generation: int) -> None:
        self._followed = generation
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
        # Not before: who is cut off, or does not get all of it, has what was here before.
        self._heads.keep()

    @contextlib.contextmanager
    def resting(self, committed: int) -> Iterator[bool]:
        """Alone with the volume: whether all that is here is in the store and committed, or another has had it since.

        Raises VolumeError where that cannot be known now.
        """
        with self._locked():
            in_step = self._heads.look()
            head = self._heads.head
            if head is None:
                yield False
            elif not in_step:
                yield True
            else:
                stored = committed == head.generation > 0
                yield stored and self._is_live(self._root(committed))

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
        return heads.manifest_name(self.principal, number, digest)

    # Into the store

    def claim(self, right: str) -> None:
        with self._locked():
            epoch = int(right.rpartition(" ")[2])
            head = self._heads.head or Head(self.marker().volume, str(self.principal))
            if epoch < head.epoch:
                raise ClaimOutdated(head.epoch)
            self._right.claim(right)
            head = replace(head, right=right, epoch=epoch)
            if self._followed is not None:
                # What was handed in after it was never committed.
                kept = {number: digest for number, digest in head.generations.items() if number <= self._followed}
                head = replace(head, generation=self._followed, generations=kept)
            self._heads.write(head)
            (self._snapshots / "used").touch()

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

    def add_objects(self, make: Callable[[PackWriter, trees.Read], str]) -> str:
        """As said there; another host may be the one to take them up."""
        root = super().add_objects(make)
        for path in self._store.unstored():
            self._bucket.put(f"{self._incoming}/{root}/{path.name}", path)
        return root

    @property
    def _incoming(self) -> str:
        return f"{heads.place(self.principal)}/incoming"

    def _take_up(self, root: bytes) -> None:
        if not self._store.is_at_hand(root):
            for name in self._bucket.names(f"{self._incoming}/{root.hex()}"):
                self._store.adopt(name)
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

    def _drop(self, dropped: list[int], named: trees.Named) -> int:
        head = self._claimed()
        before = sum(head.packs.values())
        replaced = self._wasteful(head, named)
        with self._store.writer(replaced) as writer:
            for name in replaced:
                for row, frame in self._store.frames_of(name, named.__contains__):
                    writer.copy(row.hash, frame, row.raw)
        packs = {name: size for name, size in self._store.hand_in().items() if name not in replaced}
        kept = {number: digest for number, digest in head.generations.items() if number not in dropped}
        self._heads.write(replace(head, generations=kept, packs=packs))
        self._store.follow(packs)
        manifests.remove(self._generations, dropped)
        self._store.drop_here(replaced)
        self._store.drop_cache(named.__contains__)
        self._remove_strays()
        return before - sum(packs.values())

    def _wasteful(self, head: Head, named: trees.Named) -> list[str]:
        """Packs of which little is still named; and small ones, where they have become many."""
        small = [name for name, size in head.packs.items() if size < _SMALL_BYTES]
        found = {name for name in head.packs if self._store.share(name, named.__contains__) < _WORTH}
        return sorted(found | set(small if len(small) > _MANY_SMALL else ()))

    def _remove_strays(self) -> None:
        """Remove from the store what no head names. Listed first: what is listed while the head is still ours can be of
        nobody who claimed the volume later, and what others left there can never be named any more."""
        place = heads.place(self.principal)
        found = [*self._bucket.names(f"{place}/packs"), *self._bucket.names(f"{place}/generations")]
        found += self._bucket.names(f"{place}/incoming", older_than=_INCOMING_SECONDS)
        if not self._heads.look() or (head := self._heads.head) is None:
            raise VolumeTaken(f"the volume of {self.principal} has been claimed by another; nothing was removed")
        kept = {f"{place}/packs/{name}" for name in head.packs}
        kept |= {self._manifest_name(number, digest) for number, digest in head.generations.items()}
        self._bucket.delete([name for name in found if name not in kept])


def _note(objects: dict[bytes, bytes], data: bytes) -> bytes:
    digest = blake3(data).digest()
    objects[digest] = data
    return digest

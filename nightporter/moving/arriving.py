"""Arriving: a bundle is read whole, its hashes and signature checked, and taken in by one transaction or not at all.

Its files are laid beside their places first and named by the transaction that activates; a kill before it leaves nobody
here, and the same command again takes them in. Only a grant that this installation made, unused, for that person from
that installation, lets them in as themselves; any other copy is refused, or becomes a fork that says so.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from gateway.local.requests import is_user_name
from identity import moves, users
from identity.access import OWNER
from identity.administration import AdminRefused
from identity.luggage import Arrival
from identity.moves import MoveRefused
from identity.users import Claim
from nightporter import signing
from nightporter.moving import activating, in_bucket, tokens
from nightporter.moving.installation import Installation
from workspace_store import archives, bundles, liveness, schema
from workspace_store.blobs import DirectoryBlobs
from workspace_store.bucket import StoreUnavailable
from workspace_store.bundles import Bundle, BundleRefused, Content
from workspace_store.database import storable
from workspace_store.packs import VolumeError, sync_folder
from workspace_store.volumes import Volumes

STAGING, ASIDE = ".arriving-", ".left-"
ROOM_FACTOR = 2
"""Free space that is wanted, in sizes of the bundle: files are there twice, as a generation and to be worked with."""


@dataclass(frozen=True)
class Wanted:
    """How a bundle is to be taken in. ``fork``: the local name of a new person; None: as whoever it is.

    ``take``: identities that the person takes over from whoever has them here; ``leave``: those that stay with them.
    """

    file: Path
    fork: str | None = None
    take: Sequence[str] = ()
    leave: Sequence[str] = ()
    max_bytes: int = 100 << 30


@dataclass(frozen=True)
class Arrived:
    user: UUID
    was: UUID
    bundle: UUID
    source: str
    rows: Mapping[str, int]
    identities: Sequence[str]


@dataclass(frozen=True)
class Head:
    """What a bundle says of itself, as far as it can be: the rows have to fit it."""

    bundle: UUID
    user: UUID
    owners: tuple[UUID, ...]
    journals: tuple[tuple[int, str], ...]
    files: tuple[int | None, ...]
    """The generation of each who has files."""
    grant: str | None
    source: str
    place: str
    schema: str

    @staticmethod
    def of(bundle: Bundle) -> Head:
        """Raises MoveRefused."""
        given = bundle.head
        try:
            found = Head(
                UUID(hex=given["bundle"]), UUID(hex=given["user"]), tuple(UUID(hex=one) for one in given["owners"]),
                tuple((int(one["events"]), str(one["last"])) for one in given["journals"]),
                tuple(None if one is None else int(one["generation"]) for one in given["files"]),
                None if given["grant"] is None else str(given["grant"]), str(given["source"]["key"]),
                tokens.place_name(given["source"]["place"]), str(given["schema"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise MoveRefused("its manifest does not say what every bundle says") from error
        if found.source != bundle.public_key:
            raise MoveRefused("it was signed with another key than the one it names")
        if len({len(found.owners), len(found.journals), len(found.files)}) != 1 or found.user not in found.owners:
            raise MoveRefused("its manifest contradicts itself")
        if found.schema > schema.HEAD:
            raise MoveRefused(f"it is of a newer release (schema {found.schema}, here {schema.HEAD}); upgrade first")
        return found


def arrive(house: Installation, wanted: Wanted) -> Arrived:
    """Take a bundle in. Raises MoveRefused with everything as it was."""
    try:
        settle_leftovers(house)
        if not wanted.file.is_file():
            raise MoveRefused(f"{wanted.file} is no plain file: a bundle is read more than once")
        with wanted.file.open("rb") as file:
            bundle = bundles.check(file, signing.verifies, max_bytes=wanted.max_bytes)
            head = Head.of(bundle)
            arrival = _who(house, head, wanted)
            _check_identities(house, file, bundle, arrival, wanted)
            _check_room(house, wanted.file)
            with _alone(house, head.bundle), _staged(house, head.bundle) as staged:
                staged.fill(file, bundle, head, arrival)
                activation = activating.Activation(file, bundle, head, arrival, wanted)
                staged.swap()
                rows = house.database.write_now(activation.run)
                staged.keep()
    except OSError as error:
        raise MoveRefused(f"{wanted.file} cannot be taken in ({error.strerror or error})") from error
    except (BundleRefused, VolumeError, AdminRefused) as error:
        raise MoveRefused(str(error)) from error
    except SQLAlchemyError as error:
        raise MoveRefused(f"what it holds does not fit in here: {_first_line(error)}") from error
    user = arrival.names[head.user]
    known = house.database.read_now(lambda connection: users.identities(connection, user))
    return Arrived(user, head.user, head.bundle, head.place, rows, [one.name for one in known])


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0][:300]


def _who(house: Installation, head: Head, wanted: Wanted) -> Arrival:
    """Raises MoveRefused where they may not come in as that."""
    if wanted.fork is not None:
        if not is_user_name(wanted.fork) or wanted.fork == OWNER:
            raise MoveRefused(f"a fork is not named {wanted.fork!r}: write 1 to 64 letters, digits, '.', '_' or '-'")
        return Arrival({owner: uuid4() for owner in head.owners}, fork=uuid4())
    if head.grant is None:
        raise MoveRefused(
            "it is a copy that nobody granted: it can be brought in as a new person (--fork NAME), or exported again "
            f"with a grant: nightporter users grant {head.user} --from {head.source}"
        )
    grant = tokens.read_grant(head.grant)
    if grant.target != house.key:
        raise MoveRefused(f"it was granted to come to {grant.place}, whose key is {grant.target}, and not here")
    if (grant.user, grant.source) != (head.user, head.source):
        raise MoveRefused("its grant is somebody else's")
    arrival = Arrival({owner: owner for owner in head.owners})

    def query(connection: Connection) -> dict[UUID, tuple[int, int]]:
        moves.check_grant(connection, grant.id, head.user, head.source)
        return activating.epochs_of_returning(connection, head.owners)

    arrival.epochs = house.database.read_now(query)
    return arrival


def _check_identities(house: Installation, file: BinaryIO, bundle: Bundle, arrival: Arrival, wanted: Wanted) -> None:
    """Find the identities that are somebody else's here. Raises MoveRefused unless it was said what becomes of them."""
    if arrival.fork is not None:
        return
    member = bundle.members.get("rows/identity.jsonl")
    claims = [
        Claim(*(storable(str(row.get(name))) for name in ("channel", "account", "external_id")))
        for row in (bundles.lines(file, member) if member else ())
    ]

    def query(connection: Connection) -> tuple[frozenset[tuple[str, str, str]], list[tuple[str, str]]]:
        left, clashing = set(), []
        for claim in claims:
            known = users.identity_of(connection, claim)
            if known is None or known.user in arrival.names:
                continue
            if known.name in wanted.leave or known.external_id in wanted.leave:
                left.add(known.key)
            elif known.name not in wanted.take and known.external_id not in wanted.take:
                clashing.append((known.name, str(known.user)))
        return frozenset(left), clashing

    arrival.left_out, clashing = house.database.read_now(query)
    if clashing:
        whose = "; ".join(f"{name} is {user}'s here" for name, user in clashing)
        raise MoveRefused(
            f"{whose}. Say for each whether it becomes theirs "
            f"who come (--take {clashing[0][0]}) or stays (--leave {clashing[0][0]}); `users merge` can make the two "
            "one person afterwards"
        )


def _check_room(house: Installation, file: Path) -> None:
    for folder in (house.volumes, house.home):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if shutil.disk_usage(folder).free < file.stat().st_size * ROOM_FACTOR:
            raise MoveRefused(f"the disk of {folder} is too full for it")


@contextlib.contextmanager
def _alone(house: Installation, bundle: UUID) -> Iterator[None]:
    post = liveness.Post(house.lives.parent, f"arriving-{bundle.hex}")
    try:
        if not post.take():
            raise MoveRefused("it is being taken in just now")
        yield
    finally:
        post.leave()


# Files


@dataclass
class _Staged:
    """Volumes and blobs beside their places; ``swap`` puts them there, and leaving without ``keep`` takes them back."""

    house: Installation
    bundle: UUID
    _swapped: list[tuple[Path, Path]] = field(default_factory=list)
    _kept: bool = False

    def __enter__(self) -> _Staged:
        self._clean()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._kept:
            self._undo()
        self._clean()

    def _undo(self) -> None:
        for place, aside in reversed(self._swapped):
            shutil.rmtree(place, ignore_errors=True)
            if aside.exists():
                aside.rename(place)

    def _roots(self) -> tuple[Path, Path]:
        return self.house.volumes, self.house.blobs_folder

    def _clean(self) -> None:
        for root in self._roots():
            shutil.rmtree(root / f"{STAGING}{self.bundle.hex}", ignore_errors=True)
            aside = root / f"{ASIDE}{self.bundle.hex}"
            if self._kept:
                shutil.rmtree(aside, ignore_errors=True)
            elif aside.is_dir() and not any(aside.iterdir()):
                aside.rmdir()

    def fill(self, file: BinaryIO, bundle: Bundle, head: Head, arrival: Arrival) -> None:
        """Lay out all files. Raises BundleRefused, MoveRefused, VolumeError."""
        volumes = Volumes(self.house.volumes / f"{STAGING}{self.bundle.hex}")
        blobs = DirectoryBlobs(self.house.blobs_folder / f"{STAGING}{self.bundle.hex}")
        blobs.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in bundle.names("blobs"):
            _, number, digest = name.split("/")
            content = Content(file, bundle.members[name])
            kept = blobs.put_stream(arrival.names[_owner(head, int(number))], iter(partial(content.read, 1 << 20), b""))
            content.finish()
            if kept != digest:
                raise MoveRefused(f"blob {digest} is something else")
        found: dict[UUID, dict[str, Any]] = {}
        for name in bundle.names("volumes"):
            index = int(name.removeprefix("volumes/").removesuffix(".tar.zst"))
            owner = arrival.names[_owner(head, index)]
            found[owner] = _fill_volume(volumes, owner, Content(file, bundle.members[name]), head.files[index])
        wants = {arrival.names[o] for o, number in zip(head.owners, head.files, strict=True) if number is not None}
        if wants != found.keys():
            raise MoveRefused("it lacks files that it says it has")
        arrival.volumes = found

    def swap(self) -> None:
        for root in self._roots():
            staging, aside = root / f"{STAGING}{self.bundle.hex}", root / f"{ASIDE}{self.bundle.hex}"
            for fresh in sorted(staging.iterdir()) if staging.is_dir() else ():
                place = root / fresh.name
                if place.exists():
                    aside.mkdir(mode=0o700, exist_ok=True)
                    place.rename(aside / fresh.name)
                self._swapped.append((place, aside / fresh.name))
                fresh.rename(place)
            sync_folder(root)

    def keep(self) -> None:
        self._kept = True


class _StagedInBucket(_Staged):
    """The same with an object store: what is staged here is stored there."""

    @property
    def _record(self) -> Path:
        return self.house.volumes / f"{ASIDE}{self.bundle.hex}"

    def swap(self) -> None:
        volumes, blobs = (root / f"{STAGING}{self.bundle.hex}" for root in self._roots())
        in_bucket.store(self.house.storage.bucket, self.bundle, volumes, blobs, self._record)

    def _undo(self) -> None:
        if self._record.is_dir():
            in_bucket.undo(self.house.storage.bucket, self.bundle, self._record)
            shutil.rmtree(self._record)

    def keep(self) -> None:
        super().keep()
        # They have come, whatever the store says now: what it keeps of before names nothing, and goes with the volume.
        with contextlib.suppress(StoreUnavailable):
            in_bucket.settle(self.house.storage.bucket, self.bundle, self._record)


def _staged(house: Installation, bundle: UUID) -> _Staged:
    return (_StagedInBucket if house.storage.is_bucket else _Staged)(house, bundle)


def _owner(head: Head, index: int) -> UUID:
    if index >= len(head.owners):
        raise MoveRefused("it has files of somebody whom it does not name")
    return head.owners[index]


def _fill_volume(volumes: Volumes, owner: UUID, content: Content, number: int | None) -> dict[str, Any]:
    if number is None or not 0 < number < 1 << 62:
        raise MoveRefused("it has files of a generation that cannot be")
    with volumes.open(owner) as volume:
        root = archives.read(volume, content, max_bytes=archives.MAX_BYTES)  # type: ignore[arg-type]
        content.finish()
        made = volume.restore(0, as_generation=number, root=root, note=activating.NOTE)
        volume.verify(number)
        return {"volume": volume.marker().volume, "generation": number, "digest": made.digest}


def settle_leftovers(house: Installation) -> None:
    """What an import that was killed has left: files that were put aside go back where nobody came, or away."""
    for root in (house.volumes, house.blobs_folder):
        for aside in root.glob(f"{ASIDE}*") if root.is_dir() else ():
            bundle = UUID(hex=aside.name.removeprefix(ASIDE))
            with _alone(house, bundle):
                came = house.database.read_now(partial(moves.has_come, bundle=bundle))
                if house.storage.is_bucket:
                    (in_bucket.settle if came else in_bucket.undo)(house.storage.bucket, bundle, aside)
                    shutil.rmtree(aside, ignore_errors=True)
                    continue
                for old in [] if came else sorted(aside.iterdir()):
                    shutil.rmtree(root / old.name, ignore_errors=True)
                    old.rename(root / old.name)
                shutil.rmtree(aside, ignore_errors=True)
        for staging in root.glob(f"{STAGING}*") if root.is_dir() else ():
            with contextlib.suppress(MoveRefused), _alone(house, UUID(hex=staging.name.removeprefix(STAGING))):
                shutil.rmtree(staging, ignore_errors=True)

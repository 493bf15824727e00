"""Leaving: a person's everything as a signed bundle, after which nobody here acts for them.

The order is what keeps exactly one place alive, whenever this is killed: everything is written while their agent still
lives here, held still; then one transaction ends it here; only then is the bundle signed, and nothing unsigned is ever
taken in. Run again after a kill, it goes on: with the same grant it is the same departure and the same bundle.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from sqlalchemy import Connection

from identity import luggage, moves
from identity.moves import Departure, Mark, MoveRefused, NotQuiet
from identity.users import User
from nightporter import __version__, signing
from nightporter.moving import tokens
from nightporter.moving.installation import Installation
from nightporter.moving.tokens import Grant
from sandbox_runner import kept_state
from sandbox_runner.published import snapshot_of, write_checkpoint
from workspace_store import archives, bundles, inbox_counts, journal, liveness, outbox, principal, resting, schema
from workspace_store import tenancy as tenancies
from workspace_store.blobs import BlobCorrupt, BlobMissing
from workspace_store.bundles import BundleRefused, Writer
from workspace_store.database import DatabaseUnavailable, now_us
from workspace_store.journal import Event
from workspace_store.packs import VolumeError, sync_folder
from workspace_store.principal import Lease

LOOK_SECONDS = 0.2
REST_SECONDS = 10.0
PATIENT_SECONDS = 5.0
"""How long what could go out or be served here still is waited for; then it goes along."""
RENEW_SECONDS = 3.0
TRIES = 5
NOTE = "before moving"


@dataclass(frozen=True)
class Packed:
    """A bundle that was written."""

    file: Path
    bundle: UUID
    owners: Sequence[UUID]
    rows: Mapping[str, int]
    place: str = ""


def copy(house: Installation, user: User, file: Path) -> Packed:
    """Write a bundle that nobody granted: to keep, to look into, or for a fork. They go on living here."""
    owners = house.database.read_now(lambda connection: principal.scope(connection, user.id))
    with _draft(file) as draft:
        packed = Packing(house, user, owners, uuid4(), None).write(draft)
        _publish(packed, draft, file)
    return Packed(file, packed.bundle, owners, packed.rows)


def depart(house: Installation, user: User, file: Path, code: str, wait: float) -> Packed:
    """Let a person's agent leave by a grant of another installation. Raises MoveRefused with everything as it was."""
    grant = tokens.read_grant(code)
    _check(house, user, grant)
    owners = house.database.read_now(lambda connection: principal.scope(connection, user.id))
    gone = house.database.read_now(lambda connection: moves.last_departure(connection, user.id))
    if gone is not None:
        return _again(house, user, owners, file, grant, gone)
    leaving = Departure(uuid4(), user.id, code, grant.place, now_us())
    with _draft(file) as draft, _held(house, owners, wait) as leases:
        for attempt in range(TRIES):
            packed = Packing(house, user, owners, leaving.id, code).write(draft)
            try:
                house.database.write_now(partial(moves.leave, leases=leases, seen=packed.seen, leaving=leaving))
                break
            except NotQuiet as error:
                if attempt == TRIES - 1:
                    raise MoveRefused(f"they are not left in peace: {error}; try again later") from error
        try:
            _publish(packed, draft, file)
        except OSError as error:
            raise MoveRefused(f"they have left, but {file} cannot be written ({error}): run the same again") from error
    return Packed(file, leaving.id, owners, packed.rows, grant.place)


def _check(house: Installation, user: User, grant: Grant) -> None:
    if grant.user != user.id:
        raise MoveRefused(f"that grant is for {grant.user}, not for {user.id}")
    if grant.source != house.key:
        raise MoveRefused(f"that grant is for another installation than this one, whose key is {house.key}")
    if grant.target == house.key:
        raise MoveRefused("that grant was made here, where they live already")
    if grant.until <= now_us() and user.moved_to is None:
        raise MoveRefused("that grant has run out; have another one made")
    if user.merged_into is not None:
        raise MoveRefused(f"they are merged into {user.merged_into}; move that one, or unmerge them first")
    if user.blocked and user.moved_to is None:
        raise MoveRefused("they are blocked; unblock them first")


def _again(
    house: Installation, user: User, owners: Sequence[UUID], file: Path, grant: Grant, gone: Departure
) -> Packed:
    """Whoever left by this grant has a bundle, or is given it once more: it opens one door, once."""
    if tokens.read_grant(gone.grant).id != grant.id:
        raise MoveRefused(f"they have left for {gone.place} already")
    if file.exists():
        with file.open("rb") as there, contextlib.suppress(BundleRefused):
            if bundles.check(there, signing.verifies, max_bytes=1 << 62).head.get("bundle") == gone.id.hex:
                return Packed(file, gone.id, owners, {}, gone.place)
    with _draft(file) as draft:
        packed = Packing(house, user, owners, gone.id, gone.grant).write(draft)
        _publish(packed, draft, file)
    return Packed(file, gone.id, owners, packed.rows, gone.place)


# Held still


@contextlib.contextmanager
def _held(house: Installation, owners: Sequence[UUID], wait: float) -> Iterator[list[Lease]]:
    """Their leases, once no turn and no sandbox of theirs is left; given back at the end, unless they left.

    Whoever dies with them in hand is seen to be dead, and everything goes on as before. Raises MoveRefused.
    """
    life = liveness.Life(house.lives, "mover", house.place)
    try:
        leases = _hold(house, owners, life.id, wait)
        try:
            with _renewed(house, life.id):
                for lease in leases:
                    _save(house, lease)
                yield leases
        finally:
            house.database.write_now(partial(_release, leases=leases))
    finally:
        life.end()


def _hold(house: Installation, owners: Sequence[UUID], holder: str, wait: float) -> list[Lease]:
    began = time.monotonic()
    rested = 0.0
    while True:
        waited = time.monotonic() - began
        if not rested or time.monotonic() - rested > REST_SECONDS / 2:
            house.database.write_now(partial(resting.rest, identifiers=owners, seconds=REST_SECONDS))
            rested = time.monotonic()
        try:
            take = partial(
                _take, house=house, owners=owners, holder=holder, patient=waited < min(wait, PATIENT_SECONDS)
            )
            return house.database.write_now(take)
        except NotQuiet as error:
            if waited > wait:
                house.database.write_now(partial(resting.rest, identifiers=owners, seconds=0))
                raise MoveRefused(f"{error}, for {wait:.0f} s now; stop it (/stop), or wait longer (--wait)") from error
        time.sleep(LOOK_SECONDS)


def _take(
    connection: Connection, house: Installation, owners: Sequence[UUID], holder: str, patient: bool
) -> list[Lease]:
    leases = []
    for owner in sorted(owners):
        seen, held = principal.look(connection, owner), tenancies.look(connection, owner)
        if seen is None or not _is_free(house, seen.owner, expired=seen.expired):
            raise NotQuiet("a turn of theirs is running")
        if not _is_free(house, held.host, expired=held.expired):
            raise NotQuiet("their sandbox is awake")
        if patient and (inbox_counts.waiting(connection, owner) or outbox.waits(connection, owner)):
            raise NotQuiet("something of theirs is still to be served or sent")
        lease = principal.take(connection, owner, holder, seen)
        if lease is None:
            raise NotQuiet("a turn of theirs has just begun")
        leases.append(lease)
    moves.check_quiet(connection, owners)
    return leases


def _is_free(house: Installation, holder: str | None, *, expired: bool) -> bool:
    return holder is None or liveness.is_dead(house.lives, holder, expired=expired)


@contextlib.contextmanager
def _renewed(house: Installation, holder: str) -> Iterator[None]:
    """For hosts with another home, who see only that a lease has not ended."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(RENEW_SECONDS):
            with contextlib.suppress(DatabaseUnavailable):
                house.database.write_now(lambda connection: principal.renew_leases(connection, holder))

    thread = threading.Thread(target=renew, name="leases", daemon=True)
    if not house.database.is_sqlite:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def _release(connection: Connection, leases: Sequence[Lease]) -> None:
    for lease in leases:
        principal.abandon(connection, lease)
    resting.rest(connection, [lease.principal for lease in leases], 0)


def _save(house: Installation, lease: Lease) -> None:
    """Make a generation of what a sandbox left that was cut off: its files are what counts."""
    held = house.database.read_now(lambda connection: tenancies.look(connection, lease.principal))
    if held.host is None:
        return
    tenancy = house.database.write_now(
        lambda connection: tenancies.take(connection, lease.principal, lease.owner, held)
    )
    if tenancy is None:
        raise MoveRefused("their sandbox has just been woken; try again")
    held = house.database.read_now(lambda connection: tenancies.look(connection, lease.principal))
    try:
        if held.volume_id is not None:
            _publish_generation(house, lease, tenancy, held)
    finally:
        house.database.write_now(lambda connection: tenancies.release(connection, tenancy))


def _publish_generation(house: Installation, lease: Lease, tenancy: tenancies.Tenancy, held: tenancies.Tenant) -> None:
    with house.storage.volumes().open(lease.principal) as volume:
        volume.follow(held.generation)
        volume.claim(f"{tenancy.host} {tenancy.epoch}")
        volume.discard_after(held.generation)
        published = volume.snapshot(held.generation, note=NOTE)
        volume.hand_in(published)
        seen = kept_state.see(volume, held, published.number)
    snapshot = snapshot_of(tenancy, published, NOTE, seen)

    def transaction(connection: Connection) -> None:
        body: dict[str, Any] = {"state_digest": seen.digest, "files_changed": snapshot.changed, "notes": []}
        seq = journal.append(connection, lease.principal, [Event("sandbox.slept", body)], under=lease)
        write_checkpoint(connection, lease.principal, seq, None, snapshot)

    house.database.write_now(transaction)


# Packed


class Packing:
    """One bundle. ``write`` may be called again; ``seal`` makes it one that is believed."""

    def __init__(
        self, house: Installation, user: User, owners: Sequence[UUID], bundle: UUID, grant: str | None
    ) -> None:
        self.house, self.user, self.owners, self.bundle, self.grant = house, user, owners, bundle, grant
        self.rows: dict[str, int] = {}
        self.seen: dict[UUID, Mark] = {}
        self._head: dict[str, Any] = {}
        self._writer: Writer | None = None

    def write(self, draft: BinaryIO) -> Packing:
        """Write everything from the beginning. Raises MoveRefused where something of theirs is damaged."""
        draft.seek(0)
        draft.truncate()
        self._writer = Writer(draft)
        try:
            self.house.database.read_now(self._write_rows)
            files = [self._write_files(number, owner) for number, owner in enumerate(self.owners)]
        except (VolumeError, BlobCorrupt, BlobMissing) as error:
            raise MoveRefused(f"something of theirs is damaged, and nothing was packed: {error}") from error
        self._head |= {"files": files}
        _to_disk(draft)
        return self

    def seal(self) -> None:
        assert self._writer is not None
        self._writer.finish(self._head, lambda text: signing.sign(self.house.home, text))

    def _write_rows(self, connection: Connection) -> None:
        assert self._writer is not None
        self.seen = moves.mark(connection, self.owners)
        self.rows = {}
        for name, rows in luggage.pack(connection, self.owners):
            with self._writer.member(f"rows/{name}.jsonl") as into:
                self.rows[name] = sum(1 for row in rows if into.write(_line(row)))
        self._head = {
            "bundle": self.bundle.hex, "made_at": time.time(), "release": __version__, "schema": schema.HEAD,
            "user": self.user.id.hex, "owners": [owner.hex for owner in self.owners], "grant": self.grant,
            "source": {"key": self.house.key, "place": self.house.place},
            "journals": [
                {"events": self.seen[owner].head_seq, "last": self.seen[owner].head_hash} for owner in self.owners
            ],
        }  # fmt: skip

    def _write_files(self, number: int, owner: UUID) -> dict[str, Any] | None:
        assert self._writer is not None
        for blob in sorted(self.house.blobs.hashes(owner)):
            self._writer.add(f"blobs/{number}/{blob}", self.house.blobs.get_stream(owner, blob))
        generation, volumes = self.seen[owner].generation, self.house.storage.volumes()
        if not generation:
            return None
        if not volumes.exists(owner):
            raise MoveRefused(f"the files of {owner} are not in {self.house.volumes}")
        with volumes.open(owner) as volume, self._writer.member(f"volumes/{number}.tar.zst") as into:
            volume.refresh()
            archives.write(volume, generation, into)
            made = volume.manifest(generation)
        return {"generation": generation, "files": made.files, "bytes": made.bytes}


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


# Its file


@contextlib.contextmanager
def _draft(file: Path) -> Iterator[BinaryIO]:
    """A file beside the wanted one, which nobody else can read; gone at the end. Raises MoveRefused."""
    if file.exists():
        raise MoveRefused(f"{file} exists; name another file")
    path = _draft_of(file)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "r+b") as draft:
            fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                yield draft
            finally:
                path.unlink(missing_ok=True)
    except BlockingIOError as error:
        raise MoveRefused(f"somebody else is writing {file}") from error
    except OSError as error:
        raise MoveRefused(f"{file} cannot be written ({error.strerror or error})") from error


def _draft_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.part")


def _publish(packed: Packing, draft: BinaryIO, file: Path) -> None:
    """Seal a bundle and give it its name; what somebody put there meanwhile is not lost. Raises OSError."""
    packed.seal()
    _to_disk(draft)
    os.link(_draft_of(file), file)
    sync_folder(file.parent)


def _to_disk(draft: BinaryIO) -> None:
    draft.flush()
    os.fsync(draft.fileno())


def come_back(house: Installation, user: User, proof: str) -> None:
    """Somebody who left lives here again: the place they were to go to has proven that they never came."""
    gone = house.database.read_now(lambda connection: moves.last_departure(connection, user.id))
    if gone is None:
        raise MoveRefused("they have not left")
    grant, (unused, target) = tokens.read_grant(gone.grant), tokens.read_unused(proof)
    if (unused, target) != (grant.id, grant.target):
        raise MoveRefused(f"that says nothing of the grant by which they left for {gone.place}")

    def transaction(connection: Connection) -> None:
        again = moves.last_departure(connection, user.id)
        if again != gone:
            raise MoveRefused("they have come back already")
        moves.come_back(connection, gone, principal.scope(connection, user.id))

    house.database.write_now(transaction)

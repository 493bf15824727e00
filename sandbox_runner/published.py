"""A published generation on its way into the database: named by the transaction that relies on it, or never."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from workspace_store import checkpoints
from workspace_store import tenancy as tenancies
from workspace_store.checkpoints import Checkpoint, CommittedGeneration
from workspace_store.database import now_us
from workspace_store.tenancy import Tenancy


@dataclass(frozen=True)
class Snapshot:
    """A generation that is on the disk, and the tenancy it was taken under. ``changed``: files since the last one."""

    generation: int
    manifest_digest: str
    state_digest: str | None
    note: str
    files: int
    bytes: int
    changed: int
    moving: bool
    tenancy: Tenancy
    visible: int | None = None
    restored_from: int | None = None


def write_checkpoint(
    connection: Connection, owner: UUID, seq: int, turn: UUID | None, snapshot: Snapshot | None
) -> int:
    """A checkpoint at journal ``seq``; the generation it names: the snapshot's, or the one before if nothing changed.

    Raises StaleTenancy where the snapshot was taken under a tenancy that has ended.
    """
    held = tenancies.look(connection, owner)
    before = checkpoints.latest(connection, owner)
    number = held.generation
    digest, state = (before.manifest_digest, before.state_digest) if before else (None, None)
    if snapshot is not None and (snapshot.changed or snapshot.restored_from is not None):
        number, digest, state = snapshot.generation, snapshot.manifest_digest, snapshot.state_digest
        tenancies.commit_generation(connection, owner, snapshot.tenancy, number)
        checkpoints.write_generation(connection, owner, _committed(snapshot, turn))
    turn = turn or (before.turn if before else None)
    checkpoints.write(connection, owner, Checkpoint(seq, turn, number, held.volume_id, digest, state, now_us()))
    return number


def _committed(snapshot: Snapshot, turn: UUID | None) -> CommittedGeneration:
    return CommittedGeneration(
        snapshot.generation, snapshot.manifest_digest, turn, snapshot.note, snapshot.files, snapshot.bytes,
        snapshot.changed, snapshot.moving, now_us(), snapshot.visible, snapshot.restored_from,
    )  # fmt: skip

"""A published generation on its way into the database: named by the transaction that relies on it, or never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from sandbox_runner.kept_state import Seen
from workspace_store import checkpoints, journal
from workspace_store import tenancy as tenancies
from workspace_store.checkpoints import Checkpoint, CommittedGeneration
from workspace_store.database import now_us
from workspace_store.journal import Event
from workspace_store.manifests import Generation
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
    merged: tuple[Snapshot, ...] = ()
    """Of the volumes of those who were merged into this principal, where they changed."""
    visible: int | None = None
    """Of ``changed``, those outside the agent's own folder."""
    restored_from: int | None = None
    state_number: int = 0
    state_pin: str | None = None
    """Number and SHA-256 of the process state in it, where that is authentic."""

    def to_json(self) -> dict[str, Any]:
        tenancy = {"principal": self.tenancy.principal.hex, "host": self.tenancy.host, "epoch": self.tenancy.epoch}
        return {**self.__dict__, "tenancy": tenancy, "merged": [one.to_json() for one in self.merged]}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Snapshot:
        given = found["tenancy"]
        tenancy = Tenancy(UUID(given["principal"]), given["host"], given["epoch"])
        merged = tuple(Snapshot.from_json(one) for one in found["merged"])
        return Snapshot(**{**found, "tenancy": tenancy, "merged": merged})


def snapshot_of(tenancy: Tenancy, published: Generation, note: str, seen: Seen) -> Snapshot:
    return Snapshot(
        published.number, published.digest, seen.digest, note, published.files, published.bytes, published.changed,
        published.moving, tenancy, (), published.visible, published.restored_from, seen.number, seen.pin,
    )  # fmt: skip


def write_annexes(connection: Connection, snapshot: Snapshot | None) -> None:
    """Commit the generations of merged volumes, each in its own principal's journal, under its own tenancy."""
    for one in snapshot.merged if snapshot is not None else ():
        event = Event("checkpoint.committed", {"generation": one.generation, "status": "done"})
        seq = journal.append(connection, one.tenancy.principal, [event], under=one.tenancy)
        write_checkpoint(connection, one.tenancy.principal, seq, None, one)


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
        tenancies.commit_generation(
            connection, owner, snapshot.tenancy, number, state=snapshot.state_number, pin=snapshot.state_pin
        )
        checkpoints.write_generation(connection, owner, _committed(snapshot, turn))
    turn = turn or (before.turn if before else None)
    checkpoints.write(connection, owner, Checkpoint(seq, turn, number, held.volume_id, digest, state, now_us()))
    return number


def _committed(snapshot: Snapshot, turn: UUID | None) -> CommittedGeneration:
    return CommittedGeneration(
        snapshot.generation, snapshot.manifest_digest, turn, snapshot.note, snapshot.files, snapshot.bytes,
        snapshot.changed, snapshot.moving, now_us(), snapshot.visible, snapshot.restored_from,
    )  # fmt: skip

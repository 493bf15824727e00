"""The transaction in which somebody comes to live here: the grant is used, and every row is there, or nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO
from uuid import UUID

from sqlalchemy import Connection, select

from identity import administration, luggage, moves, users
from identity.luggage import Arrival
from identity.moves import MoveRefused
from identity.users import Claim
from nightporter.moving import soundness, tokens
from workspace_store import bundles, checkpoints, effects, journal, principal
from workspace_store.bundles import Bundle
from workspace_store.checkpoints import Checkpoint
from workspace_store.database import now_us
from workspace_store.journal import Event
from workspace_store.principal import principal as principals

if TYPE_CHECKING:
    from nightporter.moving.arriving import Head, Wanted

NOTE = "as it arrived"
NO_FILES: tuple[int, str | None, str | None] = (0, None, None)
NOBODY_SAW = "their agent moved before its end was seen"


def epochs_of_returning(connection: Connection, owners: Sequence[UUID]) -> dict[UUID, tuple[int, int]]:
    """Epochs of lease and tenancy of those who lived here once. Raises MoveRefused where one lives here still."""
    columns = (principals.c.id, principals.c.epoch, principals.c.sandbox_epoch, principals.c.away)
    rows = connection.execute(select(*columns).where(principals.c.id.in_(owners))).all()
    for row in rows:
        if not row.away:
            raise MoveRefused(f"{row.id} lives here already, or was forgotten here")
    return {row.id: (int(row.epoch), int(row.sandbox_epoch)) for row in rows}


@dataclass
class Activation:
    """Of a bundle whose files are laid out already."""

    file: BinaryIO
    bundle: Bundle
    head: Head
    arrival: Arrival
    wanted: Wanted

    def run(self, connection: Connection) -> dict[str, int]:
        """Rows taken in, by table. Raises MoveRefused, and what the database says of rows that do not fit."""
        head, arrival = self.head, self.arrival
        if arrival.fork is None:
            grant = tokens.read_grant(head.grant or "")
            moves.use_grant(connection, grant.id, head.user, head.source, head.bundle)
            if epochs_of_returning(connection, head.owners) != dict(arrival.epochs):
                raise MoveRefused("they came or went meanwhile; try again")
            for name in self.wanted.take:
                if users.identity_named(connection, name) is not None:
                    administration.unlink(connection, name, None)
            luggage.clear(connection, list(arrival.epochs))
        rows = self._rows(connection)
        self._check(connection)
        soundness.settle_places(connection, arrival.owners, fork=arrival.fork is not None)
        for owner in arrival.owners:
            # What was under way outside, nobody will ever see the end of: it is told, and never done again.
            for left in effects.unfinished_of(connection, owner):
                effects.give_up(connection, left, NOBODY_SAW)
        luggage.make_findable(connection, arrival.owners)
        self._tell(connection)
        return rows

    def _rows(self, connection: Connection) -> dict[str, int]:
        counts, tables = {}, luggage.goes()
        for found in tables:
            member = self.bundle.members.get(f"rows/{found.name}.jsonl")
            if member is not None:
                lines = bundles.lines(self.file, member)
                counts[found.name] = luggage.unpack(connection, found, lines, self.arrival)
        known = {f"rows/{found.name}.jsonl" for found in tables}
        if strange := [name for name in self.bundle.names("rows") if name not in known]:
            raise MoveRefused(f"it has {', '.join(strange)}, which this release does not know; use a newer one")
        return counts

    def _check(self, connection: Connection) -> None:
        """Every chain verifies, with what was here of it already, and ends where the bundle says."""
        arrived = set(
            connection.execute(select(principals.c.id).where(principals.c.id.in_(self.arrival.owners))).scalars()
        )
        missing = [owner for owner in self.arrival.owners if owner not in arrived]
        missing += [owner for owner in self.arrival.owners if users.get(connection, owner) is None]
        if missing:
            raise MoveRefused(f"it names {missing[0]}, and brings nothing of theirs")
        for was, (events, last) in zip(self.head.owners, self.head.journals, strict=True):
            owner = self.arrival.names[was]
            if journal.head(connection, owner) != (events, last):
                raise MoveRefused("a journal in it ends elsewhere than its manifest says")
            _, faults = journal.verify(connection, owner)
            if faults:
                raise MoveRefused(f"a journal in it does not verify: event {faults[0].seq} {faults[0].what}")
        user = self.arrival.names[self.head.user]
        if principal.root(connection, user) != user:
            raise MoveRefused("it is about somebody who was merged into another")
        soundness.check(connection, user, self.arrival.owners)

    def _tell(self, connection: Connection) -> None:
        head, arrival = self.head, self.arrival
        told = {"bundle": head.bundle.hex, "from": head.place, "key": head.source}
        for was, owner in arrival.names.items():
            kind, body = ("agent.arrived", told) if arrival.fork is None else ("agent.forked", {**told, "of": was.hex})
            seq = journal.append(connection, owner, [Event(kind, body)], under=None)
            self._checkpoint(connection, owner, seq)
            users.record(connection, None, owner, "user.arrived" if arrival.fork is None else "user.forked", body)
        if arrival.fork is not None and self.wanted.fork is not None:
            claim = Claim("local", "", self.wanted.fork, "", "admin")
            if users.identity_of(connection, claim) is not None:
                raise MoveRefused(f"local:{self.wanted.fork} is somebody here already; give the fork another name")
            users.add_identity(connection, arrival.names[head.user], claim)

    def _checkpoint(self, connection: Connection, owner: UUID, seq: int) -> None:
        before, here = checkpoints.latest(connection, owner), self.arrival.volumes.get(owner)
        if before is not None:
            generation, volume, digest = (
                (here[name] for name in ("generation", "volume", "digest")) if here else NO_FILES
            )
            found = Checkpoint(seq, before.turn, generation, volume, digest, before.state_digest, now_us())
            checkpoints.write(connection, owner, found)

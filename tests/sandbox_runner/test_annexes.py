"""Giving back what a sandbox has shown of others: trouble with one volume, or with the database, keeps no other."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from sandbox_runner.annexes import Annexes
from sandbox_runner.seats import Annex, Seating
from sandbox_runner.uids import HostUids
from tests.workspace_store.people import person
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.liveness import Life
from workspace_store.volumes import Volumes


class Away:
    is_sqlite = True

    async def write(self, transaction: Any) -> Any:
        raise DatabaseUnavailable("away")


async def test_every_annex_is_given_back(sqlite: Database, tmp_path: Path) -> None:
    life = Life(tmp_path / "lives", "sandbox-manager", "here")
    seating = Seating(life.id, sqlite, Volumes(tmp_path / "volumes"), tmp_path / "lives", HostUids.of(tmp_path))
    annexes = Annexes(seating)
    seat = await seating.take(person(sqlite))
    absorbed = [person(sqlite) for _ in range(3)]
    for number, owner in enumerate(absorbed):
        lent = await seating.take(owner)
        annexes.held[owner] = seat.principal
        seat.annexes.append(Annex(lent, f"folder-{number}"))
    shutil.rmtree(seat.annexes[1].seat.volume.workspace)
    away: Any = Away()
    seating.database = away
    await annexes.give_back(seat)
    assert not seat.annexes
    assert not annexes.held
    seating.database = sqlite

    def hosts() -> set[str | None]:
        return {sqlite.read_now(partial(tenancies.look, identifier=owner)).host for owner in absorbed}

    assert hosts() == {life.id}
    again = await seating.take(absorbed[0])
    await seating.release_owed()
    assert hosts() == {life.id, None}, "what was taken anew meanwhile stays taken"
    await seating.give_back(again)
    assert hosts() == {None}
    await seating.give_back(seat)
    life.end()

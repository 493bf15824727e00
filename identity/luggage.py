"""What goes along when a person moves, row by row, and how it is taken in: as theirs, or as a fork's with new ids.

Rows are JSON objects by column name. Nothing of a file is believed for its place in it: each value has to be of its
column's type, each row has to be of whom the bundle is about, and what belongs to a host (leases, sandboxes, keys of
seals, who claims what) stays where it was.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

import sqlalchemy
import zstandard
from sqlalchemy import Column, Connection, Table, delete, func, select, update

from identity import forgetting, users
from identity.moves import LEFT, MoveRefused
from workspace_store import journal, memory, memory_index
from workspace_store.database import now_us, storable
from workspace_store.imported import imported
from workspace_store.memory_sessions import QUIET_SECONDS
from workspace_store.principal import principal as principals

BATCH = 500
COLD_BYTES = 256 << 20
COUNT_BITS = 60
"""What counts up here has to have room for that."""
FLOAT_MOST = 1e300
"""No infinity, no NaN (which is not less), and no whole number that is no float."""
OWNER: Mapping[str, str] = {"principal": "id", "user_account": "id", "identity": "user", "identity_event": "user",
                            "merge": "kept"}  # fmt: skip
"""The column that says whose a row is; ``principal`` in every other table."""
STAYS: Mapping[str, str] = {
    "context_head": "put together anew", "memory_entry": "made anew of the words", "memory_vector": "made anew",
    "link_code": "lasts minutes", "code_guess": "of senders", "pairing": "of strangers", "room": "of nobody alone",
    "hook_delivery": "of hooks of this house", "mailbox": "of the house", "reader": "of the house",
    "receipt": "of the house", "move_grant": "of the house", "departure": "of the house",
}  # fmt: skip
"""Tables that do not go along, and why."""
OTHERS = ("asked", *forgetting.DONE_BY)
"""Columns that may name somebody who does not come along."""
HOSTS: Mapping[str, Mapping[str, Any]] = {
    "principal": {
        "owner": None, "lease_until": 0, "rung_at": 0, "sandbox_host": None, "sandbox_until": 0, "volume_id": None,
        "host_uid": None, "state_key": None, "closed": False, "away": False, "rest_until": 0,
    },
    "user_account": {"blocked": False, "moved_to": None},
    "outbox": {"claimed_by": None, "claim_until": 0, "next_at": 0},
    "attachment": {"claimed_by": None, "claim_until": 0, "next_at": 0},
    "turn_record": {"searchable": False},
}  # fmt: skip
"""What every row that comes in has instead of what it had."""
PAUSED = "copied with a fork: resume it if it is wanted here as well"


def goes() -> list[Table]:
    """Every table that goes along, those first that others point to."""
    return [found for found in forgetting.all_tables() if found.name not in STAYS]


def owner_column(found: Table) -> Column[Any]:
    return found.c[OWNER.get(found.name, "principal")]


# Out


def pack(connection: Connection, owners: Sequence[UUID]) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """(table, its rows) of all that goes along; each row's open work as it was before they left."""
    for found in goes():
        yield found.name, _rows(connection, found, owners)


def _rows(connection: Connection, found: Table, owners: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    query = select(found).where(owner_column(found).in_(owners)).order_by(*found.primary_key.columns)
    if found.name == "merge":
        query = query.where(found.c.absorbed.in_(owners))
    if found.name == "generation":
        query = query.join(principals, principals.c.id == found.c.principal).where(
            found.c.generation == principals.c.generation
        )
    for row in connection.execute(query, execution_options={"yield_per": BATCH}):
        given = {**row._mapping, **HOSTS.get(found.name, {})}
        for name in OTHERS:
            if name in given and given[name] not in owners:
                given[name] = None if found.c[name].nullable else given["principal"]
        if isinstance(given.get("status"), str):
            given["status"] = given["status"].removeprefix(LEFT)
        yield {name: _plain(value) for name, value in given.items()}


def _plain(value: object) -> object:
    if isinstance(value, UUID):
        return value.hex
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


# In


@dataclass
class Arrival:
    """Who comes. ``names``: the UUID each has here, their own unless it is a fork. ``left_out``: identities that stay
    somebody else's here. ``volumes``: of each who has files, the generation they are here."""

    names: Mapping[UUID, UUID]
    fork: UUID | None = None
    left_out: frozenset[tuple[str, str, str]] = frozenset()
    volumes: Mapping[UUID, Mapping[str, Any]] = field(default_factory=dict)
    epochs: Mapping[UUID, tuple[int, int]] = field(default_factory=dict)
    """Of those who come back: the epochs of lease and tenancy that were here."""

    @property
    def owners(self) -> list[UUID]:
        return list(self.names.values())


def unpack(connection: Connection, found: Table, rows: Iterable[Mapping[str, Any]], arrival: Arrival) -> int:
    """Take the rows of one table in; how many. Raises MoveRefused; the caller's transaction is to be rolled back."""
    taken = (row for row in (_taken(found, _read(found, row), arrival) for row in rows) if row is not None)
    if found.name == "journal_event":
        there = _links(connection, arrival)
        taken = (row for row in taken if row["seq"] > there.get(row["principal"], 0))
    count = 0
    # Rows that are inserted at once all name the same columns.
    while batch := list(islice(taken, BATCH)):
        count += len(batch)
        if found.name == "principal":
            for row in batch:
                _principal(connection, row, known=row["id"] in arrival.epochs)
        else:
            connection.execute(found.insert(), batch)
    return count


def _links(connection: Connection, arrival: Arrival) -> dict[UUID, int]:
    """How many links of the journal of each who comes back are here."""
    whose = journal.event.c.principal
    query = select(whose, func.count()).where(whose.in_(arrival.owners)).group_by(whose)
    return {row[0]: int(row[1]) for row in connection.execute(query)}


def _principal(connection: Connection, row: Mapping[str, Any], *, known: bool) -> None:
    if known:
        connection.execute(update(principals).where(principals.c.id == row["id"]).values(**row))
    else:
        connection.execute(principals.insert(), dict(row))


def _read(found: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with values of the types of its columns. Raises MoveRefused."""
    for name in row:
        if name not in found.c:
            raise MoveRefused(f"it has a {found.name} with {name}, which this release does not know; use a newer one")
    values: dict[str, Any] = {}
    for column in found.columns:
        if column.name in row:
            values[column.name] = _value(found, column, row[column.name])
        elif not column.nullable and column.server_default is None and column is not found.autoincrement_column:
            raise MoveRefused(f"it has a {found.name} without {column.name}")
    return values


def _value(found: Table, column: Column[Any], value: object) -> Any:
    if value is None:
        if not column.nullable:
            raise MoveRefused(f"it has a {found.name} without {column.name}")
        return None
    kind = column.type.impl_instance if isinstance(column.type, sqlalchemy.TypeDecorator) else column.type
    if isinstance(kind, sqlalchemy.Uuid) and isinstance(value, str):
        try:
            return UUID(hex=value)
        except ValueError:
            pass
    elif isinstance(kind, sqlalchemy.LargeBinary) and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            pass
    elif isinstance(kind, sqlalchemy.Boolean):
        if isinstance(value, bool):
            return value
    elif isinstance(kind, sqlalchemy.Integer):
        # What SQLite took for a yes or no in a column of numbers is none.
        most = 63 if isinstance(kind, sqlalchemy.BigInteger) or column is found.autoincrement_column else 31
        if isinstance(value, int) and not isinstance(value, bool) and -(1 << most) <= value < 1 << most:
            return value
    elif isinstance(kind, sqlalchemy.Float):
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < FLOAT_MOST:
            return float(value)
    elif isinstance(kind, sqlalchemy.String) and isinstance(value, str) and storable(value) == value:
        return value
    raise MoveRefused(f"it has a {found.name} whose {column.name} cannot be {str(value)[:60]!r}")


def _taken(found: Table, row: dict[str, Any], arrival: Arrival) -> dict[str, Any] | None:
    """A row as it is here; None: it does not come along. Raises MoveRefused where it is somebody else's."""
    columns = [name for name in (*forgetting.OWNED_BY, "merged_into") if isinstance(row.get(name), UUID)]
    for name in {*columns, OWNER.get(found.name, "principal")}:
        if row.get(name) not in arrival.names:
            raise MoveRefused(f"it has a {found.name} of {row.get(name)}, whom it is not about")
    for name in forgetting.DONE_BY:
        if row.get(name) is not None and row[name] not in arrival.names:
            raise MoveRefused(f"it has a {found.name} that was done by {row[name]}, whom it is not about")
    if found.name == "identity" and (row["channel"], row["account"], row["external_id"]) in arrival.left_out:
        return None
    row |= HOSTS.get(found.name, {})
    if found.autoincrement_column is not None:
        row.pop(found.autoincrement_column.name, None)
    if arrival.fork is not None and not _forked(found, row, arrival.fork):
        return None
    for column in found.columns:
        value = row.get(column.name)
        if isinstance(value, UUID):
            row[column.name] = arrival.names.get(value, value)
    special = SPECIAL.get(found.name)
    return row if special is None or special(row, arrival) else None


CLOSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "inbox": (("pending", "running", "waiting", "taken"), "withdrawn"),
    "outbox": (("queued", "sending", "draft"), "withdrawn"),
    "approval": (("pending", "approved"), "expired"),
    "schedule": (("active",), "paused"),
    "attachment": (("waiting",), "failed"),
}
"""What is open with the original, and is closed in a fork: nothing is done twice."""
_KEPT_IDS = frozenset({"turn", "merged_into", *forgetting.OWNED_BY, *forgetting.DONE_BY})


def _forked(found: Table, row: dict[str, Any], fork: UUID) -> bool:
    """Give a row ids and keys of its own; False: it is the original's alone, which goes on with it."""
    if found.name in ("identity", "timer"):
        return False
    if found.name in ("principal", "user_account"):
        return True
    for name, value in row.items():
        if isinstance(value, UUID) and name not in _KEPT_IDS:
            row[name] = uuid5(fork, value.hex)
    for name in ("key", "dedupe_key"):
        if name in row and found.name != "imported":
            row[name] = f"fork:{fork.hex}:{row[name]}"
    if found.name in ("approval", "schedule"):
        row["code"] = uuid5(fork, row["code"]).hex[:16].upper()
    statuses, closed = CLOSED.get(found.name, ((), ""))
    if row.get("status") in statuses:
        row["status"] = closed
        row |= {"note": PAUSED} if found.name == "schedule" else {}
    return True


def _arriving_principal(row: dict[str, Any], arrival: Arrival) -> bool:
    if high := [name for name, value in row.items() if type(value) is int and abs(value) >= 1 << COUNT_BITS]:
        raise MoveRefused(f"it has a principal whose {high[0]} is higher than anything counts")
    lease, tenancy = arrival.epochs.get(row["id"], (0, 0))
    row["epoch"], row["sandbox_epoch"] = max(row["epoch"], lease) + 1, max(row["sandbox_epoch"], tenancy) + 1
    here = arrival.volumes.get(row["id"])
    row["volume_id"], row["generation"] = (here["volume"], here["generation"]) if here else (None, 0)
    if row["kind"] != "user":
        raise MoveRefused(f"it is about a {row['kind']}, and people move")
    if arrival.fork is not None:
        row["drained_seq"] = row["inbox_seq"]
    return True


def _arriving_user(row: dict[str, Any], arrival: Arrival) -> bool:
    # Who administers here is for those to say who do.
    row["role"] = row["role"] if row["role"] == users.GUEST else "member"
    return True


def _arriving_generation(row: dict[str, Any], arrival: Arrival) -> bool:
    here = arrival.volumes.get(row["principal"])
    if here is None or row["generation"] != here["generation"]:
        return False
    row["manifest_digest"] = here["digest"]
    return True


def _arriving_session(row: dict[str, Any], arrival: Arrival) -> bool:
    row["due_at"] = now_us() + QUIET_SECONDS * 1_000_000
    return True


def _arriving_cold(row: dict[str, Any], arrival: Arrival) -> bool:
    # Read in one piece, whenever it is asked for.
    try:
        size = zstandard.frame_content_size(row["words"])
    except zstandard.ZstdError:
        size = -1
    if not 0 <= size <= COLD_BYTES:
        raise MoveRefused("it has a cold_turns that cannot be read")
    return True


def _arriving_merge(row: dict[str, Any], arrival: Arrival) -> bool:
    try:
        moved = json.loads(row["moved"] or "{}")
        # A role that an undoing would give back is one of the place they come from.
        moved.pop("role", None)
        if arrival.fork is not None:
            moved = {name: [uuid5(arrival.fork, UUID(one).hex).hex for one in ids] for name, ids in moved.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MoveRefused("it has a merge whose moved cannot be read") from error
    if not row["folder"].replace("-", "").isalnum() or not row["folder"].isascii():
        raise MoveRefused(f"it has a merge whose folder cannot be {row['folder'][:60]!r}")
    row["moved"] = json.dumps(moved)
    return True


SPECIAL: Mapping[str, Callable[[dict[str, Any], Arrival], bool]] = {
    "principal": _arriving_principal,
    "user_account": _arriving_user,
    "generation": _arriving_generation,
    "memory_session": _arriving_session,
    "cold_turns": _arriving_cold,
    "merge": _arriving_merge,
}


def clear(connection: Connection, owners: Sequence[UUID]) -> None:
    """Take out what is here of those who come back, but for the links of the journal, which what comes goes on with."""
    memory_index.remove(connection, owners)
    for found in reversed(forgetting.all_tables()):
        if found.name in ("principal", "journal_event", "move_grant", "departure", "room", "receipt"):
            continue
        if found.name in OWNER or "principal" in found.c:
            connection.execute(delete(found).where(owner_column(found).in_(owners)))


def make_findable(connection: Connection, owners: Sequence[UUID]) -> None:
    """Index notes and imported words anew; turns are found to be unsearchable by themselves."""
    standing = select(memory.note).where(memory.note.c.principal.in_(owners), memory.note.c.superseded_by.is_(None))
    notes = [
        memory_index.Item(row.principal, "note", str(row.id), row.body, int(row.at))
        for row in connection.execute(standing)
    ]
    brought = select(imported).where(imported.c.principal.in_(owners), imported.c.text != "")
    words = [
        memory_index.Item(row.principal, "imported", str(row.id), piece, int(row.at))
        for row in connection.execute(brought)
        for piece in memory_index.pieces(row.text)
    ]
    for start in range(0, len(found := notes + words), BATCH):
        memory_index.index_all(connection, found[start : start + BATCH])

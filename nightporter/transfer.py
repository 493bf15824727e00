"""A database copied into another one, SQLite or PostgreSQL, in one transaction, and compared before that commits.

Rows go table by table through the models, so that each side keeps them in its own types; the full-text index is made
anew from the words it was made of. A table that no model knows is an error: nothing is left behind silently.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection, Table, func, inspect, select, text
from sqlmodel import SQLModel

import identity
import workspace_store
from workspace_store import journal, memory_index, principal, schema

BATCH = 500
_NOT_DATA = ("alembic_version", "memory_search", "schema_floor")


class TransferError(Exception):
    """Nothing was written; the text says what to do."""


@dataclass(frozen=True)
class Transferred:
    """What was copied: rows by table, and journal events whose hashes were checked."""

    rows: dict[str, int]
    events: int


def tables() -> list[Table]:
    """Every table of this release, those that others refer to first."""
    for package in (workspace_store, identity):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.ispkg:
                importlib.import_module(module.name)
    return list(SQLModel.metadata.sorted_tables)


def row_counts(connection: Connection) -> dict[str, int]:
    """How many rows each table has."""
    return {one.name: int(connection.execute(select(func.count()).select_from(one)).scalar_one()) for one in tables()}


def broken_journals(connection: Connection) -> tuple[int, list[str]]:
    """Journal events that were read, and a sentence for each that does not fit its chain."""
    events, broken = 0, []
    for owner in principal.everyone(connection):
        checked, faults = journal.verify(connection, owner)
        events += checked
        broken += [f"{fault.principal} event {fault.seq}: {fault.what}" for fault in faults]
    return events, broken


def clear(connection: Connection) -> None:
    """Remove every row, the journal's too, which nothing else may remove; the tables stay."""
    with _unguarded(connection):
        for one in reversed(tables()):
            connection.execute(one.delete())
        connection.execute(text("DELETE FROM memory_search"))


@contextlib.contextmanager
def _unguarded(connection: Connection) -> Iterator[None]:
    """Without the triggers that keep the journal append-only, until the end of the block."""
    if connection.dialect.name == "sqlite":
        guards = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
        off, on = [f'DROP TRIGGER "{name}"' for name, _ in guards], [str(sql) for _, sql in guards]
    else:
        off, on = (
            [f'ALTER TABLE "{one.name}" {verb} TRIGGER USER' for one in tables()] for verb in ("DISABLE", "ENABLE")
        )
    for statement in off:
        connection.exec_driver_sql(statement)
    yield
    for statement in on:
        connection.exec_driver_sql(statement)


def copy(source: Connection, target: Connection, *, replace: bool = False) -> Transferred:
    """Copy everything, inside the target's transaction; what the target holds goes first where ``replace`` is set.

    Raises TransferError: another schema, a table of another release, rows where there should be none, or a copy that
    is not the same as what it was made of; the caller's transaction is to be rolled back.
    """
    _check_schema(source, "the source")
    _check_schema(target, "the target")
    there = {name: count for name, count in row_counts(target).items() if count}
    if (there.keys() - {"principal"} or there.get("principal", 0) > 1) and not replace:
        raise TransferError(f"the target is not empty ({_listed(there)}); name an empty database, or --replace it")
    if there:
        clear(target)
    for one in tables():
        for rows in _batches(source, one):
            target.execute(one.insert(), rows)
        _count_on(target, one)
    memory_index.copy(source, target)
    return _compared(source, target)


def _check_schema(connection: Connection, which: str) -> None:
    found = schema.version(connection)
    if found != schema.HEAD:
        raise TransferError(f"{which} is at schema {found} and this release has {schema.HEAD}: nightporter db migrate")
    known = {one.name for one in tables()}
    names = inspect(connection).get_table_names()
    strange = sorted(name for name in names if name not in known and not name.startswith(_NOT_DATA))
    if strange:
        raise TransferError(f"{which} has tables that this release does not know: {', '.join(strange)}")


def _batches(connection: Connection, one: Table) -> Iterator[list[dict[str, object]]]:
    key = list(one.primary_key.columns)
    rows = connection.execute(select(one).order_by(*key).execution_options(yield_per=BATCH))
    found = (dict(row._mapping) for row in rows)
    while batch := list(islice(found, BATCH)):
        yield batch


def _count_on(connection: Connection, one: Table) -> None:
    """PostgreSQL's counters do not see the numbers that were given with the rows."""
    if connection.dialect.name != "postgresql" or one.autoincrement_column is None:
        return
    column = one.autoincrement_column.name
    connection.execute(
        text(
            f"SELECT setval(pg_get_serial_sequence('{one.name}', '{column}'), greatest(max({column}), 1), "
            f'max({column}) IS NOT NULL) FROM "{one.name}"'
        )
    )


def _compared(source: Connection, target: Connection) -> Transferred:
    before, after = row_counts(source), row_counts(target)
    if before != after:
        other = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
        raise TransferError(f"the copy has other rows than its source: {other}")
    heads = select(principal.principal.c.id, principal.principal.c.head_seq, principal.principal.c.head_hash)
    if set(map(tuple, source.execute(heads))) != set(map(tuple, target.execute(heads))):
        raise TransferError("the copy's journals end elsewhere than their source's")
    events, broken = broken_journals(target)
    if broken:
        raise TransferError(f"journals do not hold in the copy: {'; '.join(broken[:5])}")
    return Transferred(after, events)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))

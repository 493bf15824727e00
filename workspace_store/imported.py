"""Words that a person said elsewhere and brought along: kept as they were, found like turns, and never part of a wake.

Each has the id it had where it came from: brought again, it is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from sqlalchemy import BigInteger, Column, Connection, Index, Text, func, select
from sqlmodel import Field, SQLModel

from workspace_store import journal, memory_index, principal
from workspace_store.database import storable, table
from workspace_store.journal import Event
from workspace_store.memory_index import Item


class ImportedRow(SQLModel, table=True):
    """``key``: its id where it came from."""

    __tablename__ = "imported"
    __table_args__ = (
        Index("imported_key", "principal", "key", unique=True),
        Index("imported_order", "principal", "at"),
    )

    id: UUID = Field(primary_key=True)
    principal: UUID
    key: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    role: str
    channel: str
    text: str = Field(sa_column=Column(Text, nullable=False))


imported = table(ImportedRow)


@dataclass(frozen=True)
class Words:
    """Something said elsewhere; ``at`` in microseconds."""

    key: str
    at: int
    role: str
    text: str
    channel: str = ""


@dataclass(frozen=True)
class Taken:
    """What became of a batch: how many are new, were there, and the keys that were there with other words."""

    new: int
    known: int
    other: frozenset[str]


def take(connection: Connection, owner: UUID, batch: Sequence[Words]) -> Taken:
    """Keep what is not there yet, in one transaction with the event that tells of it. Keys in a batch differ."""
    principal.lock(connection, owner)
    keys = [words.key for words in batch]
    query = select(imported.c.key, imported.c.text, imported.c.role).where(
        imported.c.principal == owner, imported.c.key.in_(keys)
    )
    there = {row.key: (row.text, row.role) for row in connection.execute(query)}
    fresh = [words for words in batch if words.key not in there]
    rows = [
        {
            "id": uuid5(owner, words.key), "principal": owner, "key": words.key, "at": words.at, "role": words.role,
            "channel": words.channel, "text": storable(words.text),
        }
        for words in fresh
    ]  # fmt: skip
    if rows:
        connection.execute(imported.insert(), rows)
        items = [
            Item(owner, "imported", str(row["id"]), piece, words.at)
            for row, words in zip(rows, fresh, strict=True)
            for piece in memory_index.pieces(words.text)
        ]
        memory_index.index_all(connection, items)
        body = {"count": len(rows), "first": min(w.at for w in fresh), "last": max(w.at for w in fresh)}
        journal.append(connection, owner, [Event("history.imported", body)], under=None)
    # What was forgotten since has no words to differ in.
    other = {w.key for w in batch if w.key in there and there[w.key][0] and there[w.key] != (storable(w.text), w.role)}
    return Taken(len(fresh), len(batch) - len(fresh), frozenset(other))


def get(connection: Connection, scope: Sequence[UUID], identifiers: Sequence[UUID]) -> dict[UUID, Words]:
    """Imported words by their id here."""
    query = select(imported).where(imported.c.principal.in_(scope), imported.c.id.in_(identifiers))
    return {r.id: Words(r.key, int(r.at), r.role, r.text, r.channel) for r in connection.execute(query)}


def around(connection: Connection, scope: Sequence[UUID], identifier: UUID, each_side: int = 2) -> list[Words]:
    """Imported words with what was said just before and after them, in order."""
    query = select(imported).where(imported.c.principal.in_(scope))
    row = connection.execute(query.where(imported.c.id == identifier)).one_or_none()
    if row is None:
        return []
    near = query.where(imported.c.principal == row.principal)
    before = near.where(imported.c.at < row.at).order_by(imported.c.at.desc()).limit(each_side)
    after = near.where(imported.c.at > row.at).order_by(imported.c.at).limit(each_side)
    rows = [*reversed(connection.execute(before).all()), row, *connection.execute(after)]
    return [Words(r.key, int(r.at), r.role, r.text, r.channel) for r in rows]


def count(connection: Connection, owner: UUID) -> int:
    """How much was brought along."""
    return int(connection.execute(select(func.count()).where(imported.c.principal == owner)).scalar_one())

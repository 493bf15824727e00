"""Notes a principal's memory is made of: what was said or learned, from where, since when, and instead of what.

A note is never changed. What contradicts it is a new note that supersedes it; the old one is found no more and stays
readable. Searching is ``memory_search``'s, forgetting ``erasure``'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid5

from sqlalchemy import BigInteger, Column, Connection, Float, Index, Text, bindparam, func, select, update
from sqlmodel import Field, SQLModel

from workspace_store import memory_index, principal
from workspace_store.database import now_us, storable, table
from workspace_store.memory_index import index
from workspace_store.memory_search import Hit, Vector, search, within

__all__ = ["Hit", "Kind", "Note", "Vector", "index", "search", "within"]

Kind = Literal["fact", "preference", "decision", "lesson", "runbook"]
KINDS: tuple[Kind, ...] = ("fact", "preference", "decision", "lesson", "runbook")
Source = Literal["told", "agent", "session", "postmortem"]
"""Who made it a note: the person by their own word, the agent in a turn, or a look back at a session or a failed
task."""
NAMED_BY = 8
"""Characters of a note's id that people and models name it by."""
NOTES = UUID("7b1d8a52-9c0e-4a5f-8f6d-3d1f2f6c9e10")


class NoteRow(SQLModel, table=True):
    """A note: what, from which turn, since when. ``subject``: what it says something of, where that can be told."""

    __tablename__ = "note"
    __table_args__ = (
        Index("note_of", "principal", "at"),
        Index("note_key", "key", unique=True),
        Index("note_subject", "principal", "subject"),
        Index("note_turn", "turn"),
    )

    id: UUID = Field(primary_key=True)
    key: str
    principal: UUID
    body: str = Field(sa_column=Column(Text, nullable=False))
    turn: UUID | None = None
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    superseded_by: UUID | None = None
    kind: str = "fact"
    source: str = "told"
    confidence: float = Field(default=1.0, sa_column=Column(Float, nullable=False))
    subject: str = Field(default="", sa_column=Column(Text, nullable=False))
    journaled: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


note = table(NoteRow)

# As the first migration made the index; ``memory_index`` has what it is now.
SQLITE_SEARCH = (
    """CREATE VIRTUAL TABLE memory_search USING fts5(
        body, principal, kind UNINDEXED, ref UNINDEXED, at UNINDEXED,
        tokenize = "unicode61 remove_diacritics 2")""",
)
POSTGRESQL_SEARCH = (
    """CREATE TABLE memory_search (
        body text NOT NULL, principal text NOT NULL, kind text NOT NULL, ref text NOT NULL, at bigint NOT NULL,
        words tsvector NOT NULL)""",
    "CREATE INDEX memory_search_words ON memory_search USING gin (words)",
    "CREATE INDEX memory_search_of ON memory_search (principal, ref)",
)


@dataclass(frozen=True)
class Note:
    """``turn``: where it was written, if in one. ``confidence``: 1 for a person's own word. ``superseded_by``: the note
    that stands instead."""

    id: UUID
    body: str
    turn: UUID | None
    at: int
    kind: str = "fact"
    source: str = "told"
    confidence: float = 1.0
    superseded_by: UUID | None = None
    principal: UUID | None = None
    journaled: int | None = None

    @property
    def name(self) -> str:
        """What people and models call it by."""
        return self.id.hex[:NAMED_BY]


_COLUMNS = [note.c[name] for name in Note.__dataclass_fields__]
_MINE = note.c.principal.in_(bindparam("scope", expanding=True))
_EVER = select(*_COLUMNS).where(_MINE).order_by(note.c.at.desc()).limit(bindparam("most"))
_NOTES = _EVER.where(note.c.superseded_by.is_(None))


def identifier_of(key: str) -> UUID:
    """The id that a note with this key has, or will have."""
    return uuid5(NOTES, key)


def write_note(
    connection: Connection,
    owner: UUID,
    key: str,
    body: str,
    turn: UUID | None,
    *,
    kind: str = "fact",
    source: Source = "told",
    confidence: float = 1.0,
    subject: str = "",
    supersedes: Sequence[UUID] = (),
    journaled: int | None = None,
) -> UUID:
    """Write a note; the same ``key`` again (a turn that resumed) is the same note.

    ``supersedes``: notes of the owner, or of whoever was merged into them, that it stands instead of from now on.
    ``journaled``: the journal's number of the event that tells of it, for a note of no turn.
    """
    there = connection.execute(select(note.c.id).where(note.c.key == key)).scalar()
    if there is not None:
        return UUID(str(there))
    identifier, body, at = identifier_of(key), storable(body), now_us()
    connection.execute(
        note.insert().values(
            id=identifier, key=key, principal=owner, body=body, turn=turn, at=at, superseded_by=None, kind=kind,
            source=source, confidence=confidence, subject=storable(subject), journaled=journaled,
        )
    )  # fmt: skip
    index(connection, owner, "note", str(identifier), body, at)
    scope = principal.scope(connection, owner)
    for old in supersedes:
        supersede(connection, scope, old, identifier)
    return identifier


def supersede(connection: Connection, scope: Sequence[UUID], old: UUID, new: UUID) -> None:
    """Let one note stand for another of the same scope: the old one stays, and is no longer found."""
    mine = (note.c.id == old, note.c.principal.in_(scope), note.c.superseded_by.is_(None), note.c.id != new)
    if connection.execute(update(note).where(*mine).values(superseded_by=new)).rowcount == 1:
        memory_index.remove(connection, scope, str(old))


def notes(connection: Connection, owner: UUID, limit: int = 50, *, ever: bool = False) -> list[Note]:
    """The newest notes that still stand, newest first: the owner's and those of whoever was merged into them.

    With ``ever`` those too that another stands for now.
    """
    given = {"scope": principal.scope(connection, owner), "most": limit}
    return [_read(row) for row in connection.execute(_EVER if ever else _NOTES, given)]


def of_subject(connection: Connection, owner: UUID, subject: str, kind: str | None = None) -> list[Note]:
    """Notes that still stand and say something of the same thing, newest first."""
    if not subject:
        return []
    query = _NOTES.where(note.c.subject == subject)
    query = query if kind is None else query.where(note.c.kind == kind)
    given = {"scope": principal.scope(connection, owner), "most": 20}
    return [_read(row) for row in connection.execute(query, given)]


def of_kind(connection: Connection, owner: UUID, kind: str, limit: int) -> list[Note]:
    """The newest standing notes of a kind."""
    given = {"scope": principal.scope(connection, owner), "most": limit}
    return [_read(row) for row in connection.execute(_NOTES.where(note.c.kind == kind), given)]


def find(connection: Connection, owner: UUID, name: str) -> list[Note]:
    """The notes of an owner that are called so: by id, or the beginning of one."""
    wanted = name.lower().strip("`").removeprefix("#").replace("-", "")
    if len(wanted) < NAMED_BY or not set(wanted) <= set("0123456789abcdef"):
        return []
    scope = principal.scope(connection, owner)
    low, high = UUID(hex=wanted[:32].ljust(32, "0")), UUID(hex=wanted[:32].ljust(32, "f"))
    query = select(*_COLUMNS).where(note.c.principal.in_(scope), note.c.id.between(low, high)).limit(10)
    return [_read(row) for row in connection.execute(query)]


def predecessors(connection: Connection, owner: UUID, of: Note) -> list[Note]:
    """What a note took the place of, newest first."""
    scope, found, waiting = principal.scope(connection, owner), list[Note](), [of.id]
    while waiting and len(found) < 100:
        query = select(*_COLUMNS).where(note.c.principal.in_(scope), note.c.superseded_by.in_(waiting))
        older = [_read(row) for row in connection.execute(query.order_by(note.c.at.desc()))]
        found += older
        waiting = [one.id for one in older]
    return found


def count(connection: Connection, owner: UUID) -> int:
    """How many of an owner's notes still stand."""
    standing = select(func.count()).where(note.c.principal == owner, note.c.superseded_by.is_(None))
    return int(connection.execute(standing).scalar_one())


def as_json(found: Note) -> dict[str, Any]:
    """A note for programs to read; times in Unix seconds."""
    return {
        "id": str(found.id), "text": found.body, "kind": found.kind, "source": found.source,
        "confidence": found.confidence, "at": found.at / 1e6, "turn": found.turn and str(found.turn),
        "superseded_by": found.superseded_by and str(found.superseded_by),
    }  # fmt: skip


def _read(row: Any) -> Note:
    return Note(**row._mapping)

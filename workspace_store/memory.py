"""Notes a principal's memory is made of, and full-text search over them and over folded turns.

The scope is in the query itself: no search can return another principal's words, but those merged into it are its own.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, func, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import principal
from workspace_store.database import now_us, storable, table

SEARCHED_CHARACTERS = 100_000
"""Of one text, on PostgreSQL, whose search vectors hold 1 MB; the rest is kept and not searched."""


class NoteRow(SQLModel, table=True):
    """A note: what, from which turn, since when, and what it supersedes."""

    __tablename__ = "note"
    __table_args__ = (Index("note_of", "principal", "at"), Index("note_key", "key", unique=True))

    id: UUID = Field(primary_key=True)
    key: str
    principal: UUID
    body: str = Field(sa_column=Column(Text, nullable=False))
    turn: UUID | None = None
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    superseded_by: UUID | None = None


note = table(NoteRow)

SQLITE_SEARCH = (
    """CREATE VIRTUAL TABLE memory_search USING fts5(
        body, principal, kind UNINDEXED, ref UNINDEXED, at UNINDEXED,
        tokenize = "unicode61 remove_diacritics 2")""",
)
# PostgreSQL's own parser takes a path or an address for one word; the words it gets are ours (``_plain``).
POSTGRESQL_SEARCH = (
    """CREATE TABLE memory_search (
        body text NOT NULL, principal text NOT NULL, kind text NOT NULL, ref text NOT NULL, at bigint NOT NULL,
        words tsvector NOT NULL)""",
    "CREATE INDEX memory_search_words ON memory_search USING gin (words)",
    "CREATE INDEX memory_search_of ON memory_search (principal, ref)",
)


@dataclass(frozen=True)
class Note:
    id: UUID
    body: str
    turn: UUID | None
    at: int


@dataclass(frozen=True)
class Hit:
    """``kind``: ``note`` or ``turn``; ``ref``: the id of either."""

    kind: str
    ref: str
    body: str
    at: int


_NOTES = (
    select(note.c.id, note.c.body, note.c.turn, note.c.at)
    .where(note.c.principal.in_(bindparam("scope", expanding=True)), note.c.superseded_by.is_(None))
    .order_by(note.c.at.desc())
    .limit(bindparam("most"))
)


def write_note(connection: Connection, owner: UUID, key: str, body: str, turn: UUID | None) -> UUID:
    """Write a note; the same ``key`` again (a turn that resumed) is the same note."""
    there = connection.execute(select(note.c.id).where(note.c.key == key)).scalar()
    if there is not None:
        return UUID(str(there))
    identifier = uuid4()
    body = storable(body)
    at = now_us()
    connection.execute(
        note.insert().values(id=identifier, key=key, principal=owner, body=body, turn=turn, at=at, superseded_by=None)
    )
    index(connection, owner, "note", str(identifier), body, at)
    return identifier


def notes(connection: Connection, owner: UUID, limit: int = 50) -> list[Note]:
    """The newest notes that still stand, newest first: the owner's and those of whoever was merged into them."""
    rows = connection.execute(_NOTES, {"scope": principal.scope(connection, owner), "most": limit})
    return [Note(row.id, row.body, row.turn, row.at) for row in rows]


def count(connection: Connection, owner: UUID) -> int:
    """How many of an owner's notes still stand."""
    standing = select(func.count()).where(note.c.principal == owner, note.c.superseded_by.is_(None))
    return int(connection.execute(standing).scalar_one())


def supersede(connection: Connection, old: UUID, new: UUID) -> None:
    connection.execute(update(note).where(note.c.id == old).values(superseded_by=new))


def index(connection: Connection, owner: UUID, kind: str, ref: str, body: str, at: int) -> None:
    """Make ``body`` findable for its owner."""
    body = storable(body)
    values = {"body": body, "owner": owner.hex, "kind": kind, "ref": ref, "at": at}
    if connection.dialect.name == "sqlite":
        sql = "INSERT INTO memory_search (body, principal, kind, ref, at) VALUES (:body, :owner, :kind, :ref, :at)"
    else:
        sql = """INSERT INTO memory_search (body, principal, kind, ref, at, words)
                 VALUES (:body, :owner, :kind, :ref, :at, to_tsvector('simple', :words))"""
        values["words"] = _plain(body)
    connection.execute(text(sql), values)


def _plain(body: str) -> str:
    """The words of a text as SQLite's unicode61 sees them: without case, accents and what stands between them."""
    decomposed = unicodedata.normalize("NFKD", body[:SEARCHED_CHARACTERS]).casefold()
    bare = "".join(character for character in decomposed if not unicodedata.combining(character))
    return " ".join(re.findall(r"[^\W_]+", bare))[:SEARCHED_CHARACTERS]


def search(connection: Connection, owner: UUID, query: str, limit: int = 5) -> list[Hit]:
    """The best matches for any word of ``query`` among the words of the owner and of those merged into them."""
    words = re.findall(r"\w+", query)[:32]
    if not words:
        return []
    scope = [one.hex for one in principal.scope(connection, owner)]
    if connection.dialect.name == "sqlite":
        # The owner is a word to look up too: the cost does not grow with what others have said.
        whose = " OR ".join(f'"{one}"' for one in scope)
        match = f"principal : ({whose}) AND body : (" + " OR ".join(f'"{word}"' for word in words) + ")"
        sql = """SELECT kind, ref, body, at FROM memory_search
                 WHERE memory_search MATCH :match AND principal IN :scope
                 ORDER BY bm25(memory_search, 1.0, 0.0), at DESC LIMIT :limit"""
    else:
        match = " | ".join(f"'{word}'" for word in _plain(" ".join(words)).split())
        sql = """SELECT kind, ref, body, at FROM memory_search
                 WHERE words @@ to_tsquery('simple', :match) AND principal IN :scope
                 ORDER BY ts_rank(words, to_tsquery('simple', :match)) DESC, at DESC LIMIT :limit"""
    statement = text(sql).bindparams(bindparam("scope", expanding=True))
    rows = connection.execute(statement, {"match": match, "scope": scope, "limit": limit})
    return [Hit(row.kind, row.ref, row.body, int(row.at)) for row in rows]
